"""The facts about a submitting process, read from outside: a real process that holds a slot."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.waiting import eventually

from warpdeck.base.paths import Paths
from warpdeck.slurm.shims.sbatch_script import ANSWER_FD
from warpdeck.submitter.caller import CallingShell, LeftToClient
from warpdeck.submitter.request_fifos import ShellRequest, Slot

ENVIRON = {"HOME": "/h", "WARPDECK_HOME": "/w", "PATH": os.environ["PATH"]}
PATHS = Paths("/w")


@pytest.fixture
def slot(short_tmp: Path) -> Iterator[Slot]:
    new_slot = Slot(str(short_tmp / "1.slot"))
    yield new_slot
    new_slot.close()


@contextmanager
def shell(folder: Path, *argv: str, umask: int = 0o022, **environ: str) -> Iterator[int]:
    """Start a process that opens the slot and waits; yield its pid."""
    line = f"umask {umask:o}; exec {ANSWER_FD}<>{folder}/1.slot; echo; read -r _ <&{ANSWER_FD}"
    with subprocess.Popen(
        ["nice", "-n", "5", "sh", "-c", line, "sbatch", *argv],
        cwd=folder,
        env=ENVIRON | environ,
        stdout=subprocess.PIPE,
    ) as running:
        try:
            assert running.stdout and running.stdout.readline()
            yield running.pid
        finally:
            running.kill()


def test_arguments_variables_folder_umask_and_niceness_are_read_from_the_process(
    short_tmp: Path, slot: Slot
) -> None:
    argv = ("a b", "", "new\nline", "é")
    nice = str(min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5))
    asking = shell(short_tmp, *argv, umask=0o027, A="1=2", PWD="/elsewhere")
    with asking as pid, CallingShell(ShellRequest(pid, len(argv), slot), PATHS) as caller:
        assert (caller.words, caller.folder) == (list(argv), str(short_tmp))
        assert caller.env == ENVIRON | {
            "A": "1=2",
            "PWD": "/elsewhere",
            "SLURM_UMASK": "0027",
            "SLURM_PRIO_PROCESS": nice,
        }
        assert b"Max open files" in caller.read("/proc/self/limits", 1 << 16)


def test_a_reused_pid_is_not_accepted(short_tmp: Path, slot: Slot) -> None:
    other = Slot(str(short_tmp / "2.slot"))
    with shell(short_tmp) as pid, pytest.raises(LeftToClient, match="another process waits"):
        CallingShell(ShellRequest(pid, 0, other), PATHS)
    other.close()


def test_a_caller_that_has_ended_gets_no_answer(short_tmp: Path, slot: Slot) -> None:
    with shell(short_tmp) as pid:
        pass
    with pytest.raises(LeftToClient):
        CallingShell(ShellRequest(pid, 0, slot), PATHS)


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"WARPDECK_HOME": "/other"}, 1),
        ({"WARPDECK_HOME": "w"}, 1),
        ({"WARPDECK_HOME": "~/w"}, 1),
        ({"WARPDECK_HOME": ""}, 1),
        ({"HOME": ""}, 1),
        ({"TZ": "Antarctica/Troll"}, 1),
        ({}, 1000),
    ],
    ids=str,
)
def test_requests_with_a_local_meaning_use_the_python_client(
    short_tmp: Path, slot: Slot, environ: dict[str, str], text: int
) -> None:
    with shell(short_tmp, "x", umask=0o022, **environ) as pid, pytest.raises(LeftToClient):
        CallingShell(ShellRequest(pid, text, slot), PATHS)


@pytest.fixture
def caller(short_tmp: Path, slot: Slot) -> Iterator[CallingShell]:
    with shell(short_tmp) as pid, CallingShell(ShellRequest(pid, 0, slot), PATHS) as new_caller:
        yield new_caller


@pytest.mark.parametrize(
    "path",
    ["/dev/stdin", "/dev/fd/3", "/dev/null", "/proc/self/environ", "to-stdin", "fds/0", "loop", "fifo", "."],
)
def test_only_regular_files_of_the_caller_are_read(short_tmp: Path, caller: CallingShell, path: str) -> None:
    (short_tmp / "to-stdin").symlink_to("/dev/stdin")
    (short_tmp / "fds").symlink_to("/proc/self/fd")
    (short_tmp / "loop").symlink_to("loop")
    os.mkfifo(short_tmp / "fifo")
    with pytest.raises((LeftToClient, IsADirectoryError)):
        caller.read(os.path.join(short_tmp, path), 100)


def test_files_and_links_are_read_and_missing_files_are_reported(
    short_tmp: Path, caller: CallingShell
) -> None:
    (short_tmp / "file").write_text("text")
    (short_tmp / "link").symlink_to("file")
    assert [caller.read(str(short_tmp / name), 3) for name in ("file", "link")] == [b"tex", b"tex"]
    with pytest.raises(FileNotFoundError):
        caller.read(str(short_tmp / "nothing"), 3)


def test_no_descriptor_is_left_open(short_tmp: Path, slot: Slot) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with shell(short_tmp) as pid:
        inside = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            with CallingShell(ShellRequest(pid, 0, slot), PATHS):
                pass
            with pytest.raises(LeftToClient):
                CallingShell(ShellRequest(pid, 5000, slot), PATHS)
        assert len(os.listdir("/proc/self/fd")) == inside
    eventually(lambda: len(os.listdir("/proc/self/fd")) == before)
