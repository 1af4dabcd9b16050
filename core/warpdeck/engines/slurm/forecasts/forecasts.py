"""The forecast of a job: its reason in plain words, its place in the queue, its expected start, and the jobs that it waits for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import name_of
from warpdeck.controller.presenters.job_values import partition_of
from warpdeck.controller.state.state import State
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.cluster.kept_answers import KeptAnswers
from warpdeck.engines.slurm.cluster.poller import Poller
from warpdeck.engines.slurm.cluster.polling import Allowance
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.reading.assoc_mgr import read_holders
from warpdeck.engines.slurm.reading.reasons import SENTENCES
from warpdeck.engines.slurm.submitting import dry_run
from warpdeck.engines.slurm.versions import Version
from warpdeck.model import Job, JobId, JobState, PendingReason, Request
from warpdeck.protocol.site_rows import ForecastRow

from . import limits
from .queue_place import is_in_line, jobs_ahead
from .smaller import probe, smaller_requests
from .starts import ExpectedStarts

LIMITS_S = 120.0
CHANGES_S = 300.0
"""Seconds for which the limits, and the changes that would start a job now, are kept."""
MAX_KEPT = 200
NEVER = frozenset(
    {
        *("DependencyNeverSatisfied", "BadConstraints", "InvalidAccount", "InvalidQOS", "PartitionNodeLimit"),
        *("PartitionTimeLimit", "QOSMaxWallDurationPerJobLimit", "AssocMaxWallDurationPerJobLimit"),
        *("QOSMaxGRESPerJob", "MaxMemPerLimit", "ReservationDeleted"),
    }
)
"""Reasons for which a job waits until somebody changes it or the site."""
UNTOLD = {
    "JobHeldUser": "it is held",
    "JobHeldAdmin": "it is held",
    "Dependency": "it waits for another job",
    "DependencyNeverSatisfied": "it can never start",
}
NOT_PLANNED = "Slurm has not planned its start; its backfill plans only the first jobs of the queue"


@dataclass(kw_only=True)
class SlurmForecasts:
    """The `JobForecasts` of a gateway. Only one's own jobs are tried with smaller requests."""

    cluster: Cluster
    poller: Poller
    commands: SlurmCommands
    allowance: Allowance
    version: Version
    kept: KeptAnswers
    starts: ExpectedStarts
    monotonic: Callable[[], float] = time.monotonic
    _changes: dict[JobId, tuple[float, list[str]]] = field(default_factory=dict)

    async def of_job(self, state: State, job: Job) -> ForecastRow:
        job = state.jobs.get(job.id, job)
        same = {"job": job.label(), "id": job.id, "partition": partition_of(job), "cpus": _cpus(job)}
        if job.state is not JobState.PENDING:
            return ForecastRow(**same, state=job.state.value)  # type: ignore[arg-type]
        reason = _reason(state, job)
        ahead, leaders = jobs_ahead(state, job)
        start = await self.starts.of(job.id) if not job.held else None
        full = await self._limits(job) if limits.is_limit(reason.code) else []
        sentence = "; ".join([reason.sentence, *full]) if full else reason.sentence
        return ForecastRow(
            **same,  # type: ignore[arg-type]
            verdict="never" if reason.code in NEVER else "later",
            code=reason.code,
            sentence=sentence,
            expected_start=start,
            untold="" if start is not None else UNTOLD.get(reason.code, NOT_PLANNED),
            details={"limits": "; ".join(full)} if full else {},
            priority=state.planned.priorities.get(job.id, 0),
            ahead=ahead,
            leaders=leaders,
            changes=await self._smaller(state, job, reason.code, ahead=ahead),
        )

    async def _limits(self, job: Job) -> list[str]:
        """Return the limits without room for the job, or [] if the site does not show them."""
        argv = limits.question(job)
        if argv is None or not self.cluster.has_accounting:
            return []
        try:
            return limits.reached(job, read_holders(await self.kept.read(*argv, keep_s=LIMITS_S), name_of))
        except UserError:
            return []

    async def _smaller(self, state: State, job: Job, code: str, *, ahead: int) -> list[str]:
        """Return the options with which the job would start now. It is known only of the first job of the queue."""
        now = self.monotonic()
        known = self._changes.get(job.id)
        if known is not None and now - known[0] < CHANGES_S:
            return known[1]
        tries = smaller_requests(job) if not ahead and self._may_try(state, job, code) else []
        if not tries or self.allowance.wait_s(len(tries) + 1, looking=self.poller.looking, now=now) > 0:
            return known[1] if known is not None else []
        self.allowance.count(len(tries) + 1, now)
        try:
            soonest = await self._start_of(probe(job))
            starts = [(each.option, await self._start_of(each.request)) for each in tries if soonest]
        except UserError:
            return []
        found = [
            f"starts now with {option}"
            for option, start in starts
            if soonest is not None and start is not None and start <= soonest + dry_run.NOW_S
        ]
        self._changes[job.id] = now, found
        while len(self._changes) > MAX_KEPT:
            self._changes.pop(next(iter(self._changes)))
        return found

    async def _start_of(self, request: Request) -> float | None:
        """Return the start that sbatch --test-only tells, or None if it refuses the request. Raises UserError."""
        row = await dry_run.forecast(self.commands, [request], self.version, now=self.cluster.clock())
        return row.expected_start

    def _may_try(self, state: State, job: Job, code: str) -> bool:
        return (
            job.uid == self.cluster.uid
            and job.component is None
            and not self.cluster.problem
            and code != "ReqNodeNotAvail"
            and is_in_line(state, job)
        )


def _reason(state: State, job: Job) -> PendingReason:
    """Return the reason of Slurm's last queue. A job that was submitted since may be held."""
    known = state.planned.pending_reasons.get(job.id)
    if job.held and (known is None or not known.code.startswith("JobHeld")):
        code = "JobHeldAdmin" if job.held_by_admin else "JobHeldUser"
        return PendingReason(code=code, sentence=SENTENCES[code])
    if known is None or not known.sentence:
        return PendingReason(code="None", sentence="Slurm has not considered it yet")
    return known


def _cpus(job: Job) -> int:
    resources = job.request.resources
    return resources.task_count() * resources.cpus_per_task
