"""The starts that Slurm expects, with one command for all jobs that somebody has asked about in the last minute."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from warpdeck.base.errors import UserError
from warpdeck.controller.state.state import State
from warpdeck.engines.slurm.cluster.poller import Poller
from warpdeck.engines.slurm.cluster.polling import Allowance
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.reading import values
from warpdeck.model import JobId

ASKED_S = 60.0
"""Seconds for which a job is asked about again after somebody has asked, and for which an answer is kept."""
MAX_JOBS = 500
RPCS = 2
SQUEUE_START = ("squeue", "--start", "--noheader", "--all", "--format=%A|%S")


@dataclass(kw_only=True)
class ExpectedStarts:
    """Asks squeue for expected starts. `monotonic` returns seconds of a clock that never jumps."""

    state: State
    commands: SlurmCommands
    allowance: Allowance
    poller: Poller
    monotonic: Callable[[], float] = time.monotonic
    _asked: dict[JobId, float] = field(default_factory=dict)
    _answered: frozenset[JobId] = frozenset()
    _starts: dict[JobId, float] = field(default_factory=dict)
    _at: float | None = None
    _running: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def of(self, job_id: JobId) -> float | None:
        """Return the expected start of a waiting job in Unix seconds.

        While the allowance has no room for the command, this is the start that the last queue told.
        """
        self._asked[job_id] = self.monotonic()
        async with self._running:
            if not self._is_fresh(job_id) and self._is_allowed():
                await self._read()
        known = self._starts.get(job_id)
        reason = self.state.planned.pending_reasons.get(job_id)
        return known if known is not None else reason.expected_start_unix if reason is not None else None

    def _is_fresh(self, job_id: JobId) -> bool:
        return self._at is not None and self.monotonic() - self._at < ASKED_S and job_id in self._answered

    def _is_allowed(self) -> bool:
        now, looking = self.monotonic(), self.poller.looking
        return self.allowance.wait_s(RPCS, looking=looking, now=now) <= 0

    async def _read(self) -> None:
        now = self.monotonic()
        recent = {job_id: at for job_id, at in self._asked.items() if now - at < ASKED_S}
        waiting = [job_id for job_id in recent if job_id in self.state.index.pending]
        self._asked = {job_id: recent[job_id] for job_id in waiting[-MAX_JOBS:]}
        self._answered, self._starts, self._at = frozenset(self._asked), {}, now
        if not self._asked:
            return
        self.allowance.count(RPCS, now)
        try:
            text = await self.commands.read(*SQUEUE_START, f"--jobs={','.join(map(str, self._asked))}")
        except UserError:
            return  # The poller tells the problem, and the last queue has the start, too.
        for line in text.splitlines():
            number, _, start = line.strip().partition("|")
            at = values.unix_time(start)
            if number.isdigit() and at is not None:
                self._starts[JobId(int(number))] = at
