"""Keeps the agent alive when the user who started it logs out.

A process in a session of its own outlives its SSH connection, but systemd-logind may be configured to end all
processes of a user (KillUserProcesses=yes). A scope outside of the login session is safe from that. Root gets
a scope of the system; other users get one of their user manager, if that manager lingers. We test whether a
scope can be created, and otherwise use a session of our own.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from typing import List

from .own_program import SYSTEM_PATH
from .procfs import text

TRY_S = 5.0
"""How long systemd may take to create a scope before the agent runs without one, in seconds."""
UNIT = "warpdeck-agent-"


def scope_command(unit: str, *, root: str = "/", path: str = SYSTEM_PATH) -> List[str]:
    """Return the command prefix that runs a command in a scope with that name.

    It is empty if scopes are not available.
    """
    program = shutil.which("systemd-run", path=path)
    if program is None or not os.path.isdir(os.path.join(root, "run/systemd/system")):
        return []
    command = [program, "--scope", "--quiet", "--collect", "--property=Delegate=yes"]
    if os.geteuid() != 0:
        if not _lingers(root):
            return []
        command.insert(1, "--user")
        # A login without pam_systemd does not have the variable with the address of the user's manager.
        os.environ.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.geteuid()}")
    try:
        test = subprocess.run([*command, "/bin/true"], capture_output=True, timeout=TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [*command, f"--unit={unit}", "--"] if test.returncode == 0 else []


def describe_session(cgroups: str = "/proc/self/cgroup") -> str:
    """Describe the session or scope in which this process runs."""
    if any(in_own_scope(line) for line in text(cgroups).splitlines()):
        return "its own systemd scope"
    return "its own session"


def in_own_scope(group: str) -> bool:
    """Return whether a cgroup is a scope that was made for an agent, or the agent's part of it."""
    unit = next((name for name in reversed(group.split("/")) if name.endswith(".scope")), "")
    return unit.startswith(UNIT)


def _lingers(root: str) -> bool:
    """Return whether the user's manager outlives the last session (`loginctl enable-linger`)."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return os.path.exists(os.path.join(root, "var/lib/systemd/linger", name))
