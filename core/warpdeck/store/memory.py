"""The store in memory, for the simulator and the demo.

It has the same contract as the SQLite store but is not durable.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from warpdeck.controller.presenters.search_records import costs, ended_job, page
from warpdeck.model import Condition, Job, JobCurve, JobId, Node, NodeName, Reservation
from warpdeck.model.created_by_nonce import CreatedObject
from warpdeck.model.finished_jobs import EndedJob, FinishedQuery, GroupCost
from warpdeck.model.recovery import Recovery
from warpdeck.model.step import Step
from warpdeck.ports.store import (
    LAST_RUNS,
    MAX_CONDITIONS,
    Changes,
    FinishedPage,
    JournalEntry,
    Loaded,
    UsageRecord,
    Waits,
)
from warpdeck_agent.wire import messages as wire


class MemoryStore:
    """Store that keeps all data in dictionaries.

    A new controller on the same object finds the data again, as it would in a file.
    """

    def __init__(self, controller_id: str = "memory") -> None:
        self._controller_id = controller_id
        self._next_job_id = 1
        self._jobs: dict[JobId, Job] = {}
        self._parts: dict[tuple[int, str], bytes] = {}
        self._nodes: dict[NodeName, Node] = {}
        self._conditions: dict[NodeName, dict[float, Condition]] = {}
        self._journal: dict[JobId, list[JournalEntry]] = {}
        self._entries: list[JournalEntry] = []
        self._curves: dict[tuple[JobId, int | None, NodeName], JobCurve] = {}
        self._waits = Waits()
        self._created: dict[tuple[int, str], CreatedObject] = {}
        self._reservations: dict[str, Reservation] = {}
        self._usage: dict[tuple[str, str, str], UsageRecord] = {}
        self._runs: dict[tuple[JobId, int], Job] = {}
        self._steps: dict[tuple[JobId, int, int], Step] = {}
        self._start = wire.ControllerStart()
        self._fenced_by: wire.ControllerStart | None = None
        self._recovery = Recovery()

    async def load(self, *, finished_since_unix: float) -> Loaded:
        jobs = [
            job
            for _, job in sorted(self._jobs.items())
            if not job.is_finished or (job.end_at_unix or 0.0) >= finished_since_unix
        ]
        nodes = tuple(node for _, node in sorted(self._nodes.items()))
        return Loaded(
            controller_id=self._controller_id,
            next_job_id=self._next_job_id,
            jobs=tuple(jobs),
            nodes=nodes,
            waits=self._waits,
            created=tuple(self._created.values()),
            reservations=tuple(each for _, each in sorted(self._reservations.items())),
            last_runs=tuple(self._last_runs()),
            usage=tuple(row for _, row in sorted(self._usage.items())),
            steps=tuple(step for _, step in sorted(self._steps.items()) if self._is_needed(step)),
            conditions=tuple(await self.conditions(math.inf)),
            start=self._start,
            fenced_by=self._fenced_by,
            recovery=self._recovery,
        )

    def _is_needed(self, step: Step) -> bool:
        return not step.is_finished or not self._jobs[step.job_id].is_finished

    def _last_runs(self) -> list[Job]:
        ended = sorted(
            (job for job in self._jobs.values() if job.is_finished), key=lambda job: job.end_at_unix or 0.0
        )
        by_user: dict[str, list[Job]] = {}
        for job in ended:
            by_user.setdefault(job.user, []).append(job)
        return [job for _, jobs in sorted(by_user.items()) for job in jobs[-LAST_RUNS:]]

    async def commit(self, changes: Changes) -> None:
        self._commit_jobs(changes)
        self._commit_nodes(changes)
        for created in changes.created:
            self._created[created.uid, created.request_id.nonce] = created
        for created in changes.gone_created:
            self._created.pop((created.uid, created.request_id.nonce), None)
        for reservation in changes.reservations:
            self._reservations[reservation.name] = reservation
        for gone in changes.gone_reservations:
            self._reservations.pop(gone, None)
        if changes.waits is not None:
            self._waits = changes.waits
        self._usage.update((row.key, row) for row in changes.usage)
        if changes.next_job_id is not None:
            self._next_job_id = changes.next_job_id
        if changes.start is not None:
            self._start, self._fenced_by = changes.start, None
        if changes.fenced_by is not None:
            self._fenced_by = changes.fenced_by
        if changes.recovery is not None:
            self._recovery = changes.recovery

    def _commit_jobs(self, changes: Changes) -> None:
        self._jobs.update((job.id, job) for job in changes.jobs)
        self._parts.update(((each.uid, each.sha256), each.content) for each in changes.parts)
        self._runs.update(((job.id, job.restarts), job) for job in changes.runs)
        for job_id in changes.gone_jobs:
            self._jobs.pop(job_id, None)
        for entry in changes.journal:
            self._journal.setdefault(entry.job_id, []).append(entry)
            self._entries.append(entry)
        self._curves.update(((each.job_id, each.step, each.node), each) for each in changes.curves)
        self._steps.update(((step.job_id, step.restarts, step.number), step) for step in changes.steps)

    def _commit_nodes(self, changes: Changes) -> None:
        self._nodes.update((node.name, node) for node in changes.nodes)
        for name in changes.gone_nodes:
            self._nodes.pop(name, None)
            self._conditions.pop(name, None)
        for each in changes.conditions:
            kept = self._conditions.setdefault(each.node, {})
            kept[each.at_unix] = each
            for at_unix in sorted(kept)[:-MAX_CONDITIONS]:
                del kept[at_unix]

    async def job(self, job_id: JobId) -> Job | None:
        return self._jobs.get(job_id)

    async def named(self, number: JobId) -> list[Job]:
        members = [job for _, job in sorted(self._jobs.items()) if job.array_job_id == number]
        return members or ([self._jobs[number]] if number in self._jobs else [])

    async def parts(self, uid: int, sha256: str) -> bytes | None:
        return self._parts.get((uid, sha256))

    async def jobs(self, numbers: Sequence[JobId]) -> list[Job]:
        return [self._jobs[number] for number in sorted(set(numbers)) if number in self._jobs]

    async def ended_ids(self, *, users: Sequence[str], since_unix: float, until_unix: float) -> list[JobId]:
        return [
            number
            for number, job in sorted(self._jobs.items())
            if job.is_finished
            and (not users or job.user in users)
            and job.submit_at_unix <= until_unix
            and (job.end_at_unix or 0.0) >= since_unix
        ]

    async def run_ids(self, *, users: Sequence[str], since_unix: float, until_unix: float) -> list[JobId]:
        found = [
            job.id
            for job in self._runs.values()
            if (not users or job.user in users)
            and job.submit_at_unix <= until_unix
            and (job.end_at_unix or 0.0) >= since_unix
        ]
        return sorted(set(found))

    async def runs_of(self, numbers: Sequence[JobId]) -> list[Job]:
        wanted = frozenset(numbers)
        return [job for key, job in sorted(self._runs.items()) if key[0] in wanted]

    async def search_finished(self, query: FinishedQuery, *, counted: bool) -> FinishedPage:
        return page(self._ended(), query, counted=counted, now=time.time())

    async def finished_costs(self, query: FinishedQuery) -> list[GroupCost]:
        return costs(self._ended(), query, now=time.time())

    def _ended(self) -> list[EndedJob]:
        return [ended_job(job) for job in self._jobs.values() if job.is_finished]

    async def steps_of(self, numbers: Sequence[JobId]) -> list[Step]:
        wanted = frozenset(numbers)
        return [step for key, step in sorted(self._steps.items()) if key[0] in wanted]

    async def finished_jobs(self, *, user: str | None, limit: int) -> list[Job]:
        ended = [job for job in self._jobs.values() if job.is_finished and user in (None, job.user)]
        ended.sort(key=lambda job: (job.end_at_unix or 0.0, job.id))
        return ended[-limit:]

    async def journal(self, job_id: JobId) -> list[JournalEntry]:
        return list(self._journal.get(job_id, ()))

    async def last_entries(self, limit: int) -> list[JournalEntry]:
        return self._entries[: -limit - 1 : -1]

    async def steps(self, job_id: JobId) -> list[Step]:
        return [step for key, step in sorted(self._steps.items()) if key[0] == job_id]

    async def conditions(self, at_unix: float) -> list[Condition]:
        known = [
            [each for at, each in sorted(kept.items()) if at <= at_unix]
            for _, kept in sorted(self._conditions.items())
        ]
        return [kept[-1] for kept in known if kept]

    async def conditions_between(self, since_unix: float, until_unix: float) -> list[Condition]:
        found = await self.conditions(since_unix)
        for kept in self._conditions.values():
            found += [each for at, each in kept.items() if since_unix < at <= until_unix]
        return sorted(found, key=lambda each: (each.at_unix, each.node))

    async def curves(self, job_id: JobId, *, step: int | None = None) -> list[JobCurve]:
        found = [curve for (*key, _), curve in self._curves.items() if key == [job_id, step]]
        return sorted(found, key=lambda curve: curve.node)

    async def close(self) -> None:
        return None
