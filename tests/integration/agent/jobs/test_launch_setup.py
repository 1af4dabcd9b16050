"""Setup and teardown of a launch: TMPDIR, the site's prolog and epilog, and idle GPUs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.agent.conftest import Gpus, MakeAgent
from tests.support.agent import FROM_SOURCE, AgentProcess
from tests.support.processes import kill
from tests.support.waiting import eventually

from warpdeck_agent.storage.tmpdirs import prefix_of
from warpdeck_agent.wire import messages as wire

pytestmark = pytest.mark.lab
GIB = 1 << 30


@pytest.fixture
def place(short_tmp: Path) -> Path:
    """The folder in which TMPDIRs are created."""
    (short_tmp / "scratch").mkdir()
    return short_tmp / "scratch"


def test_tmpdir_is_private_empty_and_removed_at_the_end(agent: AgentProcess, place: Path) -> None:
    fill = "mkdir -p a/b && touch a/b/c && ln -s / a/root && chmod 000 a/b && chmod 500 a"
    script = f'cd "$TMPDIR" && stat -c %a . && ls -A | wc -l && {fill} && echo "$TMPDIR"'
    assert agent.run(1, script, tmp_dir=str(place)).exit_code == 0
    mode, entries, path = agent.text(1).split()
    assert (mode, entries) == ("700", "0") and path.startswith(f"{place}/")
    assert list(place.iterdir()) == []


MOUNTED = 'mkdir "$TMPDIR/data" "$TMPDIR/a b" && mount --bind {keep} "$TMPDIR/data" && mount -t tmpfs none "$TMPDIR/a b"'


@pytest.fixture
def agent_in_namespace(short_tmp: Path) -> Iterator[AgentProcess]:
    """An agent with its own mount namespace and a file system mounted on the folder of temporary files."""
    script = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
    program = ["unshare", "--mount", "sh", "-c", script, f"{short_tmp}/scratch", *FROM_SOURCE]
    new_agent_process = AgentProcess(short_tmp / "agent", program=program)
    new_agent_process.start()
    yield new_agent_process
    new_agent_process.close()


def test_mounts_in_a_tmpdir_are_unmounted_and_their_files_kept(
    place: Path, agent_in_namespace: AgentProcess, short_tmp: Path
) -> None:
    (short_tmp / "keep").mkdir()
    (short_tmp / "keep/weights").write_text("of three weeks")
    report = agent_in_namespace.run(
        1, f"{MOUNTED.format(keep=short_tmp / 'keep')} && echo $TMPDIR", tmp_dir=str(place)
    )
    assert report.exit_code == 0
    assert (short_tmp / "keep/weights").read_text() == "of three weeks"
    agent_in_namespace.run(2, f"ls -A {place}; grep -c {place}/ /proc/self/mounts", tmp_dir="")
    assert agent_in_namespace.text(2).split() == ["0"]


def test_the_path_of_tmpdir_is_short_enough_for_the_sockets_of_ray(agent: AgentProcess) -> None:
    below = "ray/session_2026-12-31_23-59-59_999999_4194304/sockets/plasma_store"
    bind = f"import os, socket\nsocket.socket(socket.AF_UNIX).bind(os.environ['TMPDIR'] + '/{below}')"
    script = f'mkdir -p "$TMPDIR/$(dirname {below})" && python3 -c "{bind}"'
    report = agent.run(9_999_999, script, tmp_dir="", env={"PATH": "/usr/bin:/bin"})
    assert report.exit_code == 0, agent.text(9_999_999)


def test_a_tmpdir_that_cannot_be_removed_is_reported(place: Path, agent_in_namespace: AgentProcess) -> None:
    script = f'touch "$TMPDIR/f" && mount -o remount,ro {place} && echo "$TMPDIR"'
    assert agent_in_namespace.run(1, script, tmp_dir=str(place)).exit_code == 0
    remark = agent_in_namespace.link.expect(wire.Remark)
    assert (remark.job_id, remark.text) == (
        1,
        f"cannot remove the job's files in {agent_in_namespace.text(1).strip()}",
    )


def test_a_tree_deeper_than_any_recursion_is_removed(agent: AgentProcess, place: Path) -> None:
    nest = "import os\nos.chdir(os.environ['TMPDIR'])\nfor _ in range(1200): os.mkdir('d'); os.chdir('d')"
    report = agent.run(1, f'python3 -c "{nest}"', tmp_dir=str(place), env={"PATH": "/usr/bin:/bin"})
    assert report.exit_code == 0 and list(place.iterdir()) == []


def test_each_job_has_a_separate_tmpdir_and_ignores_that_of_the_user(
    agent: AgentProcess, place: Path
) -> None:
    for job in (1, 2):
        environ = {"PATH": "/usr/bin:/bin", "TMPDIR": "/nowhere"}
        agent.run(job, "echo $TMPDIR", tmp_dir=str(place), env=environ)
    assert agent.text(1) != agent.text(2) and "/nowhere" not in (agent.text(1), agent.text(2))


def test_many_short_launches_leave_nothing(agent: AgentProcess, place: Path) -> None:
    jobs = [agent.new_id() for _ in range(40)]
    for job in jobs:
        agent.launch(job, 'echo "$TMPDIR"; ls -A "$TMPDIR"', tmp_dir=str(place))
    for job in jobs:
        agent.link.report(job, "exited")
    output = [agent.text(job).splitlines() for job in jobs]
    assert all(len(lines) == 1 for lines in output) and len({lines[0] for lines in output}) == len(jobs)
    eventually(lambda: not list(place.iterdir()), what="no folder is kept for launches that do not come")


def test_leftovers_of_a_killed_agent_are_removed_at_the_next_start(agent: AgentProcess, place: Path) -> None:
    agent.launch(1, 'touch "$TMPDIR/mine"; sleep 1000', tmp_dir=str(place))
    (kept,) = eventually(lambda: [path for path in place.glob("*") if (path / "mine").exists()])
    stale = place / f"{prefix_of(agent.identity)}99.0-x"
    foreign = place / f"{prefix_of('0123456789abcdef')}1.0-x"
    for folder in (stale, foreign):
        (folder / "deep").mkdir(parents=True)
    agent.kill()
    agent.start()
    eventually(lambda: not stale.exists(), what="the folder of a forgotten job is removed")
    assert (kept / "mine").exists() and foreign.exists()
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=0.0))
    agent.link.report(1, "exited")
    assert not kept.exists()


def test_a_full_or_missing_folder_for_temporary_files_is_reported(agent: AgentProcess, place: Path) -> None:
    agent.launch(1, "true", tmp_dir=f"{place}/missing")
    failure = agent.link.expect(wire.LaunchFailed)
    assert (
        failure.message
        == f"cannot create a folder for temporary files in {place}/missing: No such file or directory"
    )
    assert not failure.again and not failure.drain
    assert agent.run(2, "exit 3", tmp_dir=str(place)).exit_code == 3


SMALL = 'mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"'


def test_a_job_that_fills_its_tmpdir_does_not_prevent_the_next(short_tmp: Path, place: Path) -> None:
    program = ["unshare", "--mount", "sh", "-c", SMALL, str(place), *FROM_SOURCE]
    agent = AgentProcess(short_tmp / "agent", program=program)
    try:
        agent.start()
        fill = 'head -c 10000000 /dev/zero >"$TMPDIR/big"; echo $?'
        for job in (1, 2):
            assert agent.run(job, fill, tmp_dir=str(place)).exit_code == 0
            assert "No space left" in agent.text(job) and agent.text(job).endswith("1")
        assert agent.run(3, 'head -c 500000 /dev/zero >"$TMPDIR/fits"', tmp_dir=str(place)).exit_code == 0
    finally:
        agent.close()


@pytest.fixture
def hook(short_tmp: Path) -> Iterator[Path]:
    """A program of the site that records its environment and follows instructions from the test."""
    path = short_tmp / "hook"
    path.write_text(f"#!/bin/sh\nenv >>{short_tmp}/seen\n. {short_tmp}/act\n")
    path.chmod(0o755)
    (short_tmp / "act").write_text("true")
    yield path


def hooks(path: Path, *, timeout_s: float = 20.0) -> wire.Hooks:
    return wire.Hooks(str(path), str(path), timeout_s=timeout_s, env={"SLURM_JOB_ID": "1"})


def test_prolog_and_epilog_have_only_the_environment_of_the_site(
    agent: AgentProcess, hook: Path, short_tmp: Path
) -> None:
    environ = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": "/tmp/evil.so", "SLURM_JOB_ID": "forged"}
    report = agent.run(1, f"cat {short_tmp}/seen; exit 5", hooks=hooks(hook), env=environ)
    assert (report.exit_code, report.cause, report.message, report.drain) == (5, "", "", "")
    before, after = agent.text(1), (short_tmp / "seen").read_text()
    assert "SLURM_SCRIPT_CONTEXT=prolog_slurmd" in before and "epilog" not in before
    assert "SLURM_SCRIPT_CONTEXT=epilog_slurmd" in after and "SLURM_JOB_EXIT_CODE2=5:0" in after
    assert after.count("SLURM_JOB_ID=1\n") == 2 and "evil" not in after and "forged" not in after


def test_a_failing_prolog_refuses_the_launch_and_drains_the_node(
    agent: AgentProcess, hook: Path, short_tmp: Path
) -> None:
    (short_tmp / "act").write_text("echo the scratch disk is not mounted >&2; exit 3")
    agent.launch(1, f"touch {short_tmp}/ran", hooks=hooks(hook))
    failure = agent.link.expect(wire.LaunchFailed)
    assert failure.again and failure.drain == failure.message
    assert failure.message == f"the prolog {hook} failed (exit 3): the scratch disk is not mounted"
    assert not (short_tmp / "ran").exists()


def test_a_failing_epilog_drains_the_node_and_leaves_the_job_result(
    agent: AgentProcess, hook: Path, short_tmp: Path
) -> None:
    agent.launch(1, f"echo 'kill -9 $$' >{short_tmp}/act", hooks=hooks(hook))
    report = agent.link.report(1, "exited")
    assert (report.exit_code, report.cause) == (0, "")
    assert report.drain == f"the epilog {hook} failed (signal 9)"


def test_a_hanging_hook_is_killed_with_its_children(agent: AgentProcess, hook: Path, short_tmp: Path) -> None:
    (short_tmp / "act").write_text(f"sleep 1000 & echo $! >{short_tmp}/child; wait")
    agent.launch(1, "true", hooks=hooks(hook, timeout_s=3.0))
    assert agent.link.expect(wire.LaunchFailed).drain.endswith("took longer than 3 s")
    child = int((short_tmp / "child").read_text())
    eventually(lambda: not Path(f"/proc/{child}").exists(), what="the child has ended too")


@pytest.mark.parametrize("flaw", ["missing", "writable", "not a program"])
def test_a_missing_or_unsafe_hook_is_reported(agent: AgentProcess, hook: Path, flaw: str) -> None:
    if flaw == "missing":
        hook.unlink()
    else:
        hook.chmod(0o777 if flaw == "writable" else 0o644)
    agent.launch(1, "true", hooks=hooks(hook))
    failure = agent.link.expect(wire.LaunchFailed)
    assert f"the prolog {hook}" in failure.drain
    assert ("may change it" if flaw == "writable" else "cannot run the prolog") in failure.drain


def test_the_epilog_runs_although_the_agent_was_killed(
    agent: AgentProcess, hook: Path, short_tmp: Path
) -> None:
    agent.launch(1, "sleep 1000", hooks=hooks(hook))
    agent.first_process(1)
    agent.kill()
    kill([agent.supervisor(), *agent.processes(1)])
    agent.start()
    agent.link.report(1, "lost")
    assert "epilog_slurmd" in (short_tmp / "seen").read_text()


FREEZER = Path("/sys/fs/cgroup/freezer")
"""The freezer of cgroup v1. A process that is frozen there survives SIGKILL, as if it hung in the kernel."""


def test_a_process_that_survives_sigkill_drains_the_node(agent: AgentProcess) -> None:
    if not FREEZER.exists():
        return  # v2 kills frozen processes too, so nothing here can withstand SIGKILL
    frozen = FREEZER / f"warpdeck-{agent.identity}"
    frozen.mkdir()
    try:
        agent.launch(1, "setsid sleep 1001 & exit 4")
        agent.launch(2, "sleep 1002", unkillable_s=1.5)
        agent.first_process(2)
        (pid, *_) = eventually(lambda: agent.processes(2), what="the job runs")
        (frozen / "cgroup.procs").write_text(str(pid))
        (frozen / "freezer.state").write_text("FROZEN")
        eventually(lambda: (frozen / "freezer.state").read_text() == "FROZEN\n", what="the process is frozen")
        agent.link.send(wire.Kill(job_id=2, restarts=0, grace_s=0.0))
        report = agent.link.report(2, "lost")
        assert (
            report.message == "processes of the job survived KILL for 1.5 s" and report.cause == "cancelled"
        )
        assert report.drain.startswith("Kill task failed: job 2: ") and f"(pid {pid}, root)" in report.drain
        assert agent.link.report(1, "exited").drain == ""
    finally:
        (frozen / "freezer.state").write_text("THAWED")
        eventually(lambda: not (frozen / "cgroup.procs").read_text(), what="the process is dead")
        frozen.rmdir()


def on_gpus(make_agent: MakeAgent, gpus: Gpus, *lines: str) -> AgentProcess:
    gpus.show("gpu 0 uuid=GPU-0", "gpu 1 uuid=GPU-1", *lines)
    agent = make_agent(**gpus.environ)
    agent.start()
    return agent


def test_a_foreign_process_on_the_gpu_fails_the_launch_with_a_retry(
    make_agent: MakeAgent, gpus: Gpus
) -> None:
    stranger = subprocess.Popen(["sleep", "1002"])
    try:
        agent = on_gpus(make_agent, gpus, f"proc 0 pid={stranger.pid} mem={30 * GIB} type=C")
        agent.launch(1, "true", gpus=["GPU-0"], empty_gpus=True)
        failure = agent.link.expect(wire.LaunchFailed)
        assert failure.message == f"GPU 0 is held by root outside the queue (pid {stranger.pid}, 30.0 GiB)"
        assert failure.again and not failure.drain
        assert agent.link.has(wire.Sample), "the sample that shows it arrived first"
        assert agent.run(2, "exit 2", gpus=["GPU-1"], empty_gpus=True).exit_code == 2
        assert agent.run(3, "exit 3", gpus=["GPU-0"]).exit_code == 3, "the site disabled the check"
    finally:
        stranger.kill()
        stranger.wait()


def test_jobs_that_share_a_gpu_do_not_count_as_foreign(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent = on_gpus(make_agent, gpus)
    share = {"gpus": ["GPU-0"], "gpu_share_pct": 50, "empty_gpus": True}
    agent.launch(1, "sleep 1000", **share)
    agent.first_process(1)
    (pid, *_) = eventually(lambda: agent.processes(1), what="the first runs")
    gpus.show("gpu 0 uuid=GPU-0 mem=85899345920", "gpu 1 uuid=GPU-1", f"proc 0 pid={pid} mem={GIB} type=C")
    assert agent.run(2, "exit 2", **share).exit_code == 2


def test_the_end_is_reported_after_the_gpu_is_empty_and_measured(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent = on_gpus(make_agent, gpus)
    agent.launch(1, "sleep 1000", gpus=["GPU-0"], empty_gpus=True)
    agent.first_process(1)
    (pid, *_) = eventually(lambda: agent.processes(1), what="the job runs")
    gpus.show("gpu 0 uuid=GPU-0", "gpu 1 uuid=GPU-1", f"proc 0 pid={pid} mem={GIB} type=C stays=1")
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=0.0))
    eventually(lambda: not agent.processes(1), what="the processes are dead")
    agent.launch(2, "true", gpus=["GPU-1"])  # meanwhile the agent continues with other launches
    agent.link.report(2, "exited")
    assert not agent.link.has_report(1, "exited"), "the driver has not freed its memory"
    gpus.show("gpu 0 uuid=GPU-0", "gpu 1 uuid=GPU-1")
    agent.link.report(1, "exited")
    assert agent.link.has(wire.Sample)


def test_a_gpu_with_unexplained_memory_takes_no_launch(make_agent: MakeAgent, gpus: Gpus) -> None:
    gpus.show(f"gpu 0 uuid=GPU-a used={31 * GIB}")
    agent = make_agent(**gpus.environ)
    agent.start()
    agent.launch(1, "true", gpus=["GPU-a"], empty_gpus=True)
    refused = agent.link.expect(wire.LaunchFailed)
    assert refused.message == "31.0 GiB of GPU 0 are in use, but no process is visible" and refused.again
    gpus.show("gpu 0 uuid=GPU-a")
    assert agent.run(2, "true", gpus=["GPU-a"], empty_gpus=True).exit_code == 0


def test_an_end_is_reported_after_the_driver_has_freed_the_memory(make_agent: MakeAgent, gpus: Gpus) -> None:
    gpus.show("gpu 0 uuid=GPU-a")
    agent = make_agent(**gpus.environ)
    agent.serve()
    agent.connect(sample_interval_s=0.1)
    agent.launch(1, "sleep 1000", gpus=["GPU-a"])
    agent.link.report(1, "running")
    gpus.show(f"gpu 0 uuid=GPU-a used={31 * GIB}")
    agent.link.expect(wire.Sample, lambda message: bool(message.gpus[0].unexplained_bytes))
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=0.0))
    eventually(lambda: not agent.processes(1), what="the process is dead")
    for _ in range(3):
        agent.link.expect(wire.Sample)
    assert not agent.link.has_report(1, "exited")
    gpus.show("gpu 0 uuid=GPU-a")
    agent.link.report(1, "exited")
