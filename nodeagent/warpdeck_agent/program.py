"""This program itself: which build it is, and how to run it again."""

from __future__ import annotations

import hashlib
import os
import sys
from typing import List


def own_command() -> List[str]:
    """The command line to put a verb behind. Nobody's PYTHON* variables or current folder reach the zipapp."""
    archive = _archive()
    return [sys.executable, "-I", archive] if archive else [sys.executable, "-m", "warpdeck_agent"]


def build_id() -> str:
    """SHA-256 of the zipapp that runs; "source" from a checkout."""
    archive = _archive()
    if not archive:
        return "source"
    with open(archive, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _archive() -> str:
    path = os.path.abspath(sys.argv[0])
    return path if path.endswith(".pyz") else ""
