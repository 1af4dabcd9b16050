"""Whether a job's dependencies hold: now, not yet, or never. Meanings are sbatch(1)'s.

    after:ID[+min]   ID has started or was cancelled (and so many minutes went by)
    afterany:ID      ID has ended                      afterok:ID     ID ended COMPLETED
    afternotok:ID    ID ended otherwise                singleton      no earlier job of this name and user is left
A whole array counts as ended when all its tasks have.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from warpdeck.model import Dependency, Job, JobId, JobState, has_task

Members = Callable[[JobId], list[Job]]
"""The jobs that a number means (array tasks and waiting rest), [] if unknown."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """`waits_for` and `never` are sentences; both "" means the job may start."""

    waits_for: str = ""
    never: str = ""


HOLDS = Verdict()


def judge(job: Job, *, members: Members, first_namesake: Callable[[Job], Job | None], now: float) -> Verdict:
    """The verdict over all clauses. `first_namesake`: the oldest earlier unfinished job of the same user and name."""
    asked = job.request.dependencies
    if asked is None:
        return HOLDS
    verdicts = []
    for clause in asked.clauses:
        if clause.kind == "singleton":
            verdicts.append(_singleton(first_namesake(job)))
        else:
            verdicts.append(_clause(clause, targets(clause, members), now))
    waiting = [verdict for verdict in verdicts if verdict.waits_for]
    never = [verdict for verdict in verdicts if verdict.never]
    if asked.any_of:
        if any(verdict == HOLDS for verdict in verdicts):
            return HOLDS
        return waiting[0] if waiting else never[0]
    if never:
        return never[0]
    return waiting[0] if waiting else HOLDS


def targets(clause: Dependency, members: Members) -> list[Job]:
    """The jobs that the clause is about; one that holds the named task among others stands for it."""
    found = members(clause.job_id)
    if clause.task is None:
        return found
    return [
        job for job in found if job.array_task_id == clause.task or has_task(job.pending_tasks, clause.task)
    ]


def clause_name(clause: Dependency) -> str:
    """As the user named it: 12, or 12_3."""
    return str(clause.job_id) if clause.task is None else f"{clause.job_id}_{clause.task}"


def _singleton(other: Job | None) -> Verdict:
    if other is None:
        return HOLDS
    return Verdict(waits_for=f"waits until job {other.label()} of the same name has ended")


def _clause(clause: Dependency, jobs: list[Job], now: float) -> Verdict:
    name = clause_name(clause)
    if not jobs:
        return Verdict(never=f"depends on job {name}, which is not known")
    if clause.kind == "after":
        return _after(clause, jobs, now)
    if not all(job.is_finished for job in jobs):
        return Verdict(waits_for=f"waits for job {name} to end ({clause.kind})")
    succeeded = all(job.state is JobState.COMPLETED for job in jobs)
    if clause.kind == "afterok" and not succeeded:
        failed = next(job for job in jobs if job.state is not JobState.COMPLETED)
        return Verdict(never=f"needs job {name} to succeed, but {failed.label()} ended {failed.state}")
    if clause.kind == "afternotok" and succeeded:
        return Verdict(never=f"needs job {name} to fail, but it ended COMPLETED")
    return HOLDS


def _after(clause: Dependency, jobs: list[Job], now: float) -> Verdict:
    name = clause_name(clause)
    begun = [job.start_at_unix or job.end_at_unix for job in jobs]
    if any(at is None for at in begun):
        return Verdict(waits_for=f"waits for job {name} to start")
    latest = max(at for at in begun if at is not None)
    if now < latest + clause.delay_s:
        return Verdict(
            waits_for=f"waits {round(latest + clause.delay_s - now)} s more after the start of job {name}"
        )
    return HOLDS
