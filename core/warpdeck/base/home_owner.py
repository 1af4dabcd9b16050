"""The owner of a gateway's home: of all machines that share the folder, one runs the gateway.

The lock of `controller_daemon` excludes a second process on one machine. Many shared file systems keep such locks local
to a machine. So a gateway that has the lock also owns a record in the home: its machine, its process, and a random token.
A thread touches the record (a heartbeat) and reads its token.

`may_take` decides who may become the owner. The record is created with a hard link, which is atomic on all machines. It is
replaced only after the heartbeats of another machine have stopped for SILENT_S. Then the record is read again after a
while, because two machines may replace it at once; the last one stays the owner. An owner that was stopped for so long
finds the token of another one when it continues, and ends. Ages are differences of times of the file server, so the clocks
of the machines may differ.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from .errors import UserError
from .paths import Paths

log = logging.getLogger("warpdeck")

BEAT_S = 5.0
"""Seconds between two heartbeats."""
SILENT_S = 60.0
"""Seconds without a heartbeat after which an owner on another machine counts as ended. A slow file server delays some."""
SETTLE_S = 2.0
"""Seconds from a replacement of the record until it is read again."""
TRIES = 20
"""Attempts to put the record into its place, while other machines make and remove theirs."""
MAX_BYTES = 1000
BOOT_FILE = "/proc/sys/kernel/random/boot_id"


class Owner(NamedTuple):
    """The content of the record: a line with these fields."""

    token: str
    pid: int
    boot: str
    """Identifies the kernel, because two machines may have the same name."""
    host: str


_UNKNOWN = Owner("", 0, "", "another machine")


class Found(NamedTuple):
    """A record, and the seconds since its last heartbeat."""

    owner: Owner
    silent_s: float


def may_take(found: Found | None, *, host: str, boot: str) -> bool:
    """Return whether a process that has the lock of this machine may become the owner."""
    if found is None or found.silent_s > SILENT_S:
        return True
    return (found.owner.host, found.owner.boot) == (host, boot)


def owner_path(paths: Paths) -> str:
    """Return the path of the record."""
    return os.path.join(paths.home, "gateway.owner")


def owning_host(paths: Paths) -> str:
    """Return the machine that runs the gateway of this home, or "" if it is this machine or none."""
    found = _read(owner_path(paths))
    return "" if may_take(found, host=_host(), boot=_boot()) or found is None else found.owner.host


@contextlib.contextmanager
def owned(paths: Paths) -> Iterator[None]:
    """Own the home while the block runs. The caller has its lock. Raises UserError and OSError.

    If another machine takes the home over, this process gets a SIGTERM.
    """
    path = owner_path(paths)
    own = Owner(secrets.token_hex(16), os.getpid(), _boot(), _host())
    _take(path, own, paths)
    over = threading.Event()
    beat = threading.Thread(target=_beat, args=(path, own, over), name="owner", daemon=True)
    beat.start()
    try:
        yield
    finally:
        over.set()
        beat.join(BEAT_S)
        found = _read(path)
        if found is not None and found.owner == own:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _take(path: str, own: Owner, paths: Paths) -> None:
    """Become the owner. Raises UserError if another machine is, and OSError."""
    written = f"{path}.{own.token}"
    with open(written, "x", encoding="utf-8") as file:
        file.write(" ".join(map(str, own)) + "\n")
    try:
        before = _put(path, written, own, paths)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(written)
    if before is None or (before.host, before.boot) == (own.host, own.boot):
        return  # Nobody had a record, or the lock of this machine has excluded all others.
    time.sleep(SETTLE_S)
    now = _read(path)
    if now is None or now.owner != own:
        raise _owned_by(before if now is None else now.owner, paths)


def _put(path: str, written: str, own: Owner, paths: Paths) -> Owner | None:
    """Put the written record into its place, and return the record that it has replaced. Raises UserError and OSError."""
    for _ in range(TRIES):
        found = _read(path)
        if not may_take(found, host=own.host, boot=own.boot):
            assert found is not None
            raise _owned_by(found.owner, paths)
        if found is not None:
            os.replace(written, path)
            return found.owner
        try:
            os.link(written, path)
            return None
        except FileExistsError:
            continue
        except OSError:  # The file system has no hard links.
            os.replace(written, path)
            return _UNKNOWN
    raise OSError(errno.EIO, "the record of the owner can neither be read nor made", path)


def _owned_by(owner: Owner, paths: Paths) -> UserError:
    return UserError(
        f"the {paths.daemon} in {paths.home} runs on {owner.host}",
        f"use warpdeck on {owner.host}; if that machine is down, wait {SILENT_S:.0f} s and repeat",
    )


def _beat(path: str, own: Owner, over: threading.Event) -> None:
    """Touch the record until the end, and end this process if it has another owner."""
    while not over.wait(BEAT_S):
        try:
            found = _read(path)
            if found is not None and found.owner != own:
                log.error("%s has taken over this home; this process ends", found.owner.host)
                os.kill(os.getpid(), signal.SIGTERM)
                return
            os.utime(path)
        except OSError as error:
            log.warning("cannot touch %s: %s", path, error.strerror)


def _read(path: str) -> Found | None:
    """Return the record, or None if there is none. It is opened, because NFS then asks its server."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        words = os.read(descriptor, MAX_BYTES).decode("utf-8", "replace").split(" ", 3)
        touched = os.fstat(descriptor).st_mtime
    except OSError:
        return None
    finally:
        os.close(descriptor)
    owner = _UNKNOWN
    if len(words) == 4 and words[1].isdecimal():
        owner = Owner(words[0], int(words[1]), words[2], words[3].rstrip("\n"))
    return Found(owner, _server_time(path) - touched)


def _server_time(path: str) -> float:
    """Return the time of the file server, which sets the times of a new file."""
    probe = f"{path}.{secrets.token_hex(8)}"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        return time.time()
    try:
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
        os.unlink(probe)


def _host() -> str:
    return os.uname().nodename


def _boot() -> str:
    """Return the identity of the running kernel, or "-"."""
    try:
        with open(BOOT_FILE, encoding="ascii") as file:
            return file.read().strip() or "-"
    except OSError:
        return "-"
