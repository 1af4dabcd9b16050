"""Cleanup of shared memory: the files of a user's jobs are removed with the user's last job.

Nothing else is removed.
"""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.agent.conftest import ADA, BOB, PYTHON, agent_of_root
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.linux import systemv
from warpdeck_agent.linux.system_calls import born_unix
from warpdeck_agent.users.ipc_cleanup import COARSE_S, SHM, IpcCleanup
from warpdeck_agent.wire import messages as wire

pytestmark = pytest.mark.lab
QUEUES = 'mkdir -p "$0" && mount -t mqueue none "$0" && exec "$@"'
"""Mount the POSIX message queues in the agent's own mount namespace, then run the command."""
MAKES = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
shm, sem = libc.shmget(0, 4096, 0o1600), libc.semget(0, 1, 0o1600)
msg = libc.msgget(0, 0o1600)
assert min(shm, sem, msg) >= 0 and libc.semctl(sem, 0, 16, 1) == 0
assert libc.mq_open(sys.argv[1].encode(), os.O_CREAT | os.O_RDWR, 0o600, None) >= 0
print(shm, sem, msg)
"""


@pytest.fixture(scope="module")
def agent() -> Iterator[AgentProcess]:
    """A root agent with its own mount of the POSIX message queues."""
    with tempfile.TemporaryDirectory(prefix="wd", dir="/tmp") as path:
        folder = Path(path)
        with agent_of_root(folder, "sh", "-c", QUEUES, str(folder / "mq")) as agent_process:
            yield agent_process


@pytest.fixture
def name() -> Iterator[str]:
    """A unique name for a file in shared memory."""
    unique_name = f"wd-{os.getpid()}-{time.monotonic_ns()}"
    yield unique_name
    with contextlib.suppress(OSError):
        os.unlink(f"{SHM}/{unique_name}")


def run(agent: AgentProcess, script: str, *, user: str = "ada", uid: int = ADA) -> int:
    """Run a job to its end and return its id."""
    job = agent.new_id()
    assert agent.run(job, script, user=user, uid=uid).exit_code == 0, agent.text(job)
    return job


def remark(agent: AgentProcess, job: int) -> str:
    return agent.link.expect(wire.Remark, lambda message: message.job_id == job).text


def test_ipc_objects_are_removed_with_the_last_job_of_the_user(agent: AgentProcess, name: str) -> None:
    job = run(agent, f"echo x >{SHM}/{name}; mkdir {SHM}/{name}.d; exec {PYTHON} -c '{MAKES}' /{name}")
    shm, sem, msg = map(int, agent.text(job).split())
    message = remark(agent, job)
    for text in (
        f"{SHM}/{name},",
        f"{name}.d",
        f"mq/{name}",
        f"segment {shm}",
        f"semaphores {sem}",
        f"queue {msg}",
    ):
        assert text in message
    assert not os.path.lexists(f"{SHM}/{name}") and not os.path.lexists(f"{SHM}/{name}.d")
    assert list(systemv.objects(ADA)) == []


def test_ipc_objects_stay_while_another_job_of_the_user_runs(agent: AgentProcess, name: str) -> None:
    other = agent.new_id()
    agent.launch(other, "sleep 1000", user="ada", uid=ADA)
    agent.link.report(other, "running")
    job = run(agent, f"echo x >{SHM}/{name}")
    assert os.path.exists(f"{SHM}/{name}")
    agent.kill()
    agent.start()  # a restarted agent knows since when its user has jobs on this node
    agent.link.send(wire.Kill(job_id=other, restarts=0, grace_s=0.0))
    assert name in remark(agent, other)
    assert not os.path.exists(f"{SHM}/{name}") and job != other


def test_older_ipc_objects_and_those_of_other_users_stay(agent: AgentProcess, name: str) -> None:
    before, others = Path(SHM, f"{name}.before"), Path(SHM, f"{name}.bobs")
    for path, uid in ((before, ADA), (others, BOB)):
        path.write_text("x")
        os.chown(path, uid, uid)
    eventually(lambda: time.time() - born_unix(str(others)) > 10 * COARSE_S, what="the records are older")
    try:
        run(agent, f"echo more >>{before}; echo x >{SHM}/{name}")
        assert before.exists() and others.exists() and not os.path.exists(f"{SHM}/{name}")
    finally:
        before.unlink()
        others.unlink()


def test_ipc_objects_in_use_by_a_process_stay(agent: AgentProcess, name: str) -> None:
    """The process runs outside of the queue and has opened the job's file."""
    waits = f"until [ -e {SHM}/{name} ]; do sleep 0.02; done; exec 9<{SHM}/{name}; exec sleep 1000"
    with subprocess.Popen(
        ["sh", "-c", waits], user=ADA, group=ADA, extra_groups=[], start_new_session=True
    ) as process:
        try:
            held = f"until ls -l /proc/{process.pid}/fd 2>/dev/null | grep -q {name}; do sleep 0.02; done"
            run(agent, f"echo x >{SHM}/{name}; echo x >{SHM}/{name}.free; {held}")
            assert os.path.exists(f"{SHM}/{name}") and not os.path.exists(f"{SHM}/{name}.free")
        finally:
            process.kill()


def test_only_ipc_objects_of_libraries_are_removed_for_a_logged_in_user(
    agent: AgentProcess, name: str
) -> None:
    nccl_name = f"nccl-{name}"
    ours, other_end = pty.openpty()
    login = subprocess.Popen(
        ["setsid", "--ctty", "sleep", "1000"], stdin=other_end, stdout=other_end, stderr=other_end, user=ADA
    )
    os.close(other_end)
    try:
        eventually(lambda: terminal_of(login.pid), what="the process runs on the terminal")
        job = run(agent, f"echo x >{SHM}/{name}; echo x >{SHM}/{nccl_name}")
        message = remark(agent, job)
        assert (
            f"not removed from shared memory, because the user is logged in on the node: {SHM}/{name}"
            in message
            and nccl_name in message
        )
        assert os.path.exists(f"{SHM}/{name}") and not os.path.exists(f"{SHM}/{nccl_name}")
    finally:
        login.kill()
        login.wait()
        os.close(ours)


def terminal_of(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[4] != "0"


def test_ipc_objects_stay_while_a_job_of_another_agent_runs(agent: AgentProcess, name: str) -> None:
    with subprocess.Popen(
        ["sleep", "1000"], user=ADA, env={"WARPDECK_JOB": "7.0@another"}, start_new_session=True
    ) as process:
        try:
            run(agent, f"echo x >{SHM}/{name}")
            assert os.path.exists(f"{SHM}/{name}")
        finally:
            process.kill()
    job = run(agent, "true")
    assert name in remark(agent, job)


def test_ipc_objects_of_root_stay(name: str) -> None:
    remnants = IpcCleanup()
    remnants.enter(0, "job-1.0", at_unix=time.time())
    Path(SHM, name).write_text("x")
    assert not remnants.leave(0, "job-1.0")


def test_the_last_job_of_a_user_triggers_the_cleanup(name: str, of_ada: Callable[[str], None]) -> None:
    remnants = IpcCleanup()
    for job in ("job-1.0", "job-2.0"):
        remnants.enter(ADA, job, at_unix=time.time() - 1)
    of_ada(name)
    assert not remnants.leave(ADA, "job-1.0")
    assert remnants.leave(ADA, "job-2.0") and remnants.leave(ADA, "job-2.0")


@pytest.fixture
def of_ada() -> Callable[[str], None]:
    def make(name: str) -> None:
        Path(SHM, name).write_text("x")
        os.chown(f"{SHM}/{name}", ADA, ADA)

    return make
