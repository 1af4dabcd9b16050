"""Tests by name alone whether a path lies in one of several folders."""

from __future__ import annotations

import os
from typing import Iterable, Optional


def folder_containing(path: str, folders: Iterable[str]) -> Optional[str]:
    """Return the first folder that equals `path` or contains it, or None.

    All paths are absolute. Symbolic links are not followed.
    """
    plain = os.path.normpath(path)
    for folder in folders:
        if plain == folder or plain.startswith(folder.rstrip("/") + "/"):
            return folder
    return None
