"""Background task that examines jobs which a node suspects to hang.

A node reports a suspicion with its samples (see the agent's `progress.rhythm`). When the job has been quiet for the site's
`hang_after_s`, all nodes of the job are asked several times what the ranks are doing. `hang_verdict.judge` decides, and an
event records the verdict as the job's notice. The notice is all that is kept, so a restarted controller continues with it.
Without a suspicion and a verdict, the task sleeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from warpdeck.base.errors import RemoteError
from warpdeck.controller.events.events import HANG, HangJudged
from warpdeck.controller.planning.hang_verdict import Look, judge
from warpdeck.controller.state.state import State
from warpdeck.model import Job, JobId, JobState, NodeName
from warpdeck.ports.ports import Fleet
from warpdeck_agent.wire import messages as wire

from .event_queue import EventQueue
from .site_rules import SiteRules

CHECK_S = 5.0
"""Interval in seconds between checks for suspicions. They are in memory."""
LOOKS, PAUSE_S = 3, 8.0
"""Number of looks at a job, and seconds between them. A program that works is hardly ever at the same lines three times."""
AGAIN_FACTOR = 1.5
"""A job without a verdict is examined again when it has been quiet for this much longer."""
MAX_AT_ONCE = 4
"""The most jobs that are examined at the same time."""


class HangWatch:
    """Examines the jobs of one controller."""

    def __init__(
        self,
        state: State,
        queue: EventQueue,
        *,
        fleet: Fleet,
        rules: SiteRules,
        clock: Callable[[], float],
        stalls: asyncio.Event,
    ) -> None:
        self._state = state
        self._queue = queue
        self._fleet = fleet
        self._rules = rules
        self._clock = clock
        self._stalls = stalls
        self._examined: dict[tuple[JobId, int], float] = {}
        """The suspected jobs, and for how long each had been quiet when it was examined last; 0 if it was not."""

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            if not self._examined and not self._judged():
                await self._stalls.wait()
            self._stalls.clear()
            await asyncio.sleep(CHECK_S)
            suspected = self._suspected()
            self._examined = {key: self._examined.get(key, 0.0) for key in suspected}
            self._end_verdicts(suspected)
            due = [(key, quiet_s) for key, quiet_s in suspected.items() if self._is_due(key, quiet_s)]
            async with asyncio.TaskGroup() as group:
                for key, quiet_s in due[:MAX_AT_ONCE]:
                    self._examined[key] = quiet_s
                    group.create_task(self._examine(*key, quiet_s=quiet_s))

    def _suspected(self) -> dict[tuple[JobId, int], float]:
        """Return for how long each suspected job has been quiet.

        Only a job's own nodes are believed, and only jobs that run.
        """
        found: dict[tuple[JobId, int], float] = {}
        for name, reading in self._state.node_status.readings.items():
            for job_id, restarts, quiet_s in reading.stalls:
                job = self._running(job_id, restarts)
                if job is not None and any(share.node == name for share in job.shares):
                    key = (job_id, restarts)
                    found[key] = min(quiet_s, found.get(key, quiet_s))
        return found

    def _running(self, job_id: JobId, restarts: int) -> Job | None:
        job = self._state.jobs.get(job_id)
        return job if job is not None and job.state is JobState.RUNNING and job.restarts == restarts else None

    def _is_due(self, key: tuple[JobId, int], quiet_s: float) -> bool:
        after_s = self._rules.config.scheduler.hang_after_s
        if not after_s or self._state.jobs[key[0]].notice.startswith(HANG):
            return False
        return quiet_s >= max(after_s, AGAIN_FACTOR * self._examined.get(key, 0.0))

    def _end_verdicts(self, suspected: dict[tuple[JobId, int], float]) -> None:
        """Withdraw the verdict about each job that no node suspects any more."""
        for job in self._judged():
            is_heard = all(share.node in self._state.node_status.readings for share in job.shares)
            if is_heard and (job.id, job.restarts) not in suspected:
                self._queue.put(HangJudged(job_id=job.id, restarts=job.restarts, sentence=""))

    def _judged(self) -> list[Job]:
        """Return the running jobs with a verdict."""
        jobs = self._state.jobs
        return [
            job
            for job_id in self._state.index.active
            if (job := jobs[job_id]).state is JobState.RUNNING and job.notice.startswith(HANG)
        ]

    async def _examine(self, job_id: JobId, restarts: int, *, quiet_s: float) -> None:
        looks: list[Look] = []
        begin = self._clock()
        for number in range(LOOKS):
            if number:
                await asyncio.sleep(PAUSE_S)
            job = self._running(job_id, restarts)
            if job is None:
                return
            try:
                looks.append(await self._look(job))
            except RemoteError:
                return
        passed_s = self._clock() - begin
        sentence = judge(looks, passed_s=passed_s, quiet_s=quiet_s + passed_s)
        if sentence and (job_id, restarts) in self._suspected():
            self._queue.put(HangJudged(job_id=job_id, restarts=restarts, sentence=sentence))

    async def _look(self, job: Job) -> Look:
        """Return the evidence of all ranks. Raises RemoteError if a node does not answer."""
        request = wire.AskEvidence(ask=0, job_id=job.id, restarts=job.restarts)
        names = [share.node for share in job.shares]
        answers = await asyncio.gather(
            *(self._fleet.evidence(name, request) for name in names), return_exceptions=True
        )
        found: dict[tuple[NodeName, str], wire.RankEvidence] = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            found.update({(name, each.label): each for each in answer.ranks})
        return found
