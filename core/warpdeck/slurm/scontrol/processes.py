"""Which processes of this machine are of jobs, as far as the caller may look: a job's processes carry its variables."""

from __future__ import annotations

import os

Process = tuple[int, str, str, str, str]
"""pid, job, step, local task, task; "-" where it is no task itself."""
MAX_ENVIRON = 1 << 20
MARK = "WARPDECK_JOB"
"""What an agent gives to all processes of its jobs, so that those of another Slurm are not taken for ours."""


def job_of(pid: str) -> str:
    """The job of a process; "" for none."""
    return _variables(pid).get("SLURM_JOB_ID", "") if pid.isdecimal() else ""


def processes_of(job: str, step: str) -> list[Process]:
    """Of a job ("" is any) and a step ("" is any), by pid."""
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
    """Those of a job's process; none of any other, and of one that is gone or somebody else's."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            words = file.read(MAX_ENVIRON).split(b"\0")
    except OSError:
        return {}
    pairs = (word.decode("utf-8", "replace").partition("=") for word in words)
    found = {name: value for name, _, value in pairs}
    return found if MARK in found else {}
