"""The ids of jobs and steps, as users write them and as Slurm's commands print them. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from warpdeck.base.errors import UserError
from warpdeck.controller.state.state import State
from warpdeck.model import Job, JobId, Ranges, format_ranges, split_ranges
from warpdeck.model.ranges import without_steps
from warpdeck.notation.values.job_ids import is_job_id, parse_job_id

MAX_ID = 2**32 - 1
"""Slurm's ids have 32 bits. A federation uses the upper ones for the number of the cluster."""


def slurm_name(reference: str) -> str:
    """Return the id in the form that all of Slurm's commands accept. Raises UserError if it is no id of a job.

    The commands refuse to work at all if one of their arguments is not an id.
    """
    number, tasks = parse_job_id(reference)
    if number > MAX_ID:
        raise UserError(f"job {reference} is not known", "see `warpdeck queue --all`", code="not_found")
    if tasks is None:
        return reference.strip()
    if len(tasks) == 1 and tasks[0][0] == tasks[0][1]:
        return f"{number}_{tasks[0][0]}"
    return f"{number}_[{format_ranges(without_steps(tasks))}]"


def step_name(reference: str) -> str:
    """Return the id of a step such as 12.0 in Slurm's form. Raises UserError."""
    job, _, step = reference.rpartition(".")
    if not step.isdecimal() or len(step) > len(str(MAX_ID)) or not is_job_id(job):
        raise UserError(
            f"{reference!r} is not a step that can be canceled",
            "use JOB.STEP, such as 12.0",
            code="no_job_id",
        )
    return f"{slurm_name(job)}.{int(step)}"


def key_of(printed: str) -> tuple[int, Ranges | None] | None:
    """Return the number and the tasks of an id that Slurm has printed, or None if it is no id.

    A step counts as its job. Versions differ in whether tasks are in brackets: 12_3-5 or 12_[3-5].
    """
    text = printed.partition(".")[0]
    base, mark, tasks = text.partition("_")
    if mark and not tasks.startswith("[") and not tasks.isdecimal():
        text = f"{base}_[{tasks}]"
    return parse_job_id(text) if is_job_id(text) else None


def jobs_of(state: State, name: str) -> list[Job]:
    """Return the jobs in memory that an id names, with all components if it names the leader."""
    key = key_of(name)
    if key is None:
        return []
    number, tasks = key
    named = [job for job in state.named(JobId(number)) if tasks is None or _has(job, tasks)]
    if tasks is None and "+" not in name:
        named += _components(state.jobs, JobId(number))
    return list({job.id: job for job in named}.values())


def is_whole(job: Job, name: str) -> bool:
    """Return whether an id names all tasks of this record."""
    key = key_of(name)
    if key is None or key[1] is None:
        return key is not None
    return not job.pending_tasks or not split_ranges(job.pending_tasks, key[1])[1]


def tasks_of(jobs: Iterable[Job]) -> Ranges:
    """Return the numbers of the tasks that these records of an array have."""
    found = [
        each
        for job in jobs
        for each in (
            job.pending_tasks if job.array_task_id is None else ((job.array_task_id, job.array_task_id, 1),)
        )
    ]
    return without_steps(tuple(sorted(found)))


def _has(job: Job, tasks: Ranges) -> bool:
    own = tasks_of([job])
    return bool(own) and bool(split_ranges(own, without_steps(tasks))[0])


def _components(jobs: Mapping[JobId, Job], leader: JobId) -> Iterator[Job]:
    """Yield the components of a heterogeneous job, which have consecutive ids."""
    number = leader
    while (job := jobs.get(number)) is not None and job.component is not None:
        if job.component.leader != leader:
            return
        yield job
        number = JobId(number + 1)
