"""What the standard error of a job's script says of an end that was not the script's own: the line that slurmstepd leaves there.

People look for it, and programs do: "DUE TO TIME LIMIT" and "oom-kill" are how many tell one failure from another.
"""

from __future__ import annotations

import time

DUE_TO = {"timeout": "TIME LIMIT", "preempted": "PREEMPTION", "requeued": "JOB REQUEUE"}
"""Cause of an end -> Slurm's words for it; the others have none."""


def oom_words(step_id: str) -> str:
    """Of a step in which processes were killed for their memory."""
    told = f"Detected 1 oom-kill event(s) in StepId={step_id}. Some of your processes may have been killed"
    return f"{told} by the cgroup out-of-memory handler."


def last_words(job_id: int, node: str, *, cause: str, at_unix: float) -> str:
    """The line, without its end."""
    if cause == "oom":
        return f"slurmstepd: error: {oom_words(f'{job_id}.batch')}"
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at_unix))
    why = f" DUE TO {DUE_TO[cause]}" if cause in DUE_TO else ""
    return f"slurmstepd: error: *** JOB {job_id} ON {node} CANCELLED AT {moment}{why} ***"
