"""Which Python a job's user may run this program with: the agent's own may lie where only root can read.

Found out once for each user, by trying: modes, links, ACLs and mounts are the kernel's affair.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Dict, List

from .program import OWN, SYSTEM_PATH, own_command

CANDIDATES = ("/usr/bin/python3", "/usr/local/bin/python3", "/opt/python3/bin/python3") + tuple(
    f"/usr/bin/python3.{minor}" for minor in range(14, 8, -1)
)
"""Where a Python for everybody lies, behind the agent's own."""
LEAST = (3, 9)
NOBODY = 65_534
CHECK_S = 20.0
"""How long one may take to say that it can."""


class Interpreters:
    """Command lines of this program, by user. Blocks at a user's first terminal."""

    def __init__(self) -> None:
        self._known: Dict[int, List[str]] = {}

    def command(self, uid: int, drop: Dict[str, Any]) -> List[str]:
        """The words to put a verb behind; none where no Python will do. `drop`: Popen's arguments that make it the user's."""
        if not drop:
            return own_command()
        found = self._known.get(uid) or self._find(drop)
        if found:
            self._known[uid] = found
        return found

    def _find(self, drop: Dict[str, Any]) -> List[str]:
        arguments = own_command()[1:]
        for python in dict.fromkeys((sys.executable, *CANDIDATES)):
            if _can([python, *arguments, "check"], drop):
                return [python, *arguments]
        return []


def for_everybody() -> str:
    """A Python that every user of this node may run, "" if there is none. Blocks for as long as trying takes."""
    drop: Dict[str, Any] = {}
    if os.geteuid() == 0:
        drop = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    for python in dict.fromkeys((sys.executable, *CANDIDATES)):
        if _can([python, "-I", "-S", "-c", f"import sys; sys.exit(sys.version_info < {LEAST})"], drop):
            return python
    return ""


def _can(argv: List[str], drop: Dict[str, Any]) -> bool:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": SYSTEM_PATH, OWN: "1"},
            cwd="/",
            timeout=CHECK_S,
            check=False,
            **drop,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
