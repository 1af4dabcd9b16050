"""Whether a path lies in one of some folders, by its name alone."""

from __future__ import annotations

import os
from typing import Iterable, Optional


def place_of(path: str, folders: Iterable[str]) -> Optional[str]:
    """The first of the folders that is the path or above it. Both are absolute; links are not followed."""
    plain = os.path.normpath(path)
    for folder in folders:
        if plain == folder or plain.startswith(folder.rstrip("/") + "/"):
            return folder
    return None
