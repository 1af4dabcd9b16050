"""The scripts of launches.

All launches with the same script and user, such as the tasks of an array, share one file. A file belongs to
its user, who must be able to run it. If the user changes it, later launches get a new file, so that a launch
always runs the script as submitted. Files stay while a launch may still read them, and for a while
afterwards.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import time
from typing import Container, Dict, Tuple

from .spool import create_user_file

DIGEST_BYTES = 32
KEEP_S = 600.0
"""How long an unused script is kept for later launches, in seconds."""


class Scripts:
    """The scripts in one folder."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, mode=0o711 if os.geteuid() == 0 else 0o700, exist_ok=True)
        self._folder = folder
        self._written: Dict[Tuple[int, bytes], str] = {}
        self._changed_ns: Dict[str, int] = {}
        self._numbers = itertools.count(time.time_ns())

    def path(self, text: str, *, uid: int, gid: int) -> str:
        """Return the path of a file with this script that the user may run. Raises OSError."""
        data = text.encode("utf-8", "surrogateescape")
        key = (uid, hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest())
        path = self._written.get(key, "")
        if not path or not self._is_as_written(path):
            path = os.path.join(self._folder, f"{next(self._numbers)}.sh")
            create_user_file(path, data, uid=uid, gid=gid, mode=0o700)
            self._written[key] = path
            self._changed_ns[path] = os.stat(path).st_ctime_ns
        return path

    def clean(self, used: Container[str]) -> None:
        """Remove scripts that no launch uses and that were not created recently."""
        before = time.time() - KEEP_S
        for entry in os.scandir(self._folder):
            if entry.path not in used and entry.stat().st_ctime < before:
                os.unlink(entry.path)
                self._changed_ns.pop(entry.path, None)
        self._written = {key: path for key, path in self._written.items() if path in self._changed_ns}

    def _is_as_written(self, path: str) -> bool:
        """Return whether the file is unchanged.

        Every write and every change of its mode changes the file's ctime.
        """
        try:
            return os.stat(path).st_ctime_ns == self._changed_ns.get(path)
        except FileNotFoundError:
            return False
