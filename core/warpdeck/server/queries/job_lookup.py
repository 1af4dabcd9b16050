"""Find the jobs that a request names, running or finished, and check who may see them."""

from __future__ import annotations

from collections.abc import Iterable

from warpdeck.base.errors import UserError
from warpdeck.controller.presenters.terminal_watchers import may_watch
from warpdeck.model import Job, JobId, count_tasks, has_task
from warpdeck.notation.values.job_ids import may_mean, parse_job_id
from warpdeck.ports.caller import may_control, owner_text
from warpdeck.protocol import requests as ask
from warpdeck.server.chunking import TESTS_A_TURN, in_slices
from warpdeck.server.connection import Connection
from warpdeck.server.selection import Selection

MAX_ROWS = 100_000
"""Maximum number of jobs in one answer."""


async def find_job(connection: Connection, reference: str) -> Job:
    """Return the job, running or finished, that "12" or "12_3" names. Raises UserError."""
    controller = connection.server.controller
    state, store = controller.state, controller.store
    base, tasks = parse_job_id(reference)
    number = JobId(base)
    if tasks is None:
        job = state.jobs.get(number) or await store.job(number)
        if job is not None and may_mean(reference, job.label()):
            return job
    elif count_tasks(tasks) > 1:
        raise UserError(f"{reference} has several tasks", f"name one, such as {number}_{tasks[0][0]}")
    else:
        for job in (*state.named(number), *await finished_jobs(connection, [number])):
            if job.array_task_id == tasks[0][0] or has_task(job.pending_tasks, tasks[0][0]):
                return job
    raise UserError(f"job {reference} is not known", "see `warpdeck queue --all`", code="not_found")


async def visible_job(connection: Connection, reference: str) -> Job:
    """Return the job if the caller may see its output. Raises UserError."""
    job = await find_job(connection, reference)
    if not may_control(connection.who, job):
        raise UserError(
            f"job {reference} belongs to {owner_text(connection.who, job)}",
            "only its owner can see this",
        )
    return job


async def watched_job(connection: Connection, reference: str) -> Job:
    """Return the job if the caller may watch its terminal. Raises UserError."""
    job = await find_job(connection, reference)
    if not may_watch(connection.who, job, connection.server.controller.config):
        raise UserError(
            f"job {reference} belongs to {owner_text(connection.who, job)}",
            "admins can allow others to watch with [interactive] in config.toml",
        )
    return job


async def components_of(connection: Connection, job: Job) -> list[Job]:
    """Return all components of a heterogeneous job in the order of their offsets.

    For any other job the list has only `job`.
    """
    if job.component is None:
        return [job]
    controller = connection.server.controller
    known = {each.id: each for each in await controller.store.named(job.array_job_id)}
    known |= {each.id: each for each in controller.state.array_members(job.array_job_id)}
    return [known[job_id] for job_id in sorted(known)]


async def finished_jobs(connection: Connection, numbers: Iterable[JobId]) -> tuple[Job, ...]:
    """Return the finished jobs with these ids that are not in memory.

    Some members of an array may be in memory and others not, so the store is also asked for arrays.
    """
    controller = connection.server.controller
    state, found = controller.state, {}
    for number in dict.fromkeys(numbers):
        members = state.named(number)
        if not members or members[0].request.array is not None:
            found.update({job.id: job for job in await controller.store.named(number)})
    return tuple(job for job in found.values() if job.is_finished and job.id not in state.jobs)


async def selected_jobs(connection: Connection, message: ask.Jobs) -> list[Job]:
    """Return the newest jobs that match the request, oldest first."""
    controller = connection.server.controller
    state, limit = controller.state, min(message.limit, MAX_ROWS)
    wanted = Selection(message)
    if message.ids and not message.finished:
        found = {job.id: job for number in wanted.numbers for job in state.named(JobId(number))}
    else:
        found = dict(state.jobs)
    if message.finished:
        by_name = len(message.users) == 1 and not message.users[0].isdigit()
        only = message.users[0] if by_name else None
        for job in await controller.store.finished_jobs(user=only, limit=limit):
            found.setdefault(job.id, job)
    ids = sorted(found)
    chosen = await in_slices(
        ids,
        lambda some: [found[job_id] for job_id in some if wanted.has(found[job_id])],
        rows=TESTS_A_TURN,
    )
    return chosen[-limit:]
