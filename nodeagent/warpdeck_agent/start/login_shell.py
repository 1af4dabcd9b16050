"""--get-user-env: the variables of the user's login shell on this node.

Variables from the submission take precedence. The shell is a program of the user, so it runs like any process
of the job: in the job's cgroups and with its job tag. It ends with the job at the latest.
"""

from __future__ import annotations

import os
import pwd
import signal
from typing import Any, Dict

from warpdeck_agent.isolation import job_processes, launch_cgroups
from warpdeck_agent.isolation.containment_handle import ContainmentHandle
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.linux.env_passthrough import ENV
from warpdeck_agent.linux.own_program import SYSTEM_PATH
from warpdeck_agent.users.user_children import UserChild

LOGIN_S = 8.0
"""How long a user's start files may take, in seconds; after that the job starts without them (sbatch's
default).
"""
MAX_BYTES = 1 << 20
"""The most bytes that start files and env(1) may print. If there are more, the job starts without the
variables.
"""
SHELLS = ("bash", "dash", "ksh", "sh", "zsh")
"""Shells that support `-l -c`; for users of other shells bash is used."""
OMITTED = ("PWD", "OLDPWD", "SHLVL", "_", "WARPDECK_JOB", "WARPDECK_TOKEN")
GATE = 'read -r WARPDECK_GO <&1 && [ "$WARPDECK_GO" = go ] || exit 1; unset WARPDECK_GO; exec "$@"'


def login_shell(
    uid: int,
    *,
    home: str,
    tag_variables: Dict[str, str],
    containment: ContainmentHandle,
    drop: Dict[str, Any],
) -> UserChild:
    """Return the child process that prints the variables (see `variables_of`).

    `tag_variables` holds the variables of the job tag.
    """
    try:
        shell = pwd.getpwuid(uid).pw_shell
    except KeyError:
        shell = ""
    if os.path.basename(shell) not in SHELLS:
        shell = "/bin/bash"
    return UserChild(
        argv=["/bin/sh", "-c", GATE, "login", shell, "-l", "-c", f"exec {ENV} -0"],
        env={"HOME": home or "/", "PATH": SYSTEM_PATH, "SHELL": shell, **tag_variables},
        order=b"go\n",
        containment=containment,
        limit_s=LOGIN_S,
        most_bytes=MAX_BYTES,
        drop=drop,
    )


def variables_of(output: bytes) -> Dict[str, str]:
    """Return the variables in the output of `env -0`.

    Output of the start files precedes the first name; it is removed up to its last line end.
    """
    found: Dict[str, str] = {}
    for variable in output.decode("utf-8", "replace").split("\0"):
        name, equals, value = variable.partition("=")
        name = name.rpartition("\n")[2]
        if equals and name and name not in OMITTED and "\ufffd" not in variable:
            found[name] = value
    return found


def kill_remaining(launch: LocalLaunch) -> int:
    """Kill the processes that start files left running for a launch that never began.

    Returns the number of processes. Blocks.
    """
    left = {
        *launch_cgroups.pids(launch.meta.hold.groups),
        *job_processes.pids_by_job_tag().get(launch.processes.tag, ()),
    }
    job_processes.send(sorted(left), signal.SIGKILL)
    return len(left)
