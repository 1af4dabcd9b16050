"""Containment of jobs with each combination of cgroup hierarchies: v2, v1, both and none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import FROM_SOURCE, AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.isolation.job_processes import stat_fields
from warpdeck_agent.wire import messages as wire

pytestmark = pytest.mark.lab
MIB = 1 << 20
WITHOUT = """
for kind in $0; do
    awk -v kind="$kind" '{ for (i = 7; $i != "-"; i++); if ($(i + 1) == kind) print $5 }' /proc/self/mountinfo |
        sort -r | while read -r mount; do umount "$mount" || exit 1; done
done
exec "$@"
"""
"""Unmount file systems of the given kinds, then run the command.

The agent cannot use a cgroup hierarchy that is not mounted.
"""
FORMS = {"all": "", "v1": "cgroup2", "v2": "cgroup", "none": "cgroup cgroup2"}


@pytest.fixture(scope="module", params=FORMS)
def agent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent that finds only the given cgroup hierarchies.

    Tests use new job ids and leave the agent unchanged.
    """
    folder = tmp_path_factory.mktemp("wd")
    program = ["unshare", "--mount", "sh", "-c", WITHOUT, FORMS[request.param], *FROM_SOURCE]
    new_agent_process = AgentProcess(folder / "agent", program=program)
    new_agent_process.start()
    yield new_agent_process
    new_agent_process.close()


def strength(agent: AgentProcess, name: str) -> str:
    """Return how strictly the node enforces a limit, as its inventory states it."""
    return {each.name: each.strength for each in agent.welcome.inventory.facilities}[name]


def ran(pid: str) -> bool:
    """Return whether a process runs and is not a zombie."""
    fields = stat_fields(int(pid))
    return bool(fields) and fields[0] != "Z"


def test_the_node_reports_its_enforced_limits(agent: AgentProcess) -> None:
    names = [each.name for each in agent.connect().inventory.facilities]
    assert names == ["end", "memory", "cpus", "processes", "folders", "devices"]
    held = json.loads(started(agent, mem_bytes=64 * MIB)[1])["hold"]
    if strength(agent, "end") != "enforced":
        assert held["groups"] == []
    assert (held["watch_mem_bytes"] == 0) is (strength(agent, "memory") == "enforced")


def test_a_job_over_its_memory_limit_ends_out_of_memory_with_its_peak(agent: AgentProcess) -> None:
    job = agent.new_id()
    hog = "import signal; held = bytearray(300 << 20); signal.pause()"
    report = agent.run(job, f"python3 -c '{hog}'", mem_bytes=100 * MIB, env={"PATH": "/usr/bin:/bin"})
    assert report.cause == "oom" and report.message.startswith("out of memory: the job used")
    assert report.peak_mem_bytes >= 90 * MIB
    assert f"oom-kill event(s) in StepId={job}.batch" in agent.text(job)


def test_a_job_within_its_memory_limit_ends_normally(agent: AgentProcess) -> None:
    report = agent.run(agent.new_id(), "exit 3", mem_bytes=100 * MIB)
    assert (report.exit_code, report.cause, report.message) == (3, "", "")


def test_no_process_of_a_job_outlives_it(agent: AgentProcess) -> None:
    """The job starts daemons, processes with sessions of their own and a process without the job tag."""
    job = agent.new_id()
    scrubbed = "env -i setsid sleep 1003 &\necho $!\n"
    agent.launch(job, f"setsid sleep 1001 &\n{scrubbed}(sleep 1002 & ) &\nexit 4")
    assert agent.link.report(job, "exited").exit_code == 4
    assert agent.processes(job) == []
    assert not ran(agent.text(job))
    groups = meta(agent, job)["hold"]["groups"]
    assert not any(os.path.exists(path) for path in groups), (
        "the cgroups are removed before the end is reported"
    )


CHAIN = """
#include <unistd.h>
int main(int argc, char **argv) {
    for (;;) {
        if (argc > 1) setsid();
        if (fork()) _exit(0);
    }
}
"""
"""A program in which each process starts the next one and exits.

With an argument, each process gets its own session.
"""


@pytest.mark.parametrize("environment", ["", "env -i"])
@pytest.mark.parametrize("sessions", ["", "own"])
def test_a_chain_of_respawning_processes_ends_with_its_job(
    agent: AgentProcess, short_tmp: Path, environment: str, sessions: str
) -> None:
    program, pipe, job = short_tmp / "chain", short_tmp / "pipe", agent.new_id()
    argv = ["gcc", "-O2", "-x", "c", "-", "-o", str(program)]
    subprocess.run(argv, input=CHAIN, text=True, check=True, timeout=60)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        begin = f"{environment} setsid {program} {sessions} 7>{pipe} &\nexec 7>{pipe}; echo y >&7; exit 4"
        assert agent.run(job, begin, max_processes=1000).exit_code == 4
        assert os.read(reader, 2) == b"y\n"
        assert os.read(reader, 1) == b"", "no process has the pipe open, so none is left"
    finally:
        os.close(reader)


def test_a_process_that_left_its_cgroup_ends_with_the_allocation(agent: AgentProcess) -> None:
    job = agent.new_id()
    agent.launch(job, role="hold")
    agent.link.report(job, "running")
    agent.begin_step(job, 0, "setsid sleep 1006 &")
    agent.step_end(job, 0)
    (daemon,) = agent.processes(job)
    for group in meta(agent, job)["hold"]["groups"]:
        (Path(str(group)).parent.parent / "cgroup.procs").write_text(str(daemon))
    agent.link.send(wire.Kill(job_id=job, restarts=0, grace_s=0.0))
    agent.link.report(job, "exited")
    eventually(lambda: not agent.processes(job), what="the process is found by its tag")
    agent.link.send(wire.Forget(job_id=job, restarts=0))
    eventually(lambda: agent.record(job) is None, what="the allocation is released")


def test_a_daemon_without_its_tag_ends_after_the_last_job_of_its_user(agent: AgentProcess) -> None:
    if strength(agent, "end") == "enforced":
        return  # the daemon ended with its job
    job = agent.new_id()
    agent.run(job, "(env -i setsid sleep 1005 & echo $!)")
    daemon = Path("/proc") / agent.text(job)
    eventually(lambda: not daemon.exists(), what="the agent, as the subreaper, has reaped it and ended")


def test_a_fork_bomb_stays_within_its_limit(agent: AgentProcess) -> None:
    """Without cgroups, check only the setting: root is exempt from the process limit of setrlimit."""
    job = agent.new_id()
    if strength(agent, "processes") != "enforced":
        agent.run(job, "awk '/Max processes/ { print $3 }' /proc/self/limits", max_processes=30)
        assert int(agent.text(job)) >= 30
        return
    bomb = "i=0; while [ $i -lt 200 ]; do sleep 1004 & i=$((i + 1)); done; echo over"
    agent.launch(job, bomb, max_processes=30)
    assert agent.link.report(job, "exited").exit_code == 2
    assert "Cannot fork" in agent.text(job) and "over" not in agent.text(job)
    assert agent.processes(job) == []
    assert agent.run(agent.new_id(), "exit 0").exit_code == 0


def test_an_endless_fork_bomb_is_contained_and_killed_completely(agent: AgentProcess) -> None:
    """The classic fork bomb: each process starts two more and retries when a fork fails."""
    if strength(agent, "processes") != "enforced":
        return  # root has no other limit on processes
    job = agent.new_id()
    agent.launch(job, "exec bash -c 'bomb() { bomb | bomb & }; bomb; sleep 1000'", max_processes=100)
    eventually(lambda: "Resource temporarily unavailable" in agent.text(job), what="the job is at its limit")
    for _ in range(3):
        assert agent.run(agent.new_id(), "sleep 0.01 | cat; exit 4").exit_code == 4
    agent.link.send(wire.Kill(job_id=job, restarts=0, grace_s=0.0))
    assert agent.link.report(job, "exited").cause == "cancelled"
    assert agent.processes(job) == []


def test_a_job_sees_the_requested_cpus(agent: AgentProcess) -> None:
    if (os.cpu_count() or 1) < 2:
        return
    job = agent.new_id()
    agent.run(job, "nproc; taskset -pc 0-1 $$ >/dev/null 2>&1; nproc", cpus=1)
    first, after = agent.text(job).split()
    assert first == "1"
    assert after == "1" or strength(agent, "cpus") != "enforced"
    both = agent.new_id()
    agent.run(both, "nproc", cpus=1, confine=[])
    assert int(agent.text(both)) == len(os.sched_getaffinity(0))


def test_parallel_jobs_get_different_cpus(agent: AgentProcess) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        return
    first, second = started(agent, cpus=1)[0], started(agent, cpus=1)[0]
    taken = [set(meta(agent, job)["hold"]["cpus"]) for job in (first, second)]
    assert len(taken[0]) == len(taken[1]) == 1 and not taken[0] & taken[1]
    third = started(agent, cpus=1)[0]
    assert meta(agent, third)["hold"]["cpus"] == [], "no CPU is free, so the job may use all"
    end(agent, first)
    assert set(meta(agent, started(agent, cpus=1)[0])["hold"]["cpus"]) == taken[0]


@pytest.fixture(autouse=True)
def nothing_left(agent: AgentProcess) -> Iterator[None]:
    """End the jobs that a test leaves running."""
    yield
    for job in agent.records():
        end(agent, job)


def started(agent: AgentProcess, **fields: object) -> tuple[int, str]:
    """Start a job; return its id and its metadata."""
    job = agent.new_id()
    agent.launch(job, "sleep 1000", **fields)
    agent.link.report(job, "running")
    return job, agent.meta(job)


def end(agent: AgentProcess, job: int) -> None:
    """End a job and wait until the agent has released everything that the job held."""
    agent.link.send(wire.Kill(job_id=job, restarts=0, grace_s=0.0))
    eventually(lambda: forgotten(agent, job), what=f"job {job} has ended")


def forgotten(agent: AgentProcess, job: int) -> str:
    agent.link.send(wire.Forget(job_id=job, restarts=0))
    return agent.text(job, "forgotten")


def meta(agent: AgentProcess, job: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(agent.meta(job))
    return found


def test_the_page_cache_does_not_count_as_memory_usage(agent: AgentProcess, tmp_path: Path) -> None:
    job = agent.new_id()
    report = agent.run(job, f"head -c {200 * MIB} /dev/zero >{tmp_path}/written", mem_bytes=400 * MIB)
    assert (report.exit_code, (tmp_path / "written").stat().st_size) == (0, 200 * MIB)
    assert report.peak_mem_bytes < 100 * MIB


def test_a_launch_inherits_nothing_from_a_reused_cgroup(agent: AgentProcess) -> None:
    """Peak memory and CPU time start at zero, forks succeed, and no earlier out-of-memory kill counts."""
    work = "import os, time; held = bytearray(60 << 20); end = time.process_time() + 0.4\nwhile time.process_time() < end: pass"
    limits = {"mem_bytes": 100 * MIB, "max_processes": 500, "env": {"PATH": "/usr/bin:/bin"}}
    before = agent.run(agent.new_id(), f"exec python3 -c '{work}'", **limits)
    assert before.peak_mem_bytes >= 50 * MIB and before.cpu_seconds > 0.3
    agent.run(agent.new_id(), "setsid sleep 1004 &\nexit 0", **limits)
    report = agent.run(agent.new_id(), "sh -c 'exit 3' & wait $!", **limits)
    assert (report.exit_code, report.cause) == (3, "")
    assert report.peak_mem_bytes < 30 * MIB and report.cpu_seconds < 0.3
    agent.run(agent.new_id(), "exec python3 -c 'held = bytearray(300 << 20)'", **limits)
    assert agent.run(agent.new_id(), "true", **limits).cause == ""


def test_a_process_that_enters_the_cgroup_of_an_ended_launch_does_not_join_the_next(
    agent: AgentProcess, tmp_path: Path
) -> None:
    """A group that the next launch will reuse keeps the path of the ended launch until then."""
    job, over = agent.new_id(), tmp_path / "over"
    agent.launch(job, f"while [ ! -e {over} ]; do sleep 0.05; done")
    agent.link.report(job, "running")
    held = [Path(str(group)) for group in meta(agent, job)["hold"]["groups"]]
    over.touch()
    agent.link.report(job, "exited")
    remaining = [group for group in held if group.exists()]
    with subprocess.Popen(["sleep", "1005"]) as late:
        for group in remaining:
            (group / "cgroup.procs").write_text(str(late.pid))
        report = agent.run(agent.new_id(), "cat /proc/self/cgroup")
        where = Path(f"/proc/{late.pid}/cgroup").read_text()
        late.kill()
    assert report.exit_code == 0 and where.count(f"/job-{job}.0\n") == len(remaining)


def test_the_cpu_time_of_a_job_includes_its_script_and_steps(agent: AgentProcess, tmp_path: Path) -> None:
    """This also holds on nodes without a cgroup that counts CPU time."""
    job, over = agent.new_id(), tmp_path / "over"
    work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    agent.launch(job, f"{work}; while [ ! -e {over} ]; do sleep 0.1; done")
    agent.link.report(job, "running")
    for step in range(2):
        agent.begin_step(job, step, f"({work}) & wait", tasks=2)
    steps_s = sum(agent.step_end(job, step).cpu_seconds for step in range(2))
    over.touch()
    report = agent.link.report(job, "exited")
    assert report.own is not None and steps_s > 0.1 and report.own.cpu_seconds > 0.03
    assert report.cpu_seconds >= 0.9 * (steps_s + report.own.cpu_seconds)


def test_a_task_out_of_memory_is_reported_and_the_job_continues(agent: AgentProcess) -> None:
    """If the kernel enforces the memory limit, only the task is killed. Otherwise the whole job is ended."""
    job = agent.new_id()
    agent.launch(job, "sleep 1000", mem_bytes=100 * MIB)
    agent.link.report(job, "running")
    agent.begin_step(job, 0, "kill -9 $$")
    assert [(end.signal, end.oom) for end in agent.step_end(job, 0).ends] == [(9, False)]
    agent.begin_step(job, 1, "exec python3 -c 'held = bytearray(b\"1\") * (300 << 20); input()' </dev/zero")
    (end,) = agent.step_end(job, 1).ends
    if strength(agent, "memory") == "enforced":
        assert (end.signal, end.oom) == (9, True)
        agent.begin_step(job, 2, "exit 3")
        assert [(end.code, end.oom) for end in agent.step_end(job, 2).ends] == [(3, False)]
        agent.link.send(wire.Kill(job_id=job, restarts=0, cause="cancelled"))
        assert agent.link.report(job, "exited").cause == "cancelled"
    else:
        assert not end.oom and agent.link.report(job, "exited").cause == "oom"


def test_a_step_over_its_memory_limit_ends_alone_with_its_peak(agent: AgentProcess) -> None:
    job = agent.new_id()
    agent.launch(job, "sleep 1000", mem_bytes=600 * MIB)
    agent.link.report(job, "running")
    hog = "import signal; held = bytearray(b'1') * ({} << 20); print(1, flush=True); signal.pause()"
    hog = f'exec python3 -c "{hog}"'
    agent.begin_step(job, 0, hog.format(200), mem_bytes=300 * MIB)
    eventually(lambda: agent.text(job, "steps/0/0/out") == "1", what="the job has allocated its memory")
    agent.begin_step(job, 1, hog.format(300), mem_bytes=100 * MIB)
    over = agent.step_end(job, 1)
    assert [(end.signal, end.oom) for end in over.ends] == [(9, True)]
    assert over.peak_mem_bytes >= 90 * MIB and not over.message
    assert f"oom-kill event(s) in StepId={job}.1." in agent.text(job, "steps/1/0/err")
    agent.begin_step(job, 2, "exit 3")
    assert [(end.code, end.oom) for end in agent.step_end(job, 2).ends] == [(3, False)], (
        "the step has no separate cgroup"
    )
    assert not agent.text(job, "steps/0/0/rc"), "another step with the same limit continues"
    agent.link.send(wire.Kill(job_id=job, restarts=0, cause="cancelled"))
    report = agent.link.report(job, "exited")
    assert report.cause == "cancelled" and not report.message
    held = meta(agent, job)["hold"]["groups"]
    assert not any(os.path.exists(f"{group}/step-{step}") for group in held for step in range(3))


def test_processes_left_by_a_step_with_a_separate_cgroup_end_with_the_job(agent: AgentProcess) -> None:
    job = agent.new_id()
    agent.launch(job, "sleep 1000", mem_bytes=300 * MIB)
    agent.link.report(job, "running")
    agent.begin_step(job, 0, "env -i setsid sleep 1007 & echo $!", mem_bytes=100 * MIB)
    report = agent.step_end(job, 0)
    remaining = agent.text(job, "steps/0/0/out")
    assert [(end.code, end.oom) for end in report.ends] == [(0, False)] and ran(remaining)
    agent.connect()
    agent.link.send(wire.Kill(job_id=job, restarts=0, grace_s=0.0))
    agent.link.report(job, "exited")
    if strength(agent, "end") == "enforced":
        assert not ran(remaining)
    held = meta(agent, job)["hold"]["groups"]
    assert not any(os.path.exists(str(group)) and os.path.exists(f"{group}/step-0") for group in held)


def test_a_restarted_agent_keeps_the_memory_limits_of_steps(agent: AgentProcess) -> None:
    job = agent.new_id()
    agent.launch(job, "sleep 1000", mem_bytes=600 * MIB)
    agent.link.report(job, "running")
    hog = "import signal; {}; held = bytearray(b'1') * (300 << 20); signal.pause()"
    waits = "signal.signal(signal.SIGUSR1, lambda *_: None); print(1, flush=True); signal.pause()"
    for step in range(2):
        agent.begin_step(job, step, f'exec python3 -c "{hog.format(waits)}"', mem_bytes=100 * MIB)
    for step in range(2):
        eventually(lambda step=step: agent.text(job, f"steps/{step}/0/out") == "1", what="the job waits")
    pids = [pid for pid in agent.processes(job) if Path(f"/proc/{pid}/comm").read_text().startswith("python")]
    agent.kill()
    if strength(agent, "memory") == "enforced":
        os.kill(pids[0], signal.SIGUSR1)
        eventually(lambda: not ran(str(pids[0])), what="the kernel has killed it while no agent ran")
        pids.pop(0)
    message = {step.step: step for step in agent.start().steps}
    for pid in pids:
        os.kill(pid, signal.SIGUSR1)
    message |= {step: agent.step_end(job, step) for step in range(2) if message[step].phase == "running"}
    assert [(end.signal, end.oom) for step in message.values() for end in step.ends] == 2 * [(9, True)]
    assert all(step.peak_mem_bytes >= 90 * MIB for step in message.values())
