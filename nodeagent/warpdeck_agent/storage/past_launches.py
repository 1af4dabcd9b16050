"""The launches that the controller has told the agent to forget, with their last reports.

  D/past      one line of JSON for each launch, the newest last
  D/past.old  the lines before, up to MAX_BYTES

A controller with an older database asks for them. They are not written durably: a power failure may lose the last ones.
"""

from __future__ import annotations

import contextlib
import os
from typing import Dict, Iterator, List, Optional, Tuple

from warpdeck_agent.wire.fields import build, encode
from warpdeck_agent.wire.frames import WireError
from warpdeck_agent.wire.jsontext import dumps, loads
from warpdeck_agent.wire.launches import Key
from warpdeck_agent.wire.past_launches import KnownLaunch

from .spool import Folder

FILE, OLD = "past", "past.old"
MAX_BYTES = 4 * 1024 * 1024
"""Size of one file. A launch takes one to two kilobytes."""


class PastLaunches:
    """The forgotten launches of this node."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._descriptor: Optional[int] = None
        self._size = 0

    def add(self, known: KnownLaunch) -> None:
        """Remember a launch. On a full disk it is not remembered."""
        line = dumps(encode(known)).encode("utf-8", "replace") + b"\n"
        with contextlib.suppress(OSError):
            if self._descriptor is None:
                self._open()
            if self._size + len(line) > MAX_BYTES:
                self._begin_file()
            assert self._descriptor is not None
            self._size += os.write(self._descriptor, line)

    def proofs(self) -> List[Tuple[Key, str]]:
        """Return the launches with their proofs, the newest first."""
        found: Dict[Key, str] = {}
        for known in self._read():
            key = (known.report.job_id, known.report.restarts)
            found.pop(key, None)
            found[key] = known.report.proof
        return list(reversed(found.items()))

    def find(self, keys: List[Key]) -> List[KnownLaunch]:
        """Return the remembered ones of these launches."""
        wanted, found = set(keys), {}
        for known in self._read():
            key = (known.report.job_id, known.report.restarts)
            if key in wanted:
                found[key] = known
        return list(found.values())

    def _open(self) -> None:
        path = self._folder.file(FILE)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._descriptor).st_size
        if self._size and not self._ends_with_line():  # An agent was killed while it wrote.
            self._size += os.write(self._descriptor, b"\n")

    def _begin_file(self) -> None:
        """Keep the full file as the older one, and begin a new one."""
        assert self._descriptor is not None
        os.close(self._descriptor)
        self._descriptor = None
        os.replace(self._folder.file(FILE), self._folder.file(OLD))
        self._open()

    def _ends_with_line(self) -> bool:
        with open(self._folder.file(FILE), "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read() == b"\n"

    def _read(self) -> Iterator[KnownLaunch]:
        """Yield all launches, the oldest first. Lines that are not understood are left out."""
        for name in (OLD, FILE):
            for line in self._folder.read_lines(name):
                try:
                    yield build(KnownLaunch, loads(line), name)
                except (ValueError, TypeError, WireError):
                    continue
