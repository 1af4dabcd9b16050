"""Whether a job's working folder is there, and the one that it was submitted from, asked so that a server that hangs holds up
neither the agent nor other launches."""

from __future__ import annotations

import os
import subprocess
import time
from typing import Dict

from .disks import network_mounts
from .probes import ANSWER_S, Probes
from .program import OWN
from .refusal import LaunchError

KNOWN_S = 1.0
"""An array's tasks share a folder: one that was seen is there for so long."""
MAX_KNOWN = 256


class Folders:
    """Remembers what it has just seen."""

    def __init__(self, *, answer_s: float = ANSWER_S) -> None:
        self._probes = Probes(_is_folder, answer_s=answer_s)
        self._entries = Probes(_is_entry, answer_s=answer_s)
        self._seen: Dict[str, float] = {}

    async def is_there(self, path: str) -> bool:
        """Raises LaunchError where its server does not answer."""
        if time.monotonic() - self._seen.get(path, -KNOWN_S) < KNOWN_S:
            return True
        if _is_remote(path):
            said = (await self._probes.ask([path]))[path]
            if said is None:
                raise _hanging(path)
            found = said is True
        else:
            found = os.path.isdir(path)
        if found:
            if len(self._seen) >= MAX_KNOWN:
                self._seen.clear()
            self._seen[path] = time.monotonic()
        return found

    async def holds(self, path: str, name: str) -> bool:
        """Whether the folder has an entry of that name. Raises LaunchError where its server does not answer."""
        entry = os.path.join(path, name)
        if not _is_remote(path):
            return os.path.lexists(entry)
        # First the folder: names are new each time, so that each would be a question of its own to a server that hangs.
        if not await self.is_there(path):
            return False
        said = (await self._entries.ask([entry]))[entry]
        if said is None:
            raise _hanging(path)
        return said is True


def _hanging(path: str) -> LaunchError:
    """The node's fault, which would take the job again and again while nothing keeps it from that."""
    return LaunchError(f"the folder {path} does not answer on this node", again=True, check="mount")


def _is_remote(path: str) -> bool:
    """By its name alone: a link on a disk of this node may lead elsewhere, and only a look would tell."""
    return any((path + "/").startswith(mount.rstrip("/") + "/") for mount in network_mounts())


def _is_folder(path: str) -> bool:
    return _holds('[ -d "$0" ]', path)


def _is_entry(path: str) -> bool:
    return _holds('[ -e "$0" ] || [ -L "$0" ]', path)


def _holds(test: str, path: str) -> bool:
    words = ["/bin/sh", "-c", test, path]
    null = subprocess.DEVNULL
    done = subprocess.run(words, stdin=null, stdout=null, stderr=null, env={OWN: "1"}, cwd="/", check=False)
    return done.returncode == 0
