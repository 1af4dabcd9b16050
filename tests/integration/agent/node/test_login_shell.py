"""Start files of a user's login shell: the variables that the agent takes from them.

No start file can harm the agent, other users, or work after the job.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.integration.agent.conftest import ADA, BOB, agent_of_root
from tests.integration.agent.memory import peak_bytes
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.isolation.containment_handle import ContainmentHandle
from warpdeck_agent.start.login_shell import login_shell, variables_of
from warpdeck_agent.users.user_children import MOST_OF_USER, ChildFailed, UserChildren
from warpdeck_agent.wire import messages as wire

MIB = 1 << 20


def variables_from(home: Path, text: str) -> dict[str, str]:
    """Return the variables that the given start files set."""
    for name in (".bash_profile", ".profile", ".zprofile"):
        (home / name).write_text(text)
    child = login_shell(
        os.getuid(),
        home=str(home),
        tag_variables={"WARPDECK_JOB": "m"},
        containment=ContainmentHandle(),
        drop={},
    )

    async def ask() -> bytes:
        with ThreadPoolExecutor(1) as pool:
            return await UserChildren(pool).run(child, uid=os.getuid())

    return variables_of(asyncio.run(ask()))


def test_output_of_start_files_and_unusual_variables_are_handled(tmp_path: Path) -> None:
    found = variables_from(tmp_path, "echo hello\necho NOT=this\nexport LINES_OF='a\nb=c' OWN=1\n")
    assert (found["LINES_OF"], found["OWN"]) == ("a\nb=c", "1")
    assert "hello" not in found and "WARPDECK_JOB" not in found and "PWD" not in found


def test_failing_start_files_give_no_variables(tmp_path: Path) -> None:
    with pytest.raises(ChildFailed, match="exit code 3"):
        variables_from(tmp_path, "exit 3\n")


@pytest.fixture
def agent(short_tmp: Path) -> Iterator[AgentProcess]:
    with agent_of_root(short_tmp) as agent_process:
        yield agent_process


@pytest.fixture
def home(short_tmp: Path) -> Path:
    """Ada's home."""
    ada_home = short_tmp / "ada"
    ada_home.mkdir()
    os.chown(ada_home, ADA, ADA)
    return ada_home


def launch(agent: AgentProcess, job: int, home: Path, script: str = "true") -> None:
    """Launch a job of ada that takes the variables of her login shell."""
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(home)}
    agent.launch(job, script, user="ada", uid=ADA, login=True, env=environ)


def pids(home: Path) -> list[int]:
    """Return the pids that the start file has recorded, one per line."""
    path = home / "pids"
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def lives(pid: int) -> bool:
    """Return whether the process runs and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.lab
def test_slow_start_files_delay_no_other_user_and_end_with_their_job(agent: AgentProcess, home: Path) -> None:
    (home / ".profile").write_text("echo $$ >>$HOME/pids\nexec sleep 1000\n")
    bad = range(1, 2 * MOST_OF_USER + 1)
    for job in bad:
        launch(agent, job, home)
    eventually(lambda: len(pids(home)) == MOST_OF_USER, what="the maximum number of login shells runs")
    result = agent.run(100, "echo in time", user="bob", uid=BOB, login=True)
    assert (result.exit_code, agent.text(100)) == (0, "in time")
    begun = [job for job in bad if agent.link.has_report(job, "running")]
    assert len(begun) <= MOST_OF_USER, "bob's launch did not wait for all of ada's launches"
    for job in bad:
        agent.link.send(wire.Kill(job_id=job, restarts=0, cause="cancelled", grace_s=0.0))
    for job in bad:
        assert agent.link.report(job, "exited").cause == "cancelled"
    eventually(lambda: not any(map(lives, pids(home))), what="their shells have ended")


@pytest.mark.lab
def test_processes_left_by_start_files_end_with_the_job(agent: AgentProcess, home: Path) -> None:
    (home / ".profile").write_text(
        "env -i setsid sleep 1000 >/dev/null &\necho $! >$HOME/pids\nexport FOUND=yes\n"
    )
    launch(agent, 1, home, "echo .$FOUND.; cat $HOME/pids")
    assert agent.link.report(1, "exited").exit_code == 0
    output, pid = agent.text(1).split()
    assert output == ".yes."
    eventually(lambda: not lives(int(pid)), what="the process that the start file started has ended")


@pytest.mark.lab
def test_the_login_shell_ends_with_a_killed_agent(agent: AgentProcess, home: Path) -> None:
    (home / ".profile").write_text("echo $$ >$HOME/pids\nexec sleep 1000\n")
    launch(agent, 1, home)
    [pid] = eventually(lambda: pids(home), what="the shell runs")
    agent.kill()
    assert lives(pid)
    agent.start()
    eventually(lambda: not lives(pid), what="the process has ended")


@pytest.mark.lab
def test_endless_output_of_a_start_file_uses_no_memory_of_the_agent(agent: AgentProcess, home: Path) -> None:
    agent.run(1, "true", user="ada", uid=ADA)
    before = peak_bytes(agent)
    (home / ".profile").write_text("head -c 256M /dev/zero\nexport FOUND=yes\n")
    launch(agent, 2, home, "echo .$FOUND.")
    assert agent.link.report(2, "exited").exit_code == 0
    assert agent.text(2) == "..", "the job starts without the variables"
    assert peak_bytes(agent) - before < 16 * MIB


@pytest.mark.lab
def test_a_blocked_output_file_delays_no_other_user(agent: AgentProcess, home: Path) -> None:
    script = "rm out; mkfifo out; echo $$ >$HOME/pids; exec sleep 1000"
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(home)}
    agent.launch(1, script, user="ada", uid=ADA, env=environ, cwd=str(home), stdout=str(home / "out"))
    eventually(lambda: pids(home), what="the pipe exists")
    for _ in range(2 * MOST_OF_USER):
        agent.link.send(wire.Notice(job_id=1, restarts=0, text="look at this"))
    eventually(
        lambda: len(writers()) == MOST_OF_USER, what="the maximum number of requests waits for the pipe"
    )
    assert agent.run(100, "true", user="bob", uid=BOB, login=True).exit_code == 0
    assert writers(), "bob's launch did not wait for all of the others"


def writers() -> list[int]:
    """Return ada's processes that write a line for the agent."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_one = b"look at this" in (folder / "cmdline").read_bytes() and folder.stat().st_uid == ADA
        except OSError:
            continue
        if is_one:
            found.append(int(folder.name))
    return found
