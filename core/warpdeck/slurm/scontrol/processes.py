"""Finds the processes of jobs on this machine by their environment variables.

Processes whose environment the caller may not read are not found.
"""

from __future__ import annotations

import os

Process = tuple[int, str, str, str, str]
"""Process id, job, step, local task id and task id; the task ids are "-" if the process is not a task."""
MAX_ENVIRON = 1 << 20
MARK = "WARPDECK_JOB"
"""Variable that an agent sets in all processes of its jobs. Jobs of another Slurm do not have it."""


def job_of(pid: str) -> str:
    """Return the job of a process, or "" if there is none."""
    return _variables(pid).get("SLURM_JOB_ID", "") if pid.isdecimal() else ""


def processes_of(job: str, step: str) -> list[Process]:
    """Return the processes of a job and a step in the order of their ids; "" matches any job or step."""
    found: list[Process] = []
    for pid in sorted(filter(str.isdecimal, os.listdir("/proc")), key=int):
        known = _variables(pid)
        number = known.get("SLURM_JOB_ID", "")
        if not number or (job and number != job):
            continue
        name = known.get("SLURM_STEPID", "batch")
        if step and name != step:
            continue
        found.append(
            (int(pid), number, name, known.get("SLURM_LOCALID", "-"), known.get("SLURM_PROCID", "-"))
        )
    return found


def _variables(pid: str) -> dict[str, str]:
    """Return the environment of a job's process.

    It is empty for any other process, and if the process has ended or belongs to another user.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            words = file.read(MAX_ENVIRON).split(b"\0")
    except OSError:
        return {}
    pairs = (word.decode("utf-8", "replace").partition("=") for word in words)
    found = {name: value for name, _, value in pairs}
    return found if MARK in found else {}
