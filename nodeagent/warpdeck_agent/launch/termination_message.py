"""The line that slurmstepd writes to the standard error of a job's script when the job is ended from outside.

People and programs look for it: many distinguish failures by "DUE TO TIME LIMIT" and "oom-kill".
"""

from __future__ import annotations

import time

DUE_TO = {"timeout": "TIME LIMIT", "preempted": "PREEMPTION", "requeued": "JOB REQUEUE"}
"""Slurm's words for a cause of the end; other causes have none."""


def oom_message(step_id: str) -> str:
    """Return the message for a step in which processes were killed for lack of memory."""
    text = f"Detected 1 oom-kill event(s) in StepId={step_id}. Some of your processes may have been killed"
    return f"{text} by the cgroup out-of-memory handler."


def termination_message(job_id: int, node: str, *, cause: str, at_unix: float) -> str:
    """Return slurmstepd's line for the end of a job, without its line end."""
    if cause == "oom":
        return f"slurmstepd: error: {oom_message(f'{job_id}.batch')}"
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at_unix))
    reason = f" DUE TO {DUE_TO[cause]}" if cause in DUE_TO else ""
    return f"slurmstepd: error: *** JOB {job_id} ON {node} CANCELLED AT {moment}{reason} ***"
