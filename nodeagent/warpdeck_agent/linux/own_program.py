"""This program itself: its build id, and the command to run it again."""

from __future__ import annotations

import hashlib
import os
import sys
from typing import List

SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
"""Path of our own tools; a job's PATH is controlled by its user."""
OWN = "WARPDECK_AGENT"
"""Variable in the environment of all processes that the agent starts for itself."""
SUBREAPER = "WARPDECK_SUBREAPER"
"""Variable in the environment of a supervisor that must be a subreaper."""
JOB_UMASK = "022"
"""Umask of a job without an explicit one. The supervisor's own is stricter."""
FROM_SOURCE = "import sys; sys.path.insert(0, {root!r}); from warpdeck_agent.__main__ import main; sys.exit(main(sys.argv[1:]))"


def own_command() -> List[str]:
    """Return the command line that precedes a verb.

    A user's PYTHON* variables and current folder do not affect it. The archive does not need the module
    `site`.
    """
    archive = _archive()
    return [
        sys.executable,
        "-I",
        *(["-S", archive] if archive else ["-c", FROM_SOURCE.format(root=own_path())]),
    ]


def own_path() -> str:
    """Return the path of its code: the archive, or the folder of a checkout."""
    return _archive() or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def build_id() -> str:
    """Return the SHA-256 of the running zipapp; "source" in a checkout."""
    archive = _archive()
    if not archive:
        return "source"
    with open(archive, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _archive() -> str:
    path = os.path.abspath(sys.argv[0])
    return path if path.endswith(".pyz") else ""
