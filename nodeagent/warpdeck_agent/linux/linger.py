"""What keeps the agent alive when the user who started it logs out.

A process in a session of its own outlives its SSH connection, but systemd-logind may be told to end all that a user left
(KillUserProcesses=yes). A scope outside the login session is safe from that: the system's for root, the user manager's
where that manager lingers. Whether one can be had is tried, not guessed; else the session of our own must do.
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
"""How long systemd may take to make a scope before we do without."""
UNIT = "warpdeck-agent-"


def scope_command(unit: str, *, root: str = "/", path: str = SYSTEM_PATH) -> List[str]:
    """What to put before a command so that it runs in a scope of that name; nothing where there is no such scope."""
    program = shutil.which("systemd-run", path=path)
    if program is None or not os.path.isdir(os.path.join(root, "run/systemd/system")):
        return []
    command = [program, "--scope", "--quiet", "--collect", "--property=Delegate=yes"]
    if os.geteuid() != 0:
        if not _lingers(root):
            return []
        command.insert(1, "--user")
        # A login that did not go through pam_systemd is not told where the user's manager listens.
        os.environ.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.geteuid()}")
    try:
        tried = subprocess.run([*command, "/bin/true"], capture_output=True, timeout=TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [*command, f"--unit={unit}", "--"] if tried.returncode == 0 else []


def keeper(cgroups: str = "/proc/self/cgroup") -> str:
    """In words, what this process runs in."""
    if any(in_own_scope(line) for line in text(cgroups).splitlines()):
        return "a systemd scope of its own"
    return "a session of its own"


def in_own_scope(group: str) -> bool:
    """Whether a group is a scope that was made for an agent, or the part of it where the agent is."""
    unit = next((name for name in reversed(group.split("/")) if name.endswith(".scope")), "")
    return unit.startswith(UNIT)


def _lingers(root: str) -> bool:
    """Whether the user's manager outlives the last session: `loginctl enable-linger`."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return os.path.exists(os.path.join(root, "var/lib/systemd/linger", name))
