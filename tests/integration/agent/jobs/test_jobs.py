"""The agent's jobs over its wire: normal ends, kills, and adoption by an agent that restarts."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.support.agent import FROM_SOURCE, AgentProcess, run_to_end
from tests.support.waiting import eventually

from warpdeck_agent.registry.ending import NOT_BEGUN
from warpdeck_agent.supervisor.starter import START
from warpdeck_agent.wire import messages as wire

WAIT_FOR_GATE = "while [ ! -e {gate} ]; do sleep 0.05; done\n"


def gated(agent: AgentProcess, rest: str) -> tuple[Path, str]:
    """Return a gate file and a script that waits for it."""
    gate = agent.folder.parent / "gate"
    return gate, WAIT_FOR_GATE.format(gate=gate) + rest


@pytest.mark.parametrize(
    ("script", "code", "number"),
    [
        ("exit 0", 0, 0),
        ("exit 3", 3, 0),
        ("kill -9 $$", 0, signal.SIGKILL),
        ("kill -SEGV $$", 0, signal.SIGSEGV),
        ("exit 137", 137, 0),
        ("exit 255", 255, 0),
    ],
)
def test_the_exit_status_is_reported(shared: AgentProcess, script: str, code: int, number: int) -> None:
    report = shared.run(shared.new_id(), script)
    assert (report.phase, report.exit_code, report.signal, report.cause) == ("exited", code, number, "")


def test_tasks_get_their_ranks_and_the_worst_exit_code_counts(agent: AgentProcess) -> None:
    command = ["sh", "-c", "echo $SLURM_PROCID/$SLURM_LOCALID; exit $SLURM_LOCALID"]
    report = agent.run(1, role="tasks", argv=command, tasks=3, first_rank=4)
    assert report.exit_code == 2
    assert sorted(agent.text(1).split()) == ["4/0", "5/1", "6/2"]


@pytest.mark.parametrize(("folder", "number"), [("plain", signal.SIGINT), ("lr=0.1", signal.SIGTERM)])
def test_tasks_react_to_ctrl_c_from_a_folder_of_any_name(
    agent: AgentProcess, folder: str, number: int
) -> None:
    program = agent.folder.parent / folder / "program"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ntouch "$0.$SLURM_PROCID"\nexec sleep 60\n')
    program.chmod(0o755)
    agent.launch(1, role="tasks", argv=[str(program)], tasks=2)
    for rank in range(2):
        eventually(Path(f"{program}.{rank}").exists, what=f"task {rank} runs")
    agent.link.send(wire.Kill(job_id=1, restarts=0, signal=number))
    assert agent.link.report(1, "exited").signal == number


def test_variables_of_several_tasks_are_unchanged_despite_name_clashes(
    agent: AgentProcess,
) -> None:
    names = ("tasks", "rank", "listens", "i", "pids", "pid", "code", "ended", "go", "mode")
    tell = "".join(f'echo "{name}=${name}"; ' for name in names)
    env = {"PATH": "/usr/bin:/bin", **{name: f"own {name}" for name in names}}
    agent.launch(1, role="tasks", argv=["sh", "-c", tell], tasks=2, env=env)
    assert agent.link.report(1, "exited").exit_code == 0
    assert sorted(agent.text(1).splitlines()) == sorted(f"{name}=own {name}" for name in names * 2)


def test_a_launch_sent_twice_runs_once_and_a_restart_runs_again(agent: AgentProcess) -> None:
    runs = agent.folder.parent / "runs"
    for restarts in (0, 0, 1):
        agent.launch(1, f"echo ran >>{runs}", restarts=restarts)
    agent.link.report(1, "exited", restarts=0)
    agent.link.report(1, "exited", restarts=1)
    agent.launch(1, f"echo ran >>{runs}")
    assert agent.link.report(1, "exited").exit_code == 0
    assert runs.read_text() == "ran\nran\n"


def test_an_environment_with_a_null_byte_is_refused_with_a_message(agent: AgentProcess) -> None:
    agent.launch(1, "true", env={"X": "a\0b"})
    assert "cannot be passed on" in agent.link.expect(wire.LaunchFailed).message
    assert agent.run(2, "true").exit_code == 0


def test_a_job_that_ignores_term_is_killed_after_the_grace_time(agent: AgentProcess) -> None:
    agent.launch(1, "trap '' TERM\necho ready\nwhile :; do sleep 0.1; done")
    eventually(lambda: "ready" in agent.text(1), what="the trap is set")
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=0.2))
    report = agent.link.report(1, "exited")
    assert (report.signal, report.cause) == (signal.SIGKILL, "cancelled")


def test_a_job_can_clean_up_within_the_grace_time(agent: AgentProcess) -> None:
    agent.launch(1, "trap 'echo saved; exit 5' TERM\necho ready\nwhile :; do sleep 0.1; done")
    eventually(lambda: "ready" in agent.text(1), what="the trap is set")
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=60.0))
    report = agent.link.report(1, "exited")
    assert (report.exit_code, report.cause) == (5, "cancelled")
    assert "saved" in agent.text(1).splitlines()


def test_daemons_end_with_their_job(agent: AgentProcess) -> None:
    report = agent.run(1, "setsid sleep 1000 >/dev/null 2>&1 &\n(setsid sleep 1001 &)\nexit 0")
    assert report.exit_code == 0
    eventually(lambda: not agent.processes(1), what="the daemons have ended")


def test_a_signal_sends_nothing_else(agent: AgentProcess) -> None:
    agent.launch(1, "trap 'echo got; exit 6' USR1\necho ready\nwhile :; do sleep 0.1; done")
    eventually(lambda: "ready" in agent.text(1), what="the trap is set")
    agent.link.send(wire.Kill(job_id=1, restarts=0, signal=signal.SIGUSR1))
    report = agent.link.report(1, "exited")
    assert (report.exit_code, report.cause) == (6, "")


def test_the_agent_enforces_the_time_limit_by_itself(agent: AgentProcess) -> None:
    agent.launch(1, "sleep 1000", time_limit_s=0.3, grace_s=5.0)
    report = agent.link.report(1, "exited")
    assert (report.signal, report.cause) == (signal.SIGTERM, "timeout")


def test_a_time_limit_that_passed_without_an_agent_is_enforced_later(agent: AgentProcess) -> None:
    agent.launch(1, "sleep 1000", time_limit_s=1.0, grace_s=5.0)
    agent.link.report(1, "running")
    agent.first_process(1)
    agent.kill()
    agent.start()
    assert agent.link.report(1, "exited").cause == "timeout"


def test_a_restarted_agent_adopts_running_jobs_and_reports_ended_ones(agent: AgentProcess) -> None:
    gate, script = gated(agent, "exit 4")
    end = agent.folder.parent / "end"
    agent.launch(1, script)
    agent.launch(2, WAIT_FOR_GATE.format(gate=end) + "exit 5")
    for job in (1, 2):
        agent.first_process(job)
    agent.kill()
    end.touch()
    eventually(lambda: has_ended(agent, 2), what="job 2 has ended")
    agent.start()
    assert agent.link.report(2, "exited").exit_code == 5
    agent.link.report(1, "running")
    gate.touch()
    assert agent.link.report(1, "exited").exit_code == 4


def test_an_end_is_repeated_in_each_welcome_until_it_is_forgotten(agent: AgentProcess) -> None:
    agent.run(1, "exit 3")
    assert [(message.job_id, message.exit_code) for message in agent.connect().jobs] == [(1, 3)]
    agent.link.send(wire.Forget(job_id=1, restarts=0))
    assert agent.connect().jobs == []
    agent.kill()
    assert agent.start().jobs == []


def has_ended(agent: AgentProcess, job_id: int) -> bool:
    """Return whether the node has recorded the job's exit status."""
    record = agent.record(job_id)
    return record is not None and record.status() is not None


@pytest.mark.parametrize("agent_lives", [True, False])
def test_jobs_survive_a_killed_supervisor_but_never_count_as_successful(
    agent: AgentProcess, agent_lives: bool
) -> None:
    gate, script = gated(agent, "sleep 1000 & exit 0")
    agent.launch(1, script)
    agent.first_process(1)
    if not agent_lives:
        agent.kill()
    os.kill(agent.supervisor(), signal.SIGKILL)
    if not agent_lives:
        agent.start()
    assert agent.run(2, "exit 3").exit_code == 3, "another supervisor serves later launches"
    assert agent.processes(1)
    gate.touch()
    report = agent.link.report(1, "lost")
    assert report.exit_code != 0 and "not known" in report.message
    eventually(lambda: not agent.processes(1), what="no process of it is left")


def test_quit_ends_the_agent_and_leaves_jobs_running(agent: AgentProcess) -> None:
    gate, script = gated(agent, "exit 7")
    agent.launch(1, script)
    agent.first_process(1)
    agent.link.send(wire.Quit())
    assert agent.process is not None and agent.process.wait(30.0) == 0
    assert agent.processes(1)
    agent.start()
    gate.touch()
    assert agent.link.report(1, "exited").exit_code == 7


def test_starting_a_running_agent_changes_nothing(agent: AgentProcess) -> None:
    done = run_to_end([*FROM_SOURCE, "start", "--dir", str(agent.folder)])
    assert '"running": true' in done.stdout
    assert agent.run(1, "true").exit_code == 0


def test_missing_output_folders_are_created(agent: AgentProcess) -> None:
    out, err = (agent.folder.parent / "new" / name / f"{name}.txt" for name in ("out", "err"))
    assert agent.run(1, "echo o; echo e >&2", stdout=str(out), stderr=str(err)).exit_code == 0
    assert (out.read_text(), err.read_text()) == ("o\n", "e\n")


def test_an_output_file_is_truncated_or_appended_to(agent: AgentProcess) -> None:
    out = agent.folder.parent / "out.txt"
    out.write_text("old\n")
    agent.run(1, "echo new", stdout=str(out), append=True)
    assert out.read_text() == "old\nnew\n"
    agent.run(2, "echo new", stdout=str(out))
    assert out.read_text() == "new\n"


@pytest.mark.parametrize("channel", ["stdout", "stderr"])
def test_unwritable_output_fails_the_launch_with_a_clear_reason(agent: AgentProcess, channel: str) -> None:
    folder = str(agent.folder.parent)
    report = agent.run(1, "true", **{"stdout": "/dev/null", channel: folder})
    assert (report.exit_code, report.signal, report.cause) == (*NOT_BEGUN, "launch_failed")
    assert report.message == f"cannot write the output file {folder}"


def test_a_missing_input_file_fails_the_launch(agent: AgentProcess) -> None:
    missing = str(agent.folder.parent / "missing.txt")
    report = agent.run(1, "true", stdin=missing)
    assert (report.exit_code, report.signal, report.cause) == (*NOT_BEGUN, "launch_failed")
    assert report.message == f"cannot read the input file {missing}"


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("missing", "No such file or directory"),
        ("file/below", "No such file or directory"),
        ("file", "Not a directory"),
        ("it's `missing`\\n $HOME *", "No such file or directory"),
    ],
)
def test_a_job_without_its_working_folder_runs_in_tmp(agent: AgentProcess, folder: str, reason: str) -> None:
    parent = agent.folder.parent
    (parent / "file").touch()
    (out, err), missing = (parent / "out.txt", parent / "err.txt"), str(parent / folder)
    script = "#!/bin/sh\npwd; env | grep WARPDECK_NO_FOLDER; type missing"
    assert agent.run(1, script, cwd=missing, stdout=str(out), stderr=str(err)).exit_code != 0
    assert out.read_text().splitlines()[0] == "/tmp"
    assert "WARPDECK_NO_FOLDER" not in out.read_text(), "the job does not see the variable of its first shell"
    line = f"slurmstepd: error: couldn't chdir to `{missing}': {reason}: going to /tmp instead\n"
    assert err.read_text().startswith(2 * line)


def test_output_in_a_missing_working_folder_fails_the_launch(agent: AgentProcess) -> None:
    missing = agent.folder.parent / "missing"
    report = agent.run(1, "true", cwd=str(missing), stdout=f"{missing}/slurm-1.out")
    assert (report.exit_code, report.signal, report.cause) == (*NOT_BEGUN, "launch_failed")
    assert report.message == (
        f"cannot write the output file {missing}/slurm-1.out: "
        f"{missing}, the working folder of the job: No such file or directory"
    )
    assert not missing.exists(), "only folders of output files are created, never the working folder"


def test_an_output_folder_that_cannot_be_created_fails_the_launch(agent: AgentProcess) -> None:
    report = agent.run(1, "true", stdout="/proc/nowhere/x.out")
    assert report.message == "cannot create the folder /proc/nowhere/ for the output"


def test_a_share_without_processes_survives_the_agent_and_ends_on_request(agent: AgentProcess) -> None:
    agent.launch(1, role="hold")
    agent.link.report(1, "running")
    agent.kill()
    agent.start()
    agent.link.report(1, "running")
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=5.0))
    assert agent.link.report(1, "exited").cause == "cancelled"


def test_a_share_without_processes_has_a_time_limit(agent: AgentProcess) -> None:
    agent.launch(1, role="hold", time_limit_s=0.1)
    assert agent.link.report(1, "exited").cause == "timeout"


def test_output_in_the_agents_folder_can_be_read_after_the_job_was_forgotten(agent: AgentProcess) -> None:
    agent.run(1, "echo kept")
    agent.link.send(wire.Forget(job_id=1, restarts=0))
    agent.link.send(wire.OpenLog(stream=3, job_id=1, restarts=0))
    agent.link.expect(wire.StreamEnd)
    assert agent.link.data[3] == b"kept\n"


def test_each_start_and_end_of_quick_launches_is_reported(agent: AgentProcess) -> None:
    """A job that ends at once has its start and end reported together. Otherwise the start comes alone."""
    short, long = [agent.new_id() for _ in range(8)], agent.new_id()
    for job in short:
        agent.launch(job, "exit 3")
    agent.launch(long, "exec sleep 1005")
    assert agent.link.report(long, "running").pid
    for job in short:
        report = agent.link.report(job, "exited")
        assert report.exit_code == 3 and report.ended_at >= report.started_at > 0
    agent.link.send(wire.Kill(job_id=long, restarts=0, cause="cancelled", grace_s=0.0))
    agent.link.report(long, "exited")


@pytest.mark.parametrize("environ", [{"LD_PRELOAD": "/nowhere/x.so"}, {"LD_DEBUG": "libs"}])
def test_messages_of_the_dynamic_linker_fail_no_launch(agent: AgentProcess, environ: dict[str, str]) -> None:
    report = agent.run(1, "exit 5", env={"PATH": "/usr/bin:/bin", **environ})
    assert (report.exit_code, report.signal, report.cause, report.message) == (5, 0, "", "")


def test_a_removed_start_script_fails_the_launch(agent: AgentProcess) -> None:
    start = agent.folder / START
    start.unlink()
    report = agent.run(1, "exit 5")
    assert (report.signal, report.cause) == (NOT_BEGUN[1], "launch_failed")
    assert report.message == f"cannot read the file {start}"
