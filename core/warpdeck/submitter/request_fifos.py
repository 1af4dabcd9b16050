"""The folder in which shells and a submitter meet.

    ask              FIFO: a line `PID WORDS SLOT` for each question, short enough that lines never mix
    NAME.slot        FIFO: room for one answer; its writing end is held here from the start
    NAME.slot.taken  made by the shell that takes the slot, exclusively

A shell opens its slot for reading before it asks. As nobody but us holds the writing end, a submitter that is killed ends what
the shell reads, whenever that is. A slot is used once, and no name comes twice: what is late finds nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import secrets
import time

from warpdeck.base.submitter_address import ASK

READY = 32
"""Slots that stand ready: so many shells may ask in the same moment; one more goes the other road."""
LEAST_READY = 16
"""With fewer others are made before the next question is looked at, else in a quiet moment."""
SWEEP_S = 10.0
"""A slot that was taken and never asked with goes after two such times; a shell asks at once."""
MAX_LINE_BYTES = 256
READ_BYTES = 1 << 16
SLOT, TAKEN, MADE = ".slot", ".taken", ".new"
FLAGS = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW

_LINE = re.compile(rb"([0-9]{1,10}) ([0-9]{1,9}) ([0-9a-f-]{1,64}\.slot)")


class Slot:
    """Room for one answer: each word of it is a line. `path` is made."""

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
        """Raises BlockingIOError where a pipe has no room for it all."""
        data = text.encode("utf-8", "surrogateescape")
        if os.write(self._descriptor, data) < len(data):
            raise BlockingIOError("an answer that is too long")

    def close(self) -> None:
        """Ends the answer."""
        os.close(self._descriptor)
        for path in (self._path, self._path + TAKEN):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


class Question:
    """A shell that asks: its process, how many words it was given, and where it reads the answer."""

    def __init__(self, pid: int, words: int, slot: Slot) -> None:
        self.pid = pid
        self.words = words
        self.slot = slot
        self.since = time.monotonic()


def hold(folder: str) -> int:
    """Makes the folder, for this process alone as long as the descriptor is open. Raises BlockingIOError where another has it or
    has just removed it, PermissionError where others could reach it, OSError where it cannot be."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not this user's alone")
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if not os.fstat(descriptor).st_nlink:  # what is made there from now on is another's
        raise BlockingIOError(f"{folder} was removed meanwhile")
    return descriptor


class Slots:
    """A folder that this process holds, open for questions. Raises OSError."""

    def __init__(self, folder: str) -> None:
        for name in os.listdir(folder):  # of one that was killed
            os.unlink(os.path.join(folder, name))
        self._folder = folder
        prefix = secrets.token_hex(4)
        self._names = (f"{prefix}-{number}{SLOT}" for number in itertools.count())
        self._ready: dict[str, Slot] = {}
        self._stale: set[str] = set()
        self._swept = 0.0
        self._rest = b""
        ask = os.path.join(folder, ASK)
        os.mkfifo(ask + MADE, 0o600)
        self._ask = os.open(ask + MADE, FLAGS)
        # Over the file that a shell's opening may have made, which had a slot of one that was killed.
        os.rename(ask + MADE, ask)
        self.refill()

    def fileno(self) -> int:
        """For select."""
        return self._ask

    def questions(self) -> list[Question]:
        """What was asked since. What is no question of a slot that stands ready is passed over."""
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
                found.append(Question(int(said[1]), int(said[2]), slot))
        return found

    def refill(self, least: int = READY) -> None:
        """Has as many slots stand ready as should, once there are fewer than `least`."""
        if len(self._ready) < least:
            for name in itertools.islice(self._names, READY - len(self._ready)):
                self._ready[name] = Slot(os.path.join(self._folder, name))

    def sweep(self, now: float) -> None:
        """Lets go of slots that somebody took and never asked with. `now` is of the monotonic clock."""
        if now - self._swept < SWEEP_S:
            return
        self._swept = now
        taken = {name for name, slot in self._ready.items() if slot.is_taken}
        for name in taken & self._stale:
            self._ready.pop(name).close()
        self._stale = taken

    def close(self) -> None:
        """Nobody can ask from here on; who has asked and has no answer yet goes the other road."""
        os.unlink(os.path.join(self._folder, ASK))
        os.close(self._ask)
        for slot in self._ready.values():
            slot.close()
        self._ready.clear()
        with contextlib.suppress(OSError):  # a shell has just taken a slot
            os.rmdir(self._folder)
