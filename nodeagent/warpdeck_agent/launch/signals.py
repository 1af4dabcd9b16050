"""Sends signals to all processes of a launch, or to the processes for which a signal or warning is meant."""

from __future__ import annotations

import asyncio
import signal
import time
from concurrent.futures import Executor
from typing import Sequence, Set, Tuple

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.tasks.task import STEP_VARIABLE

from .launch import LocalLaunch

ALL, BATCH, PROGRAMS, WARNED = "all", "batch", "programs", "warned"
"""The processes for which a signal is meant."""
MAX_STOPS = 5
"""The most searches for processes that a job forks while it is being stopped."""
WARNING_S, WARNING_INTERVAL_S = 30.0, 0.5
"""Time for which, and the interval at which, a warning is sent again that no process can receive yet. Slurm
compares jobs with their time limits only every 30 seconds, so its warnings come as late.
"""


class Signals:
    """Sends signals. Processes are searched in the pool's threads. A launch that has ended gets no signal."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool

    async def send(self, launch: LocalLaunch, *numbers: int) -> Tuple[int, ...]:
        """Send the signals, in order, to every process of the launch. Returns the pids."""
        members = await self._members(launch)
        if launch.phase == "running":
            for number in numbers:
                job_processes.send(members, number)
        return members

    def kill_host(self, launch: LocalLaunch) -> None:
        """Kill the host of the job's terminal, which no other signal reaches."""
        host = launch.folder.pid()
        if launch.phase == "running" and launch.processes.owns(host):
            job_processes.send((host,), signal.SIGKILL)

    async def stop(self, launch: LocalLaunch, number: int) -> None:
        """Stop all processes, again and again until no new one is found.

        Running processes may fork meanwhile.
        """
        known: Set[int] = set()
        for _ in range(MAX_STOPS):
            if launch.limit is None or not launch.limit.suspended:
                return
            members = await self.send(launch, number)
            if known.issuperset(members):
                return
            known.update(members)

    async def send_to(self, launch: LocalLaunch, number: int, *, whom: str) -> None:
        """Send a signal to the processes that `whom` selects.

        They are all processes, the batch shell alone, or the programs that it runs and that may receive the
        signal.
        """
        members = await self._members(launch)
        if launch.phase == "running":
            job_processes.send(_recipients(launch, members, number, whom=whom), number)

    async def warn(self, launch: LocalLaunch) -> None:
        """Send the signal that the job requested for before its time limit.

        A script may be warned as soon as it starts, before it has set its handler. So a warning that nobody
        can receive yet is sent again, as late as Slurm may send it.
        """
        whom = BATCH if launch.meta.warn_batch_only and launch.meta.role == "batch" else WARNED
        number = launch.meta.warn_signal
        deadline = time.monotonic() + WARNING_S
        while True:
            members = await self._members(launch)
            if launch.phase != "running" or launch.end.cause:
                return
            recipients = _recipients(launch, members, number, whom=whom)
            if recipients or time.monotonic() > deadline:
                job_processes.send(recipients, number)
                return
            await asyncio.sleep(WARNING_INTERVAL_S)

    async def ask_to_save(self, launch: LocalLaunch, number: int, *, sends: bool) -> Tuple[int, ...]:
        """Ask the processes that handle the signal to save their work. Returns their pids.

        They are the processes that a warning before the time limit would reach. If the shell of the batch script
        is not among them, it is stopped, so that the script does not continue when its program has saved its work
        and exited. Without `sends`, the processes have had the signal from an earlier agent.
        """
        whom = BATCH if launch.meta.warn_batch_only and launch.meta.role == "batch" else WARNED
        members = await self._members(launch)
        asked = tuple(_recipients(launch, members, number, whom=whom))
        if launch.phase != "running" or not asked:
            return ()
        shell = launch.processes.batch_shell(members) if launch.meta.role == "batch" else 0
        if shell and shell not in asked:
            job_processes.send((shell,), signal.SIGSTOP)
        if sends:
            job_processes.send(asked, number)
            job_processes.send(asked, signal.SIGCONT)
        return asked

    async def running_of(self, launch: LocalLaunch, pids: Tuple[int, ...]) -> Tuple[int, ...]:
        """Return those of the processes that still run and belong to the launch."""
        members = frozenset(await self._members(launch))
        return tuple(pid for pid in pids if pid in members)

    async def _members(self, launch: LocalLaunch) -> Tuple[int, ...]:
        return await asyncio.get_running_loop().run_in_executor(self._pool, launch.processes.pids)


def _recipients(launch: LocalLaunch, members: Tuple[int, ...], number: int, *, whom: str) -> Sequence[int]:
    """Return the processes for which a signal is meant: the batch shell, or the programs that it runs.

    A warning is for both. Slurm sends no signal to processes outside of steps. We send it to those that have a
    handler for it. The other processes would only die of the signal, and end the job before its data is saved.
    """
    if whom == ALL:
        return members
    if launch.meta.role != "batch":
        return () if whom == BATCH else members
    shell = launch.processes.batch_shell(members)
    if whom == BATCH:
        return [shell] if shell else []
    reached = [pid for pid in members if _is_of_step(pid) or job_processes.catches(pid, number)]
    return reached if whom == WARNED else [pid for pid in reached if pid != shell]


def _is_of_step(pid: int) -> bool:
    return bool(job_processes.variable(pid, STEP_VARIABLE))
