"""Ends steps on request: a single step, or all steps of a launch that ends.

Steps get the grace time of their launch. The end of the launch is only processed after they have ended.
"""

from __future__ import annotations

import asyncio
import signal
from concurrent.futures import Executor
from typing import Set

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.launch.launch import LocalLaunch, LocalStep
from warpdeck_agent.launch.signals import Signals

TERM_AGAIN_S = 0.5
"""Interval in seconds, within the grace time, of searches for processes that have not received TERM yet."""

KILL_AGAIN_S = 0.5
"""Interval in seconds at which KILL is repeated for processes that a step still forks while it is being
ended.
"""
KILL_TRIES = 20
"""Number of KILL rounds after which the launch is treated as ended anyway. Further attempts would not help
against a process that the kernel cannot end.
"""


async def end_steps(launch: LocalLaunch, signals: Signals, *, grace_s: float) -> None:
    """End the launch's steps with TERM, the grace time and KILL. Returns when they have ended."""
    over = asyncio.get_running_loop().create_task(_all_over(launch))
    try:
        if grace_s > 0:
            await signals.send(launch, signal.SIGTERM, signal.SIGCONT)
            await asyncio.wait([over], timeout=grace_s)
        for _ in range(KILL_TRIES):
            if over.done():
                return
            await signals.send(launch, signal.SIGKILL)
            await asyncio.wait([over], timeout=KILL_AGAIN_S)
    finally:
        over.cancel()


async def signal_step(step: LocalStep, number: int, *, pool: Executor, rank: int = -1) -> None:
    """Send a signal to all processes of a step, or of one of its tasks."""
    members = await asyncio.get_running_loop().run_in_executor(pool, step.pids, rank)
    job_processes.send(members, number)


async def end_step(step: LocalStep, *, grace_s: float, pool: Executor) -> None:
    """End a step with TERM and, after the grace time, KILL until none of its processes is left."""
    step.progress.is_ending = True
    loop = asyncio.get_running_loop()
    done = loop.create_task(step.progress.done.wait())
    until = loop.time() + grace_s
    signaled: Set[int] = set()
    while grace_s > 0 and not done.done() and (left_s := until - loop.time()) > 0:
        if len(signaled) < len(step.tasks):
            # A task may have just begun, so search again. New processes of a task that already has TERM do
            # not get another one.
            found = await loop.run_in_executor(pool, step.pids_by_rank)
            for rank in found.keys() - signaled:
                job_processes.send(found[rank], signal.SIGTERM)
                job_processes.send(found[rank], signal.SIGCONT)
            signaled.update(found)
        await asyncio.wait([done], timeout=min(left_s, TERM_AGAIN_S))
    while step.launch.phase == "running" and any(task.runs for task in step.tasks.values()):
        await signal_step(step, signal.SIGKILL, pool=pool)
        await asyncio.wait([done], timeout=KILL_AGAIN_S)
    done.cancel()


async def _all_over(launch: LocalLaunch) -> None:
    for step in list(launch.steps.values()):
        await step.progress.done.wait()
