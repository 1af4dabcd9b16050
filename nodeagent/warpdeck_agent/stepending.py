"""The steps of a launch that ends: they get the grace time that the launch has, and nothing is settled before they have ended."""

from __future__ import annotations

import asyncio
import signal

from .job import Job
from .signals import Signals

KILL_AGAIN_S = 0.5
"""How often KILL is repeated for what a step still forks while it is being ended."""
KILL_TRIES = 20
"""After so many the launch is settled all the same: a process that the kernel does not end ends with nothing else."""


async def end_steps(job: Job, signals: Signals, *, grace_s: float) -> None:
    """TERM to what still runs of the launch, the grace time, KILL; returns when its steps have ended."""
    over = asyncio.get_running_loop().create_task(_all_over(job))
    try:
        if grace_s > 0:
            await signals.send(job, signal.SIGTERM, signal.SIGCONT)
            await asyncio.wait([over], timeout=grace_s)
        for _ in range(KILL_TRIES):
            if over.done():
                return
            await signals.send(job, signal.SIGKILL)
            await asyncio.wait([over], timeout=KILL_AGAIN_S)
    finally:
        over.cancel()


async def _all_over(job: Job) -> None:
    for step in list(job.steps.values()):
        await step.done.wait()
