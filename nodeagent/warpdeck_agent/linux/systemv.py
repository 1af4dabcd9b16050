"""System V's shared memory, semaphores and message queues: lists a user's objects, and removes them."""

from __future__ import annotations

import ctypes
import os
from typing import Dict, Iterator, List, NamedTuple, Tuple

from .procfs import text

LISTS = "/proc/sysvipc/"
OCTAL = "perms"
"""The column with octal numbers, which is not used."""
_REMOVE, _LAST_PID = 0, 11
MAX_SEMAPHORES = 4096
"""The most semaphores of one set for which the last user is queried."""
_libc = ctypes.CDLL(None, use_errno=True)


class IpcKind(NamedTuple):
    """A kind of object. `pids` are the columns with pids of processes that used it."""

    list: str
    id: str
    noun: str
    pids: Tuple[str, ...]


SEGMENT = IpcKind("shm", "shmid", "shared memory segment", ("cpid", "lpid"))
SEMAPHORES = IpcKind("sem", "semid", "semaphores", ())
QUEUE = IpcKind("msg", "msqid", "message queue", ("lspid", "lrpid"))


class IpcObject(NamedTuple):
    """One object of System V's interprocess communication.

    `attached` is the number of processes that have it mapped. `pids` are its known makers and last users.
    """

    kind: IpcKind
    number: int
    born_before_unix: float
    attached: int
    pids: Tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.kind.noun} {self.number}"

    def is_held(self, *, unknown: bool) -> bool:
        """Return whether a living process has it mapped, made it or used it last.

        Returns `unknown` if no process is known.
        """
        if self.attached:
            return True
        return any(os.path.exists(f"/proc/{pid}") for pid in self.pids) if self.pids else unknown


def objects(uid: int) -> Iterator[IpcObject]:
    """Yield the user's objects."""
    for kind in (SEGMENT, SEMAPHORES, QUEUE):
        for row in _rows(kind):
            if row["uid"] == uid:
                pids = _users_of(row[kind.id], row["nsems"]) if kind is SEMAPHORES else _named(row, kind)
                yield IpcObject(kind, row[kind.id], row["ctime"] + 1.0, row.get("nattch", 0), pids)


def remove(found: IpcObject) -> bool:
    """Remove the object and return whether that succeeded."""
    if found.kind is SEMAPHORES:
        return bool(_libc.semctl(found.number, 0, _REMOVE) == 0)
    call = _libc.shmctl if found.kind is SEGMENT else _libc.msgctl
    return bool(call(found.number, _REMOVE, None) == 0)


def _rows(kind: IpcKind) -> Iterator[Dict[str, int]]:
    header, *lines = text(LISTS + kind.list).splitlines() or [""]
    names = header.split()
    for line in lines:
        values = line.split()
        if len(values) == len(names):
            yield {names[at]: int(value) for at, value in enumerate(values) if names[at] != OCTAL}


def _named(row: Dict[str, int], kind: IpcKind) -> Tuple[int, ...]:
    return tuple(row[name] for name in kind.pids if row[name])


def _users_of(number: int, count: int) -> Tuple[int, ...]:
    found: List[int] = [_libc.semctl(number, each, _LAST_PID) for each in range(min(count, MAX_SEMAPHORES))]
    return tuple(sorted({pid for pid in found if pid > 0}))
