"""Steps on a real agent over its wire: tasks, streams, ends and adoption.

The tests also cover the access socket for the processes of jobs.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import AgentProcess, Link
from tests.support.waiting import eventually

from warpdeck_agent.steps.step_streams import MAX_BEHIND_BYTES
from warpdeck_agent.wire import steps as wire
from warpdeck_agent.wire.frames import FrameDecoder, json_frame, parse_json
from warpdeck_agent.wire.messages import Forget, StreamAck, StreamEnd

HEADER = wire.TASK_HEADER


@pytest.fixture
def job(agent: AgentProcess) -> int:
    """A launch that runs until it is ended."""
    job_id = agent.new_id()
    agent.launch(job_id, "exec sleep 600")
    agent.link.report(job_id, "running")
    return job_id


def start(agent: AgentProcess, job: int, *argv: str, tasks: int = 1, step: int = 0, **fields: Any) -> None:
    reads = bool(fields.pop("reads", False))
    agent.link.send(
        wire.StepLaunch(
            job_id=job,
            restarts=0,
            step=step,
            env={"PATH": os.environ["PATH"], **fields.pop("env", {})},
            cwd=str(agent.folder.parent),
            argv=list(argv),
            tasks=[
                wire.StepTask(rank=rank, env={"SLURM_PROCID": str(rank)}, reads=reads)
                for rank in range(tasks)
            ],
            **fields,
        )
    )


def ended(agent: AgentProcess, job: int, *, step: int = 0) -> wire.StepReport:
    return agent.link.expect(
        wire.StepReport,
        lambda message: (message.job_id, message.step, message.phase) == (job, step, "exited"),
    )


def pieces(link: Link, stream: int) -> dict[tuple[int, int], bytes]:
    """Return the data of a step's stream by task and channel."""
    link.expect(StreamEnd, lambda message: message.stream == stream)
    return sort(bytes(link.data.get(stream, b"")))


def sort(data: bytes) -> dict[tuple[int, int], bytes]:
    """Split data by task and channel.

    Each piece must be at most one line, because the test's link joins frames.
    """
    found: dict[tuple[int, int], bytes] = {}
    while data:
        rank, channel, _ = HEADER.unpack_from(data)
        line, _, data = data[HEADER.size :].partition(b"\n")
        found[rank, channel] = found.get((rank, channel), b"") + line + b"\n"
    return found


def test_the_end_of_each_task_is_reported(agent: AgentProcess, job: int) -> None:
    start(agent, job, "sh", "-c", "exit $SLURM_PROCID", tasks=2)
    assert {(end.rank, end.code) for end in ended(agent, job).ends} == {(0, 0), (1, 1)}


def test_output_arrives_with_the_id_of_its_task(agent: AgentProcess, job: int) -> None:
    start(agent, job, "sh", "-c", "echo out $SLURM_PROCID; echo bad >&2", tasks=2)
    ended(agent, job)
    agent.link.send(wire.OpenStep(stream=5, job_id=job, restarts=0, step=0))
    assert pieces(agent.link, 5) == {
        (0, wire.OUT): b"out 0\n",
        (0, wire.ERR): b"bad\n",
        (1, wire.OUT): b"out 1\n",
        (1, wire.ERR): b"bad\n",
    }


def test_a_stream_requested_during_the_start_misses_nothing(agent: AgentProcess, job: int) -> None:
    start(agent, job, "sh", "-c", "echo out $SLURM_PROCID", tasks=32)
    agent.link.send(wire.OpenStep(stream=5, job_id=job, restarts=0, step=0))
    ended(agent, job)
    assert pieces(agent.link, 5) == {(rank, wire.OUT): b"out %d\n" % rank for rank in range(32)}


def test_acknowledged_output_is_not_sent_again(agent: AgentProcess, job: int) -> None:
    start(agent, job, "echo", "one two")
    ended(agent, job)
    agent.link.send(wire.OpenStep(stream=5, job_id=job, restarts=0, step=0, have={"0.1": "4"}))
    assert pieces(agent.link, 5) == {(0, wire.OUT): b"two\n"}


def test_tasks_are_stopped_while_too_much_of_their_output_is_unsent(agent: AgentProcess, job: int) -> None:
    """The test's link acknowledges nothing at first, like a reader that has stopped. Then it takes everything."""
    agent.link.acknowledges = False
    start(agent, job, "sh", "-c", "yes warpdeck | head -c 1G")
    agent.link.send(wire.OpenStep(stream=5, job_id=job, restarts=0, step=0))
    out = eventually(
        lambda: next(agent.folder.glob(f"jobs/{job}.0/steps/0/0/out"), None), what="the output file"
    )
    eventually(lambda: out.stat().st_size > MAX_BEHIND_BYTES, what="the limit is reached")
    eventually(lambda: stopped("yes warpdeck"), what="the task is stopped")
    assert out.stat().st_size < 4 * MAX_BEHIND_BYTES
    agent.link.send(StreamAck(stream=5, size=1 << 40))
    assert ended(agent, job).ends[0].code == 0
    assert out.stat().st_size == 1 << 30


def stopped(command: str) -> bool:
    """Return whether a process with this command line is stopped."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_text().replace("\0", " ").strip() == command:
                return (path.parent / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def test_input_sent_twice_is_read_once(agent: AgentProcess, job: int) -> None:
    start(agent, job, "cat", reads=True)
    agent.link.expect(wire.StepReport)
    agent.link.send(wire.OpenStep(stream=5, job_id=job, restarts=0, step=0))
    for offset, text in ((0, b"one\n"), (0, b"one\ntwo\n"), (8, b"")):
        agent.link.send_data(5, HEADER.pack(wire.EVERY_TASK, wire.IN, offset) + text)
    assert ended(agent, job).ends[0].code == 0
    assert agent.text(job, "steps/0/0/out") == "one\ntwo"


def test_input_during_the_start_is_read_by_each_task(agent: AgentProcess, job: int) -> None:
    start(agent, job, "cat", tasks=8, reads=True)
    agent.link.send(wire.OpenStep(stream=5, job_id=job, restarts=0, step=0))
    for offset, text in ((0, b"one\n"), (4, b"")):
        agent.link.send_data(5, HEADER.pack(wire.EVERY_TASK, wire.IN, offset) + text)
    ended(agent, job)
    assert [agent.text(job, f"steps/0/{rank}/out") for rank in range(8)] == ["one"] * 8


def program(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def test_a_task_knows_its_own_pid(agent: AgentProcess, job: int) -> None:
    start(agent, job, "sh", "-c", "echo $$ $SLURM_TASK_PID")
    ended(agent, job)
    own, output = agent.text(job, "steps/0/0/out").split()
    assert own == output


def test_variables_of_a_task_are_unchanged_despite_name_clashes(agent: AgentProcess, job: int) -> None:
    text = ("dir", "cwd", "other", "before", "after", "code", "pid", "hook", "go")
    tell = "".join(f'echo "{name}=${name}"; ' for name in text)
    start(agent, job, "sh", "-c", tell, env={name: f"own {name}" for name in text})
    ended(agent, job)
    assert agent.text(job, "steps/0/0/out").splitlines() == [f"{name}=own {name}" for name in text]


def test_output_of_the_task_prolog_sets_variables(agent: AgentProcess, job: int) -> None:
    folder = agent.folder.parent
    message = "export ONE=a b=c\\nunset TWO\\nexport 3=x\\nexport PPID=3\\nprint hello there\\nexport four"
    first = program(folder, "first", f"printf '{message}\\n'\n")
    second = program(folder, "second", 'echo "export FIVE=$SLURM_PROCID.$ONE"\n')
    text = 'echo "$ONE|$TWO|$FIVE"'
    start(agent, job, "sh", "-c", text, env={"TWO": "2"}, prologs=[first, second])
    assert ended(agent, job).ends[0].code == 0
    assert agent.text(job, "steps/0/0/out") == "hello there\na b=c||0.a b=c"


def test_a_task_with_a_failing_prolog_does_not_start(agent: AgentProcess, job: int) -> None:
    folder = agent.folder.parent
    start(agent, job, "touch", "began", prologs=[program(folder, "bad", "exit 3\n")])
    assert ended(agent, job).ends[0].code == 1
    assert "the task prolog" in agent.text(job, "steps/0/0/err")
    assert not (folder / "began").exists()


def test_a_task_epilog_runs_after_its_task_and_does_not_change_its_end(agent: AgentProcess, job: int) -> None:
    epilog = program(agent.folder.parent, "epilog", "echo behind $SLURM_PROCID $SLURM_TASK_PID\nexit 9\n")
    start(agent, job, "sh", "-c", "echo $$; exit 4", epilogs=[epilog])
    assert ended(agent, job).ends[0].code == 4
    pid, behind = agent.text(job, "steps/0/0/out").splitlines()
    assert behind == f"behind 0 {pid}"


def test_a_step_sent_twice_starts_once(agent: AgentProcess, job: int) -> None:
    for _ in range(2):
        start(agent, job, "sh", "-c", "echo ran >> runs; sleep 600")
    runs = agent.folder.parent / "runs"
    eventually(runs.exists, what="the job runs")
    agent.link.send(wire.StepKill(job_id=job, restarts=0, step=0, grace_s=0.0))
    assert ended(agent, job).ends[0].signal == 9
    assert runs.read_text() == "ran\n"


def test_a_restarted_agent_knows_its_steps(agent: AgentProcess, job: int) -> None:
    start(agent, job, "sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; exit 3")
    agent.link.expect(wire.StepReport, lambda message: (message.step, message.phase) == (0, "running"))
    start(agent, job, "true", step=1)
    ended(agent, job, step=1)
    agent.kill()
    welcome = agent.start()
    assert {(message.step, message.phase) for message in welcome.steps} == {(0, "running"), (1, "exited")}
    (agent.folder.parent / "go").touch()
    assert ended(agent, job).ends[0].code == 3


@pytest.mark.parametrize(
    ("program", "code", "text"),
    [
        ("no-such-program", 2, "no-such-program: No such file or directory"),
        ("./no-such-program", 2, "{cwd}/./no-such-program: No such file or directory"),
        ("", 2, ": No such file or directory"),
        ("/etc/passwd", 13, "/etc/passwd: Permission denied"),
        ("/etc", 13, "/etc: Permission denied"),
    ],
)
def test_a_program_that_cannot_run_has_the_message_of_slurm(
    agent: AgentProcess, job: int, program: str, code: int, text: str
) -> None:
    start(agent, job, program)
    assert ended(agent, job).ends[0].code == code
    message = text.format(cwd=agent.folder.parent)
    assert agent.text(job, "steps/0/0/err") == f"slurmstepd: error: execve(): {message}"


def test_a_step_of_a_job_that_is_gone_is_refused(agent: AgentProcess) -> None:
    start(agent, 999, "true")
    assert "no longer runs on this node" in ended(agent, 999).message


def test_the_steps_of_an_ended_job_end(agent: AgentProcess) -> None:
    job = agent.new_id()
    agent.launch(job, "while [ ! -e over ]; do sleep 0.05; done", grace_s=0.2)
    agent.link.report(job, "running")
    start(agent, job, "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
    eventually(lambda: len(agent.processes(job)) > 2, what="the step runs")
    (agent.folder.parent / "over").touch()
    agent.link.report(job, "exited")
    assert not agent.processes(job)
    agent.link.send(Forget(job_id=job, restarts=0))
    eventually(lambda: not agent.job(job, "steps/0").exists(), what="no process of it is left")


def test_a_signal_can_be_sent_to_one_task(agent: AgentProcess, job: int) -> None:
    start(
        agent,
        job,
        "sh",
        "-c",
        "trap 'exit 7' USR1; touch r$SLURM_PROCID; while :; do sleep 0.05; done",
        tasks=2,
    )
    for rank in range(2):
        eventually((agent.folder.parent / f"r{rank}").exists, what=f"task {rank} listens")
    agent.link.send(wire.StepKill(job_id=job, restarts=0, step=0, signal=10, rank=1))
    report = agent.link.expect(wire.StepReport, lambda report: bool(report.ends))
    assert [(end.rank, end.code) for end in report.ends] == [(1, 7)]


def test_ctrl_c_ends_a_program_without_signal_handlers(agent: AgentProcess, job: int) -> None:
    start(agent, job, "sh", "-c", "touch begun; exec sleep 60")
    eventually((agent.folder.parent / "begun").exists, what="the task runs")
    agent.link.send(wire.StepKill(job_id=job, restarts=0, step=0, signal=2))
    report = agent.link.expect(wire.StepReport, lambda report: bool(report.ends))
    assert [end.signal for end in report.ends] == [2]


# ---- the access socket for jobs' processes


class Caller:
    """A process that connects to access.sock and sends a request."""

    def __init__(self, agent: AgentProcess, **message: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(str(agent.folder / "access.sock"))
        self.socket.sendall(json_frame({"t": "access", **message}))
        self._decoder = FrameDecoder()

    def answer(self) -> dict[str, Any]:
        while True:
            data = self.socket.recv(65536)
            assert data, "the agent closed the connection"
            for _, payload in self._decoder.feed(data):
                return parse_json(payload)


@pytest.fixture
def call(agent: AgentProcess) -> Iterator[Callable[..., Caller]]:
    """A function that connects with a given proof."""
    callers: list[Caller] = []

    def connect(**message: str) -> Caller:
        callers.append(Caller(agent, **message))
        return callers[-1]

    yield connect
    for caller in callers:
        caller.socket.close()


@pytest.fixture
def token(agent: AgentProcess) -> Callable[[int], str]:
    return lambda job: str(json.loads(agent.meta(job))["token"])


def test_a_process_with_a_valid_token_is_connected(
    agent: AgentProcess, job: int, token: Callable[[int], str], call: Callable[..., Caller]
) -> None:
    caller = call(job=f"{job}.0@{agent.identity}", token=token(job))
    assert caller.answer()["t"] == "joined"
    opened = agent.link.expect(wire.CallOpened)
    assert (opened.job_id, opened.restarts) == (job, 0)
    caller.socket.sendall(b"any bytes")
    assert agent.link.output(opened.stream, b"any bytes")
    agent.link.send_data(opened.stream, b"and back")
    assert caller.socket.recv(100) == b"and back"
    caller.socket.close()
    agent.link.expect(StreamEnd, lambda message: message.stream == opened.stream)


def test_a_launch_can_connect_before_its_start_was_reported(
    agent: AgentProcess, call: Callable[..., Caller]
) -> None:
    proofs = agent.folder.parent / "proofs"
    os.mkfifo(proofs)
    jobs = [agent.new_id() for _ in range(6)]
    for job in jobs:  # in such quick succession that their starts are reported later
        agent.launch(
            job, 'echo "$WARPDECK_JOB $WARPDECK_TOKEN" >proofs; while [ ! -e end ]; do sleep 0.05; done'
        )
    with os.fdopen(
        os.open(proofs, os.O_RDWR)
    ) as lines:  # the reader has a writer of its own, so it sees no end of file between two lines
        for _ in jobs:
            name, given = lines.readline().split()
            assert call(job=name, token=given).answer()["t"] == "joined"
    (agent.folder.parent / "end").touch()


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"token": "wrong"},
        {"token": "\udcff"},
        {"job": "7.0@x"},
        {"job": "x"},
        {"job": f"{'9' * 5000}.0@x"},
    ],
)
def test_a_process_without_a_valid_token_is_refused(
    agent: AgentProcess,
    job: int,
    token: Callable[[int], str],
    call: Callable[..., Caller],
    message: dict[str, str],
) -> None:
    given = {"job": f"{job}.0@{agent.identity}", "token": token(job), **message}
    if not message:
        del given["token"]
    assert call(**given).answer()["code"] == "no_job"


def test_a_token_is_invalid_after_the_end_of_its_job(
    agent: AgentProcess, token: Callable[[int], str], call: Callable[..., Caller]
) -> None:
    job = agent.new_id()
    agent.launch(job, "while [ ! -e end ]; do sleep 0.05; done")
    agent.link.report(job, "running")
    proof = {"job": f"{job}.0@{agent.identity}", "token": token(job)}
    caller = call(**proof)
    assert caller.answer()["t"] == "joined"
    (agent.folder.parent / "end").touch()
    agent.link.report(job, "exited")
    assert caller.socket.recv(100) == b""
    assert call(**proof).answer()["code"] == "no_job"


def test_a_connection_without_a_controller_is_refused_with_a_message(
    agent: AgentProcess, job: int, token: Callable[[int], str], call: Callable[..., Caller]
) -> None:
    proof = {"job": f"{job}.0@{agent.identity}", "token": token(job)}
    agent.link.close()
    eventually(lambda: call(**proof).answer().get("code") == "away", what="the link is noticed as lost")
    agent.connect()


@pytest.mark.two_cpus
def test_steps_with_a_cpu_count_get_different_cpus(agent: AgentProcess) -> None:
    """The CPUs of an ended step are free again."""
    job = agent.new_id()
    agent.launch(job, "exec sleep 600", cpus=2)
    agent.link.report(job, "running")
    text = "grep Cpus_allowed_list /proc/self/status; exec sleep 600"
    for number in (0, 1):
        start(agent, job, "sh", "-c", text, step=number, cpus=1)
    seen = [eventually(lambda at=at: cpus_seen(agent, job, at), what="the job runs") for at in (0, 1)]
    assert seen[0] != seen[1] and all(each.isdecimal() for each in seen)
    agent.kill()
    agent.start()
    agent.link.send(wire.StepKill(job_id=job, restarts=0, step=0, grace_s=0.0))
    agent.link.expect(wire.StepReport, lambda message: (message.step, message.phase) == (0, "exited"))
    start(agent, job, "grep", "Cpus_allowed_list", "/proc/self/status", step=2, cpus=1)
    assert eventually(lambda: cpus_seen(agent, job, 2), what="the job has run") == seen[0]


def cpus_seen(agent: AgentProcess, job: int, step: int) -> str:
    return agent.text(job, f"steps/{step}/0/out").rpartition("\t")[2]
