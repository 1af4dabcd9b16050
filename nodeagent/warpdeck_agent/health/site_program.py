"""The end of a program of the site's own that took too long: with all that it has started, and without waiting for ever.

What it started may have left its process group, so each run carries a variable of its own. One that hangs in the kernel
(a mount that does not answer) dies of no signal: it is left behind.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.linux.own_program import OWN

DIE_S = 2.0
"""How long a program that was killed is waited for."""


def own_mark() -> str:
    """A value of OWN for one run."""
    return secrets.token_hex(8)


def end_group(process: subprocess.Popen[bytes]) -> bool:
    """Kills it and what is in its process group; whether it is dead."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(DIE_S)
    return process.returncode is not None


def end_tree(process: subprocess.Popen[bytes], mark: str) -> bool:
    """Kills it and all that carries its mark; whether it is dead."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    job_processes.send([pid for pid in pids if job_processes.variable(pid, OWN) == mark], signal.SIGKILL)
    return end_group(process)
