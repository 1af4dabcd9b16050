"""Find processes of this machine by their command lines in /proc."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path


def running(*parts: str, also_in_environ: bool = False) -> list[int]:
    """Return the pids of processes with all `parts` in their command line, which is joined by NUL bytes.

    Optionally the environment is also searched.
    """
    wanted = [os.fsencode(part) for part in parts]
    return [
        pid
        for pid, words in command_lines()
        if all(part in words + (read(pid, "environ") if also_in_environ else b"") for part in wanted)
    ]


def kill(pids: Iterable[int]) -> None:
    """Kill each process with SIGKILL. A process may have ended since it was found."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def has_ended(pid: int) -> bool:
    """Return whether the process and all its threads have ended, so its files are closed. It may be a zombie."""
    status = read(pid, "stat")
    if not status:
        return True
    try:
        alone = len(os.listdir(f"/proc/{pid}/task")) == 1
    except FileNotFoundError:
        return True
    return alone and status.rpartition(b")")[2].split()[0] in (b"Z", b"X")


def sees_other_folder(pid: int, path: Path) -> bool:
    """Return whether the process has another folder at `path`, because it has mounts of its own.

    Two runs of the tests on one machine may use the same path in different mounts.
    """
    try:
        return not os.path.samestat(os.stat(f"/proc/{pid}/root{path}"), os.stat(path))
    except OSError:
        return False


def command_lines() -> Iterator[tuple[int, bytes]]:
    """Yield (pid, command line with its NUL bytes) of all processes."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            words = read(int(name), "cmdline")
            if words:
                yield int(name), words


def parent(pid: int) -> int:
    """Return the pid of the parent, or 0 if the process has ended."""
    status = read(pid, "stat")
    return int(status.rpartition(b")")[2].split()[1]) if status else 0


def read(pid: int, file: str) -> bytes:
    """Return the content of a file below /proc/PID, or b"" if the process has ended."""
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""
