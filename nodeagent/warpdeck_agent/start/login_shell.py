"""--get-user-env: the variables of the user's login shell on this node. What was set where the job was submitted outranks them.

The shell is the user's, so it runs as any process of the job: in the job's groups, with its mark. It ends with the job if not before.
"""

from __future__ import annotations

import os
import pwd
import signal
from typing import Any, Dict

from warpdeck_agent.isolation import job_processes, launch_cgroups
from warpdeck_agent.isolation.hold import Hold
from warpdeck_agent.launch.launch import Job
from warpdeck_agent.linux.env_passthrough import ENV
from warpdeck_agent.linux.own_program import SYSTEM_PATH
from warpdeck_agent.users.user_children import UserChild

LOGIN_S = 8.0
"""How long a user's start files may take; after that the job does without (sbatch's default)."""
MAX_BYTES = 1 << 20
"""What start files and env(1) may print. The job does without the variables of a shell that prints more."""
SHELLS = ("bash", "dash", "ksh", "sh", "zsh")
"""Shells that know `-l -c`; for users of others bash is asked."""
NOT_TAKEN = ("PWD", "OLDPWD", "SHLVL", "_", "WARPDECK_JOB", "WARPDECK_TOKEN")
GATE = 'read -r WARPDECK_GO <&1 && [ "$WARPDECK_GO" = go ] || exit 1; unset WARPDECK_GO; exec "$@"'


def login_shell(uid: int, *, home: str, mark: Dict[str, str], hold: Hold, drop: Dict[str, Any]) -> UserChild:
    """The child that prints the variables; see `variables_of`. `mark`: the variables that all of the job's processes carry."""
    try:
        shell = pwd.getpwuid(uid).pw_shell
    except KeyError:
        shell = ""
    if os.path.basename(shell) not in SHELLS:
        shell = "/bin/bash"
    return UserChild(
        argv=["/bin/sh", "-c", GATE, "login", shell, "-l", "-c", f"exec {ENV} -0"],
        env={"HOME": home or "/", "PATH": SYSTEM_PATH, "SHELL": shell, **mark},
        order=b"go\n",
        hold=hold,
        limit_s=LOGIN_S,
        most_bytes=MAX_BYTES,
        drop=drop,
    )


def variables_of(said: bytes) -> Dict[str, str]:
    """What start files print before it stands in front of the first name, and is cut off at its last line."""
    found: Dict[str, str] = {}
    for word in said.decode("utf-8", "replace").split("\0"):
        name, equals, value = word.partition("=")
        name = name.rpartition("\n")[2]
        if equals and name and name not in NOT_TAKEN and "\ufffd" not in word:
            found[name] = value
    return found


def kill_left(job: Job) -> int:
    """Kill what start files left running for a launch that never began. Returns how many processes there were. Blocks."""
    left = {*launch_cgroups.pids(job.meta.hold.groups), *job_processes.marked().get(job.mark, ())}
    job_processes.send(sorted(left), signal.SIGKILL)
    return len(left)
