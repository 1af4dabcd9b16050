"""Processes of this machine, by what /proc says they were started with."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path


def running(*parts: str, also_in_environ: bool = False) -> list[int]:
    """Pids of those whose command line, words joined by NUL bytes, has all these parts in it (or their variables, if asked)."""
    wanted = [os.fsencode(part) for part in parts]
    return [
        pid
        for pid, words in command_lines()
        if all(part in words + (read(pid, "environ") if also_in_environ else b"") for part in wanted)
    ]


def kill(pids: Iterable[int]) -> None:
    """kill -9 of each. One of them may have gone by itself since it was found: a fork that was about to end, say."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def has_ended(pid: int) -> bool:
    """Whether the process is gone with all its threads, and with them what it had open; nobody may have waited for it yet."""
    status = read(pid, "stat")
    if not status:
        return True
    try:
        alone = len(os.listdir(f"/proc/{pid}/task")) == 1
    except FileNotFoundError:
        return True
    return alone and status.rpartition(b")")[2].split()[0] in (b"Z", b"X")


def command_lines() -> Iterator[tuple[int, bytes]]:
    """(pid, command line with its NUL bytes) of everything that runs."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            words = read(int(name), "cmdline")
            if words:
                yield int(name), words


def parent(pid: int) -> int:
    """0 of a process that has gone."""
    status = read(pid, "stat")
    return int(status.rpartition(b")")[2].split()[1]) if status else 0


def read(pid: int, file: str) -> bytes:
    """A file of the process's; nothing of one that has gone."""
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""
