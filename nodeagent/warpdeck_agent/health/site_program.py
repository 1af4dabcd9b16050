"""Ends a program of the site that took too long, together with all its children, in limited time.

Its children may have left its process group, so each run has a unique variable by which they are found. A
process that hangs in the kernel (because of a mount that does not answer) cannot be killed, and is abandoned.
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
"""How long to wait for a killed program, in seconds."""


def new_run_id() -> str:
    """Return a unique value of the variable OWN for one run."""
    return secrets.token_hex(8)


def end_group(process: subprocess.Popen[bytes]) -> bool:
    """Kill the program and its process group. Returns whether it is dead."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(DIE_S)
    return process.returncode is not None


def end_tree(process: subprocess.Popen[bytes], run_id: str) -> bool:
    """Kill the program and all processes with the value `run_id` of the variable OWN.

    Returns whether it is dead.
    """
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    job_processes.send([pid for pid in pids if job_processes.variable(pid, OWN) == run_id], signal.SIGKILL)
    return end_group(process)
