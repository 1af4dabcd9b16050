"""The backups in a folder.

Only plain files of this user count. In a folder such as /tmp, another user could otherwise add files with later dates, so
that the real backups are deleted as older ones, or so that a wrong one is restored.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from .manifest import GENERATION


class Generation(NamedTuple):
    """One backup. Backups sort by time."""

    name: str
    site: str


def generations(folder: str) -> list[Generation]:
    """Return the backups of this user in the folder, the oldest first. Raises OSError."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            match = GENERATION.fullmatch(entry.name)
            if match and _is_own_file(entry):
                found.append(Generation(entry.name, match["site"]))
    return sorted(found)


def _is_own_file(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
