"""The waiting tasks of an array are one record, until some of them are named, start, or are otherwise treated alone."""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.model import Job, JobState, Ranges, iter_tasks, split_ranges, with_task
from warpdeck.model.ranges import MAX_RANGES

from .state import amend
from .transaction import Transaction


def split_tasks(txn: Transaction, array: Job, named: Ranges) -> Job:
    """Makes waiting tasks of a folded array a job of their own; all of them are the array's record itself."""
    _, rest = split_ranges(array.pending_tasks, named)
    if max(len(named), len(rest)) > MAX_RANGES:
        raise UserError(
            f"that leaves tasks of job {array.array_job_id} in over {MAX_RANGES:,} ranges",
            "name fewer tasks at a time, or tasks that follow each other",
        )
    if not rest:
        return txn.put_job(fold(array, named))
    txn.put_job(fold(array, rest))
    return txn.put_job(fold(amend(array, id=txn.new_job_id()), named))


def take_tasks(txn: Transaction, array: Job, tasks: Ranges) -> list[Job]:
    """Some of the waiting tasks of a folded array as jobs of their own, which are not put into the state yet; some must stay."""
    _, rest = split_ranges(array.pending_tasks, tasks)
    array = txn.put_job(fold(array, rest))
    singles = [((task, task, 1),) for task in iter_tasks(tasks)]
    return [fold(amend(array, id=txn.new_job_id()), single) for single in singles]


def fold_back(txn: Transaction, task: Job) -> None:
    """A task that was split off, never began and waits again joins what waits of its array, if that is as it was."""
    rest = txn.state.jobs.get(task.array_job_id)
    if rest is None or rest is task or rest.state is not JobState.PENDING or task.array_task_id is None:
        return
    alike = amend(task, id=rest.id, array_task_id=rest.array_task_id, pending_tasks=rest.pending_tasks)
    if alike != amend(rest, predicted_s=task.predicted_s, eligible_at_unix=task.eligible_at_unix, room=None):
        return
    last = rest.array_task_id
    waiting = rest.pending_tasks if last is None else ((last, last, 1),)
    txn.drop_job(task)
    txn.put_job(fold(rest, with_task(waiting, task.array_task_id)))


def fold(job: Job, tasks: Ranges) -> Job:
    """The job as the record of these waiting tasks; a single one is not folded."""
    if len(tasks) == 1 and tasks[0][0] == tasks[0][1]:
        return amend(job, pending_tasks=(), array_task_id=tasks[0][0])
    return amend(job, pending_tasks=tasks, array_task_id=None)
