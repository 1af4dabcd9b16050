"""Finds a Python with which a job's user can run this program.

Only root may be able to read the agent's own Python. Each interpreter is tested once per user by running it,
which covers modes, links, ACLs and mounts.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import Any, Dict, List

from warpdeck_agent.linux.own_program import OWN, SYSTEM_PATH, own_command

from .user_children import ChildFailed, UserChild, UserChildren

CANDIDATES = ("/usr/bin/python3", "/usr/local/bin/python3", "/opt/python3/bin/python3") + tuple(
    f"/usr/bin/python3.{minor}" for minor in range(14, 8, -1)
)
"""Paths where a Python for every user may be, tried after the agent's own."""
LEAST = (3, 9)
NOBODY = 65_534
CHECK_S = 20.0
"""How long a test run may take, in seconds."""
MAX_BYTES = 4096
"""The most bytes that a test run may print. It should print nothing."""
_ENV = {"PATH": SYSTEM_PATH, OWN: "1"}


class Interpreters:
    """Command lines of this program, by user.

    The user can delay the process that tests an interpreter, so no thread waits for it.
    """

    def __init__(self, children: UserChildren) -> None:
        self._children = children
        self._known: Dict[int, List[str]] = {}

    async def command(self, uid: int, drop: Dict[str, Any]) -> List[str]:
        """Return the arguments that precede a verb; empty if no Python works.

        `drop` are Popen's arguments that switch to the user.
        """
        if not drop:
            return own_command()
        found = self._known.get(uid) or await self._find(uid, drop)
        if found:
            self._known[uid] = found
        return found

    async def _find(self, uid: int, drop: Dict[str, Any]) -> List[str]:
        arguments = own_command()[1:]
        for python in dict.fromkeys((sys.executable, *CANDIDATES)):
            child = UserChild(
                argv=[python, *arguments, "check"], env=_ENV, limit_s=CHECK_S, most_bytes=MAX_BYTES, drop=drop
            )
            with contextlib.suppress(ChildFailed):
                await self._children.run(child, uid=uid)
                return [python, *arguments]
        return []


def for_everybody() -> str:
    """Return a Python that every user of this node may run, "" if there is none. Blocks during the tests."""
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
            env=_ENV,
            cwd="/",
            timeout=CHECK_S,
            check=False,
            **drop,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
