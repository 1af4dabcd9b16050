"""Runs a program that may hang in a file system, where no signal ends it.

The program is abandoned after a time limit.
"""

from __future__ import annotations

import subprocess
from typing import Any, Sequence

from .own_program import OWN, SYSTEM_PATH


def run_for(limit_s: float, argv: Sequence[str], *, cwd: str = "/", **options: Any) -> bool:
    """Run a program and return whether it succeeded within `limit_s` seconds.

    `options` are those of Popen, such as `accounts.rights_of`. Blocks. Raises OSError.
    """
    null = subprocess.DEVNULL
    env = {"PATH": SYSTEM_PATH, OWN: "1"}
    child = subprocess.Popen(argv, stdin=null, stdout=null, stderr=null, cwd=cwd, env=env, **options)
    try:
        return child.wait(limit_s) == 0
    except subprocess.TimeoutExpired:
        child.kill()
        return False
