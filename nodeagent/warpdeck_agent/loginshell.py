"""--get-user-env: the variables of the user's login shell on this node. What was set where the job was submitted outranks them."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from typing import Any, Dict

from .carrying import ENV
from .program import SYSTEM_PATH

LOGIN_S = 8.0
"""How long a user's start files may take; after that the job does without (sbatch's default)."""
MAX_BYTES = 1 << 20
SHELLS = ("bash", "dash", "ksh", "sh", "zsh")
"""Shells that know `-l -c`; for users of others bash is asked."""
NOT_TAKEN = ("PWD", "OLDPWD", "SHLVL", "_", "WARPDECK_JOB", "WARPDECK_TOKEN")


def login_environment(uid: int, *, home: str, mark: Dict[str, str], drop: Dict[str, Any]) -> Dict[str, str]:
    """What the user's start files set; nothing if they fail. `mark`: the job's variables.
    `drop`: Popen's arguments that make it the user's. Blocks."""
    try:
        shell = pwd.getpwuid(uid).pw_shell
    except KeyError:
        shell = ""
    if os.path.basename(shell) not in SHELLS:
        shell = "/bin/bash"
    env = {"HOME": home or "/", "PATH": SYSTEM_PATH, "SHELL": shell, **mark}
    try:
        process = subprocess.Popen(
            [shell, "-l", "-c", f"exec {ENV} -0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            cwd="/",
            start_new_session=True,
            **drop,
        )
    except OSError:
        return {}
    try:
        said, _ = process.communicate(timeout=LOGIN_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {}
    return _parse(said[:MAX_BYTES]) if process.returncode == 0 else {}


def _parse(said: bytes) -> Dict[str, str]:
    """What start files print before it stands in front of the first name, and is cut off at its last line."""
    found: Dict[str, str] = {}
    for word in said.decode("utf-8", "replace").split("\0"):
        name, equals, value = word.partition("=")
        name = name.rpartition("\n")[2]
        if equals and name and name not in NOT_TAKEN and "\ufffd" not in word:
            found[name] = value
    return found
