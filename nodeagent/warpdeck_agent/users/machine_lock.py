"""Ensures that only one agent manages a machine.

Two agents would give the same CPUs and GPUs away twice.

An agent holds a name while it runs: an abstract Unix socket, which the kernel releases however the agent
ends. Each network namespace has its own names. An agent is refused while its own user or root holds a name.
Agents of two users who are not root do not exclude each other. Any process can take any name, so a name
counts only if the kernel reports that its holder is the user in the name. There are several names per user,
in case a foreign process holds one. With the variable SHARE_MACHINE, an agent neither holds a name nor looks
for holders.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import socket
import struct
import time
from typing import List, NamedTuple, Optional

from warpdeck_agent.wire.environment import SHARE_MACHINE

NAMES = 4
WAIT_S = 3.0
"""How long to wait for an agent that is just ending, in seconds."""
POLL_S = 0.05
_CREDENTIALS = struct.Struct("3i")


class MachineTakenError(Exception):
    """Another agent manages the machine. The text says which one, and how to proceed."""


class Holder(NamedTuple):
    """The process that listens under a name."""

    pid: int
    """0: it is not in our pid namespace."""
    uid: int


def claim() -> Optional[socket.socket]:
    """Take this user's name and return the socket, which must stay open.

    Returns None if foreign processes hold all names, or if machines are shared. Raises MachineTakenError.
    """
    if os.environ.get(SHARE_MACHINE):
        return None
    deadline = time.monotonic() + WAIT_S
    while True:
        other = _find()
        held = None if other else _take()
        if held is not None:
            return held
        if time.monotonic() > deadline:
            if other:
                raise MachineTakenError(_sentence(other))
            return None
        time.sleep(POLL_S)


def refusal(folder: str) -> str:
    """Return why no agent can be started for that folder, or "" if one can.

    A running agent of the same folder is no obstacle.
    """
    deadline = time.monotonic() + WAIT_S
    while not os.environ.get(SHARE_MACHINE):
        other = _find()
        if other is None or folder_of(other.pid) == os.path.abspath(folder):
            return ""
        if time.monotonic() > deadline:
            return _sentence(other)
        time.sleep(POLL_S)
    return ""


def answer(held: socket.socket) -> None:
    """Close the connection of a process that asked who holds the name.

    Connecting was sufficient as an answer.
    """
    with contextlib.suppress(OSError):
        held.accept()[0].close()


def folder_of(pid: int) -> str:
    """Return the folder of the agent that is this process, "" if it is none."""
    argv = _command_line(pid)
    return argv[-1] if argv[-3:-1] == ["serve", "--dir"] else ""


def _find() -> Optional[Holder]:
    """Return the agent that excludes us, or None."""
    for uid in sorted({os.geteuid(), 0}):
        for at in range(NAMES):
            holder = _holder(_name(uid, at))
            if holder is not None and holder.uid == uid:
                return holder
    return None


def _take() -> Optional[socket.socket]:
    """Take the first name that no foreign process has.

    Returns None if another agent of our user has just taken it and does not listen yet.
    """
    for at in range(NAMES):
        held = socket.socket(socket.AF_UNIX)
        try:
            held.bind(_name(os.geteuid(), at))
            held.listen()
            held.setblocking(False)
        except OSError as error:
            held.close()
            if error.errno != errno.EADDRINUSE:
                raise
            holder = _holder(_name(os.geteuid(), at))
            if holder is None or holder.uid == os.geteuid():
                return None
        else:
            return held
    return None


def _name(uid: int, at: int) -> str:
    return f"\0warpdeck-agent-{uid}" + (f".{at}" if at else "")


def _holder(name: str) -> Optional[Holder]:
    with socket.socket(socket.AF_UNIX) as link:
        link.setblocking(False)
        try:
            link.connect(name)
            pid, uid, _ = _CREDENTIALS.unpack(
                link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            )
        except OSError:
            return None
    return Holder(pid, uid)


def _sentence(other: Holder) -> str:
    try:
        user = pwd.getpwuid(other.uid).pw_name
    except KeyError:
        user = str(other.uid)
    where = f" in {folder_of(other.pid)}" if folder_of(other.pid) else ""
    return (
        f"another agent manages this machine already: pid {other.pid} of {user}{where}. "
        f"Stop it (`warpdeck down --machine` as {user}), or allow both ({SHARE_MACHINE}=1, `warpdeck up --share-machine`)"
    )


def _command_line(pid: int) -> List[str]:
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="surrogateescape") as file:
            return file.read().split("\0")[:-1]
    except OSError:
        return []
