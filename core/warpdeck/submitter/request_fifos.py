"""The folder in which shells and a submitter communicate.

    ask              FIFO: a line `PID WORDS SLOT` for each request, short enough to be written atomically
    NAME.slot        FIFO for one answer; the submitter holds its writing end from the start
    NAME.slot.taken  created exclusively by the shell that takes the slot

A shell opens its slot for reading before it sends the request. Only the submitter holds the writing end, so
if it is killed at any time, the shell reads an end of file. Slots and their names are never reused, so a late
writer cannot reach another shell.

A used slot is removed before its `.taken` file. So if a shell could create the `.taken` file and the slot still
exists, then the slot is free. Otherwise another shell has used it up, and the shell tries the next slot.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import secrets
import time

from warpdeck.base.submitter_address import REQUEST_FIFO

READY = 32
"""Number of prepared slots, which is how many shells can send requests at the same moment. A further shell
uses the client in Python.
"""
LEAST_READY = 16
"""If fewer slots are ready, new ones are created before the next request is processed, otherwise in idle
time.
"""
SWEEP_S = 10.0
"""Interval in seconds between two cleanups. A slot that was taken but not used is removed after two of them;
a shell sends its request at once.
"""
MAX_LINE_BYTES = 256
READ_BYTES = 1 << 16
SLOT, TAKEN, MADE = ".slot", ".taken", ".new"
FLAGS = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW

_LINE = re.compile(rb"([0-9]{1,10}) ([0-9]{1,9}) ([0-9a-f-]{1,64}\.slot)")


class Slot:
    """The FIFO at `path` for one answer in lines. It is created here."""

    def __init__(self, path: str) -> None:
        self._path = path
        os.mkfifo(path, 0o600)
        self._descriptor = os.open(path, FLAGS)
        found = os.fstat(self._descriptor)
        self.identity = found.st_dev, found.st_ino

    @property
    def is_taken(self) -> bool:
        return os.path.lexists(self._path + TAKEN)

    def say(self, text: str) -> None:
        """Write text to the answer. Raises BlockingIOError if it does not fit into the pipe."""
        data = text.encode("utf-8", "surrogateescape")
        if os.write(self._descriptor, data) < len(data):
            raise BlockingIOError("an answer that is too long")

    def close(self) -> None:
        """End the answer and remove the slot, in the order that the shells depend on."""
        os.close(self._descriptor)
        for path in (self._path, self._path + TAKEN):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


class ShellRequest:
    """A request from a shell: process id, number of arguments, and the slot for the answer."""

    def __init__(self, pid: int, words: int, slot: Slot) -> None:
        self.pid = pid
        self.words = words
        self.slot = slot
        self.since = time.monotonic()


def lock_folder(folder: str) -> int:
    """Create and lock the folder, and return a descriptor. It is locked as long as the descriptor is open.

    Raises BlockingIOError if another process has locked or just removed it, PermissionError if other users
    could access it, and OSError if it cannot be created.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not this user's alone")
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if not os.fstat(descriptor).st_nlink:  # the folder was removed, and files created in it would be lost
        raise BlockingIOError(f"{folder} was removed meanwhile")
    return descriptor


class Slots:
    """The slots in a folder that this process has locked, ready for requests. Raises OSError."""

    def __init__(self, folder: str) -> None:
        for name in os.listdir(folder):  # files of a submitter that was killed
            os.unlink(os.path.join(folder, name))
        self._folder = folder
        prefix = secrets.token_hex(4)
        self._names = (f"{prefix}-{number}{SLOT}" for number in itertools.count())
        self._ready: dict[str, Slot] = {}
        self._stale: set[str] = set()
        self._swept = 0.0
        self._rest = b""
        ask = os.path.join(folder, REQUEST_FIFO)
        os.mkfifo(ask + MADE, 0o600)
        self._ask = os.open(ask + MADE, FLAGS)
        # This replaces a regular file, which a shell may have created by opening the path, with a slot of a
        # submitter that was killed.
        os.rename(ask + MADE, ask)
        self.refill()

    def fileno(self) -> int:
        """Return the descriptor of the request FIFO, for select."""
        return self._ask

    def requests(self) -> list[ShellRequest]:
        """Return the new requests. Lines that do not name a ready slot are ignored."""
        try:
            data = self._rest + os.read(self._ask, READ_BYTES)
        except BlockingIOError:
            return []
        *lines, self._rest = data.split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            self._rest = b""
        found = []
        for line in lines:
            said = _LINE.fullmatch(line)
            slot = self._ready.pop(said[3].decode(), None) if said else None
            if said and slot is not None:
                found.append(ShellRequest(int(said[1]), int(said[2]), slot))
        return found

    def refill(self, least: int = READY) -> None:
        """If fewer than `least` slots are ready, create slots until `READY` are."""
        if len(self._ready) < least:
            for name in itertools.islice(self._names, READY - len(self._ready)):
                self._ready[name] = Slot(os.path.join(self._folder, name))

    def sweep(self, now: float) -> None:
        """Remove slots that were taken but never used for a request, and `.taken` files without a slot.

        `now` is a monotonic time.
        """
        if now - self._swept < SWEEP_S:
            return
        self._swept = now
        taken = {name for name, slot in self._ready.items() if slot.is_taken}
        for name in taken & self._stale:
            self._ready.pop(name).close()
        self._stale = taken
        names = set(os.listdir(self._folder))
        for name in names:
            if name.endswith(TAKEN) and name.removesuffix(TAKEN) not in names:
                with contextlib.suppress(FileNotFoundError):  # a worker has just removed it with its slot
                    os.unlink(os.path.join(self._folder, name))

    def close(self) -> None:
        """Stop accepting requests. Shells that have no answer yet use the client in Python."""
        os.unlink(os.path.join(self._folder, REQUEST_FIFO))
        os.close(self._ask)
        for slot in self._ready.values():
            slot.close()
        self._ready.clear()
        with contextlib.suppress(OSError):  # a shell has just taken a slot
            os.rmdir(self._folder)
