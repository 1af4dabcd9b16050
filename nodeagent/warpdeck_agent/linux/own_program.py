"""This program itself: which build it is, and how to run it again."""

from __future__ import annotations

import hashlib
import os
import sys
from typing import List

SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
"""Where our own tools are: a job's PATH is its user's affair."""
OWN = "WARPDECK_AGENT"
"""In the environment of whatever the agent starts for itself."""
SUBREAPER = "WARPDECK_SUBREAPER"
"""In the environment of a supervisor that has to be one."""
JOB_UMASK = "022"
"""Of a job that says none. The supervisor's own is stricter."""
FROM_SOURCE = "import sys; sys.path.insert(0, {root!r}); from warpdeck_agent.__main__ import main; sys.exit(main(sys.argv[1:]))"


def own_command() -> List[str]:
    """The command line to put a verb behind. Nobody's PYTHON* variables or current folder reach it; the archive needs no `site`."""
    archive = _archive()
    return [
        sys.executable,
        "-I",
        *(["-S", archive] if archive else ["-c", FROM_SOURCE.format(root=own_path())]),
    ]


def own_path() -> str:
    """Where its code lies: the archive, or the folder of a checkout."""
    return _archive() or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


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
