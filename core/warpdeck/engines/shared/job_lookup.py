"""Finds the jobs that a request names, running or finished, and checks who may see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from warpdeck.base.errors import UserError
from warpdeck.config import Config
from warpdeck.controller.presenters.terminal_watchers import may_watch
from warpdeck.controller.state.state import State
from warpdeck.model import Job, JobId, count_tasks, has_task
from warpdeck.notation.values.job_ids import may_mean, parse_job_id
from warpdeck.ports.caller import NOT_YOURS, Principal, may_access, may_read, owner_text
from warpdeck.ports.store import Store

from .visibility import Visibility


@dataclass(frozen=True, kw_only=True)
class JobLookup:
    """Finds jobs in memory and in the store. `config` returns the configuration in force."""

    state: State
    store: Store
    config: Callable[[], Config]

    async def find(self, reference: str) -> Job:
        """Return the job, running or finished, that "12" or "12_3" names. Raises UserError."""
        base, tasks = parse_job_id(reference)
        number = JobId(base)
        if tasks is None:
            job = self.state.jobs.get(number) or await self.store.job(number)
            if job is not None and may_mean(reference, job.label()):
                return job
        elif count_tasks(tasks) > 1:
            raise UserError(f"{reference} has several tasks", f"name one, such as {number}_{tasks[0][0]}")
        else:
            for job in (*self.state.named(number), *await self.finished([number])):
                if job.array_task_id == tasks[0][0] or has_task(job.pending_tasks, tasks[0][0]):
                    return job
        raise _unknown(reference)

    def visibility(self, who: Principal) -> Visibility:
        """Return the rules for the data of others that the caller may see."""
        return Visibility(who, self.config())

    async def seen(self, who: Principal, reference: str) -> Job:
        """Return the job that "12" or "12_3" names, if it exists for the caller. Raises UserError."""
        job = await self.find(reference)
        if not self.visibility(who).sees(job):
            raise _unknown(reference)
        return job

    async def read(self, who: Principal, reference: str) -> Job:
        """Return the job if the caller may see its script and its details. Raises UserError."""
        job = await self.seen(who, reference)
        if not may_read(who, job):
            raise _not_yours(who, reference, job)
        return job

    async def visible(self, who: Principal, reference: str) -> Job:
        """Return the job if the caller may see its output. Raises UserError."""
        job = await self.seen(who, reference)
        if not may_access(who, job):
            raise _not_yours(who, reference, job)
        return job

    async def watched(self, who: Principal, reference: str) -> Job:
        """Return the job if the caller may watch its terminal. Raises UserError."""
        job = await self.seen(who, reference)
        if not may_watch(who, job, self.config()):
            raise UserError(
                f"job {reference} belongs to {owner_text(who, job)}",
                "admins can allow others to watch with [interactive] in config.toml",
                code=NOT_YOURS,
            )
        return job

    async def components_of(self, job: Job) -> list[Job]:
        """Return all components of a heterogeneous job in the order of their offsets.

        For any other job the list has only `job`.
        """
        if job.component is None:
            return [job]
        known = {each.id: each for each in await self.store.named(job.array_job_id)}
        known |= {each.id: each for each in self.state.array_members(job.array_job_id)}
        return [known[job_id] for job_id in sorted(known)]

    async def finished(self, numbers: Iterable[JobId]) -> tuple[Job, ...]:
        """Return the finished jobs with these ids that are not in memory.

        Some members of an array may be in memory and others not, so the store is also asked for arrays.
        """
        state, found = self.state, {}
        for number in dict.fromkeys(numbers):
            members = state.named(number)
            if not members or members[0].request.array is not None:
                found.update({job.id: job for job in await self.store.named(number)})
        return tuple(job for job in found.values() if job.is_finished and job.id not in state.jobs)


def _unknown(reference: str) -> UserError:
    return UserError(f"job {reference} is not known", "see `warpdeck queue --all`", code="not_found")


def _not_yours(who: Principal, reference: str, job: Job) -> UserError:
    sentence = f"job {reference} belongs to {owner_text(who, job)}"
    return UserError(sentence, "only its owner can see this", code=NOT_YOURS)
