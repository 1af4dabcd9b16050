"""Evaluates whether a job's dependencies are satisfied now, later or never.

The meanings are those of sbatch(1). A whole array counts as ended when all of its tasks have ended.

    after:ID[+min]        ID has started or was cancelled (and this many minutes have passed)
    afterany:ID           ID has ended
    afterburstbuffer:ID   same as afterany, because there are no burst buffers to wait for
    afterok:ID            ID ended COMPLETED
    afternotok:ID         ID ended otherwise
    aftercorr:ID          for each array task: the task of the same number of ID ended COMPLETED;
                          otherwise as afterok
    singleton             no earlier job of this name and user is left
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import msgspec

from warpdeck.model import (
    Dependencies,
    Dependency,
    Job,
    JobId,
    JobState,
    Ranges,
    has_task,
    ranges_of,
    split_ranges,
)

Members = Callable[[JobId], list[Job]]
"""Function that returns the jobs of a job number; [] if it is unknown.

For an array these are its tasks, and the record of the waiting tasks.
"""


class DependencyVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Result of evaluating dependencies.

    `waits_for` and `never` are sentences; if both are "", the job may start. `tasks` contains the tasks of a
    folded array to which the result applies; None means all of them. `since_unix` is the time since which the
    dependencies are satisfied, if it is known.
    """

    waits_for: str = ""
    never: str = ""
    tasks: Ranges | None = None
    since_unix: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the job, or at least one of its tasks, may start."""
        return not self.waits_for and not self.never


HOLDS = DependencyVerdict()


def evaluate(
    job: Job, *, members: Members, first_namesake: Callable[[Job], Job | None], now: float
) -> DependencyVerdict:
    """Return the result of evaluating all dependency clauses of the job.

    `first_namesake` returns the oldest earlier unfinished job of the same user and name.
    """
    requested = job.request.dependencies
    if requested is None:
        return HOLDS
    members = functools.cache(members)  # Many clauses may name tasks of one array.
    verdicts = [
        evaluate_clause(clause, job, members=members, first_namesake=first_namesake, now=now)
        for clause in requested.clauses
    ]
    waiting = [verdict for verdict in verdicts if verdict.waits_for]
    never = [verdict for verdict in verdicts if verdict.never]
    if requested.any_of:
        holding = sorted((verdict for verdict in verdicts if verdict.holds), key=_soonest_for_all)
        return (holding or waiting or never)[0]
    if never or waiting:
        return (never or waiting)[0]
    since_unix = max(verdict.since_unix for verdict in verdicts)
    return _common([verdict.tasks for verdict in verdicts if verdict.tasks is not None], since_unix)


def evaluate_clause(
    clause: Dependency,
    job: Job,
    *,
    members: Members,
    first_namesake: Callable[[Job], Job | None],
    now: float,
) -> DependencyVerdict:
    """Return the result of evaluating one dependency clause of the job."""
    if clause.kind == "singleton":
        return _singleton(first_namesake(job))
    if clause.kind == "aftercorr":
        return _corresponding(clause, job, targets(clause, members))
    return _clause(clause, targets(clause, members), now)


def _soonest_for_all(verdict: DependencyVerdict) -> tuple[bool, float]:
    return verdict.tasks is not None, verdict.since_unix


def _common(parts: list[Ranges], since_unix: float) -> DependencyVerdict:
    """Return the verdict for the tasks for which all clauses are satisfied."""
    if not parts:
        return DependencyVerdict(since_unix=since_unix)
    tasks = parts[0]
    for other in parts[1:]:
        tasks, _ = split_ranges(tasks, other)
    return (
        DependencyVerdict(tasks=tasks, since_unix=since_unix)
        if tasks
        else DependencyVerdict(waits_for="waits for the array tasks that its tasks depend on")
    )


@functools.lru_cache(maxsize=1024)  # Jobs with the same dependencies share one object.
def stable_targets(requested: Dependencies) -> frozenset[JobId] | None:
    """Return the jobs and submissions that can change the verdict.

    The verdict stays the same until one of these changes. Returns None if the clock or other jobs can also
    change it.
    """
    if any(clause.kind in ("after", "singleton") for clause in requested.clauses):
        return None
    return frozenset(clause.job_id for clause in requested.clauses)


def targets(clause: Dependency, members: Members) -> list[Job]:
    """Return the jobs to which the clause refers.

    A record of several waiting tasks is included if the named task is among them.
    """
    found = members(clause.job_id)
    if clause.task is None:
        return found
    return [
        job for job in found if job.array_task_id == clause.task or has_task(job.pending_tasks, clause.task)
    ]


def without_unknown(requested: Dependencies, members: Members) -> tuple[Dependencies | None, tuple[str, ...]]:
    """Return the dependencies without clauses about unknown jobs, and the names of the unknown jobs.

    As in Slurm, which forgets jobs minutes after they end, clauses about unknown jobs count as satisfied. The
    dependencies are None if nothing is left to wait for.
    """
    unknown = [
        clause for clause in requested.clauses if clause.kind != "singleton" and not targets(clause, members)
    ]
    kept_clauses = tuple(clause for clause in requested.clauses if clause not in unknown)
    left = (
        None
        if not kept_clauses or (unknown and requested.any_of)
        else msgspec.structs.replace(requested, clauses=kept_clauses)
    )
    return left, tuple(dict.fromkeys(map(clause_name, unknown)))


def ignored_text(unknown: Sequence[str]) -> str:
    """Return the message for the submitter about unknown jobs, which are ignored."""
    jobs = f"job {unknown[0]} is" if len(unknown) == 1 else f"jobs {', '.join(unknown)} are"
    return f"--dependency: {jobs} unknown and ignored"


def clause_name(clause: Dependency) -> str:
    """Return the job of the clause in the user's notation: 12, or 12_3 for an array task."""
    return str(clause.job_id) if clause.task is None else f"{clause.job_id}_{clause.task}"


def _singleton(other: Job | None) -> DependencyVerdict:
    if other is None:
        return HOLDS
    return DependencyVerdict(waits_for=f"waits until job {other.label()} of the same name has ended")


def _clause(clause: Dependency, jobs: list[Job], now: float) -> DependencyVerdict:
    if clause.kind == "after" and jobs:
        return _after(clause, jobs, now)
    return _ended(clause, jobs)


def _ended(clause: Dependency, jobs: list[Job]) -> DependencyVerdict:
    name = clause_name(clause)
    if not jobs:
        return DependencyVerdict(never=f"depends on job {name}, which is not known")
    if not all(job.is_finished for job in jobs):
        return DependencyVerdict(waits_for=f"waits for job {name} to end ({clause.kind})")
    succeeded = all(job.state is JobState.COMPLETED for job in jobs)
    if clause.kind in ("afterok", "aftercorr") and not succeeded:
        failed = next(job for job in jobs if job.state is not JobState.COMPLETED)
        return DependencyVerdict(
            never=f"depends on the success of job {name}, but {failed.label()} ended as {failed.state}"
        )
    if clause.kind == "afternotok" and succeeded:
        return DependencyVerdict(never=f"depends on the failure of job {name}, but it ended as COMPLETED")
    return DependencyVerdict(since_unix=max(job.end_at_unix or 0.0 for job in jobs))


def _corresponding(clause: Dependency, job: Job, jobs: list[Job]) -> DependencyVerdict:
    array = bool(jobs) and jobs[0].request.array is not None and clause.task is None
    if not array or (job.array_task_id is None and not job.is_folded_array):
        return _ended(clause, jobs)
    name = clause_name(clause)
    if job.array_task_id is not None:
        task = job.array_task_id
        same = [other for other in jobs if other.array_task_id == task or has_task(other.pending_tasks, task)]
        return (
            _ended(clause, same)
            if same
            else DependencyVerdict(never=f"depends on task {task} of job {name}, which does not exist")
        )
    done = ranges_of(
        other.array_task_id
        for other in jobs
        if other.state is JobState.COMPLETED and other.array_task_id is not None
    )
    ready, _ = split_ranges(job.pending_tasks, done)
    if ready:
        return DependencyVerdict(tasks=ready)
    if all(other.is_finished for other in jobs):
        return DependencyVerdict(
            never=f"each task depends on the same task of job {name}, and none of them succeeded"
        )
    return DependencyVerdict(waits_for=f"each task waits for the same task of job {name} to succeed")


def _after(clause: Dependency, jobs: list[Job], now: float) -> DependencyVerdict:
    name = clause_name(clause)
    begun = [job.start_at_unix or job.end_at_unix for job in jobs]
    if any(at is None for at in begun):
        return DependencyVerdict(waits_for=f"waits for job {name} to start")
    latest = max(at for at in begun if at is not None)
    if now < latest + clause.delay_s:
        return DependencyVerdict(
            waits_for=f"waits another {round(latest + clause.delay_s - now)} s after the start of job {name}"
        )
    return DependencyVerdict(since_unix=latest + clause.delay_s)
