"""One agent manages a machine.

Each test has its own network namespace and therefore its own abstract socket names.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.integration.agent.conftest import PYTHON
from tests.support.agent import FROM_SOURCE
from tests.support.processes import has_ended, kill, running
from tests.support.waiting import eventually

from warpdeck.fleet.build import build_zipapp

pytestmark = pytest.mark.root
NOBODY = 65534
SQUAT = """
import socket, sys
held = socket.socket(socket.AF_UNIX); held.bind("\\0" + sys.argv[1]); held.listen(); print("held", flush=True); sys.stdin.read()
"""


class Machine:
    """A stand-in for a machine: a network namespace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._keeper = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo here; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._keeper.stdout is not None and self._keeper.stdout.readline() == "here\n"
        self.enter = ["nsenter", f"--net=/proc/{self._keeper.pid}/ns/net"]
        self._squatters: list[subprocess.Popen[str]] = []

    def start(self, name: str, *, share: str = "", program: Sequence[str] = FROM_SOURCE) -> str:
        """Start an agent for a folder; return the error message, or "" if the agent runs."""
        result = subprocess.run(
            [*self.enter, *program, "start", "--dir", str(self.folder / name)],
            env={**os.environ, "WARPDECK_SHARE_MACHINE": share},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        document = json.loads(result.stdout[result.stdout.index("{") :])
        return "" if document["ok"] else str(document["error"])

    def pid(self, name: str) -> int:
        (found,) = running(f"serve\0--dir\0{self.folder / name}\0")
        return found

    def squat(self, name: str) -> None:
        """Let an unprivileged user occupy a socket name."""
        squatter = subprocess.Popen(
            [*self.enter, "setpriv", f"--reuid={NOBODY}", "--clear-groups", PYTHON, "-c", SQUAT, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        self._squatters.append(squatter)
        assert squatter.stdout is not None and squatter.stdout.readline() == "held\n"

    def close(self) -> None:
        kill(set(running(f"serve\0--dir\0{self.folder}")))
        for child in (*self._squatters, self._keeper):
            child.communicate("", timeout=30)


@pytest.fixture
def machine(short_tmp: Path) -> Iterator[Machine]:
    new_machine = Machine(short_tmp)
    yield new_machine
    new_machine.close()


def test_a_second_agent_is_refused_while_the_first_runs(machine: Machine) -> None:
    assert machine.start("a") == ""
    assert machine.start("a") == "", "the agent already runs"
    message = machine.start("b")
    assert f"pid {machine.pid('a')} of root in {machine.folder / 'a'}" in message
    assert "warpdeck down --machine" in message and "WARPDECK_SHARE_MACHINE=1" in message
    assert not running(f"serve\0--dir\0{machine.folder / 'b'}\0")
    assert machine.start("c", share="1") == "", "the second agent was allowed"
    pid = machine.pid("a")
    os.kill(pid, 9)
    eventually(lambda: has_ended(pid), what="the first process has ended")
    assert machine.start("b") == ""


def test_a_manually_started_second_agent_is_refused_too(machine: Machine) -> None:
    assert machine.start("a") == ""
    result = subprocess.run(
        [*machine.enter, *FROM_SOURCE, "serve", "--dir", str(machine.folder / "b")],
        env={**os.environ, "WARPDECK_SHARE_MACHINE": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert "another agent manages this machine" in result.stderr


def test_only_the_agent_of_root_excludes_agents_of_users(machine: Machine) -> None:
    machine.squat("warpdeck-agent-0")
    assert machine.start("a") == "", "another user's socket with the name of root's does not stop root"
    assert "of root" in machine.start("b"), "it hides no agent of root"
    program, _ = build_zipapp(str(machine.folder / "program"))
    machine.folder.chmod(0o755)
    (machine.folder / "program").chmod(0o755)
    (machine.folder / "user").mkdir()
    os.chown(machine.folder / "user", NOBODY, NOBODY)
    message = machine.start(
        "user", program=("setpriv", f"--reuid={NOBODY}", "--clear-groups", PYTHON, program)
    )
    assert "of root" in message
