"""Evidence of a hang from an agent of root: the stacks of a user's ranks, taken with the rights of this user."""

from __future__ import annotations

import shutil
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.agent.conftest import ADA, BOB, PYTHON, agent_of_root
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.progress.evidence import parse_dumps
from warpdeck_agent.wire import messages as wire

PROGRAM = (
    "import time\ndef load_batch():\n    print('begun', flush=True)\n    time.sleep(1000)\nload_batch()\n"
)


@pytest.fixture(scope="module")
def agent() -> Iterator[AgentProcess]:
    """A root agent on a node with the users ada and bob."""
    with (
        tempfile.TemporaryDirectory(prefix="wd", dir="/tmp") as folder,
        agent_of_root(Path(folder)) as agent_process,
    ):
        yield agent_process


@pytest.fixture
def folder(short_tmp: Path) -> Path:
    """A folder of everybody, with the program and with py-spy."""
    short_tmp.chmod(0o777)
    (short_tmp / "train.py").write_text(PROGRAM)
    tool = shutil.which("py-spy", path=sysconfig.get_path("scripts"))
    assert tool is not None
    shutil.copy(tool, short_tmp / "py-spy")
    return short_tmp


def begin(agent: AgentProcess, folder: Path, *, path: str = "", user: str = "ada", uid: int = ADA) -> int:
    """Start two ranks of a user, with `path` as the first folder of PATH, and wait until both have begun."""
    job = agent.new_id()
    ranks = f"for RANK in 0 1; do export RANK; {PYTHON} {folder}/train.py & done; wait"
    agent.launch(job, f"export PATH={path or folder}:$PATH; {ranks}", user=user, uid=uid)
    eventually(lambda: agent.text(job).count("begun") == 2, what="both ranks run")
    return job


def ask(agent: AgentProcess, job: int) -> list[wire.RankEvidence]:
    agent.link.send(wire.AskEvidence(ask=job, job_id=job, restarts=0))
    return agent.link.expect(wire.Evidence, lambda each: each.ask == job).ranks


@pytest.mark.lab
def test_each_rank_has_its_stack_and_counters(agent: AgentProcess, folder: Path) -> None:
    ranks = ask(agent, begin(agent, folder))
    assert sorted(each.label for each in ranks) == ["0", "1"]
    for each in ranks:
        assert each.frames[0] == wire.Frame("load_batch", "train.py", 4)
        assert each.state.startswith("S (sleeping)") and each.io_bytes > 0 and not each.problem


@pytest.mark.lab
def test_a_users_py_spy_runs_as_the_user_without_privileges(agent: AgentProcess, folder: Path) -> None:
    own = folder / "own"
    own.mkdir()
    own.chmod(0o777)
    (own / "py-spy").write_text("#!/bin/sh\necho $(id -u; grep CapEff /proc/self/status)\n")
    (own / "py-spy").chmod(0o755)
    for each in ask(agent, begin(agent, folder, path=str(own))):
        assert each.problem == f"py-spy failed: {ADA} CapEff: {'0' * 16}"


@pytest.mark.lab
@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        ("exec head -c 100000000 /dev/zero", "py-spy printed more than 4194304 bytes"),
        ("echo 'Error: Permission denied'; exit 1", "ptrace_scope"),
        ("echo '[{\"os_thread_id\": 1e999}]'", "no Python stack"),
        ("kill -9 $PPID", "py-spy"),
        ("sleep 1000", "py-spy"),
    ],
)
def test_a_py_spy_that_attacks_yields_no_stack(
    agent: AgentProcess, folder: Path, rest: str, problem: str
) -> None:
    own = folder / "own"
    own.mkdir()
    own.chmod(0o777)
    (own / "py-spy").write_text("#!/bin/sh\n" + rest)
    (own / "py-spy").chmod(0o755)
    job = begin(agent, folder, path=str(own))
    ranks = ask(agent, job)
    assert [(problem in each.problem, each.frames) for each in ranks] == [(True, [])] * 2, ranks


@pytest.mark.lab
def test_processes_of_other_jobs_and_users_are_left_out(agent: AgentProcess, folder: Path) -> None:
    mine, other = begin(agent, folder), begin(agent, folder, user="bob", uid=BOB)
    pids = {each.pid for each in ask(agent, mine)}
    assert pids and pids <= set(agent.processes(mine))
    assert not pids & {each.pid for each in ask(agent, other)}
    assert ask(agent, 999_999) == []


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "pid 7",
        "pid 8\n[]",
        "pid 7\n{}",
        "pid 7\n[[]]",
        "pid 7\n" + "[" * 100_000,
        'pid 7\n[{"os_thread_id": 7}]',
    ],
)
def test_damaged_output_is_no_stack(printed: str) -> None:
    stacks, _ = parse_dumps(printed, {7})
    assert not stacks.get(7)
