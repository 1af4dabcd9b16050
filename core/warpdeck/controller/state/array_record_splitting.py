"""Split waiting array tasks from the record that they share, and merge them into it again.

The waiting tasks of an array share one record (a folded array). A task gets a separate record when it is
named in a command, starts, or is treated separately for another reason.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.model import Job, JobState, Ranges, iter_tasks, split_ranges, with_task
from warpdeck.model.ranges import MAX_RANGES

from .state import replace
from .transaction import Transaction


def split_tasks(txn: Transaction, array: Job, named: Ranges) -> Job:
    """Move the named waiting tasks of a folded array to a separate job record, and return that record.

    If all waiting tasks are named, the array's own record is returned. Raises UserError if the tasks would
    need more than `MAX_RANGES` ranges.
    """
    _, remaining = split_ranges(array.pending_tasks, named)
    if max(len(named), len(remaining)) > MAX_RANGES:
        raise UserError(
            f"the remaining tasks of job {array.array_job_id} would have more than {MAX_RANGES:,} ranges",
            "name fewer tasks, or consecutive tasks",
        )
    if not remaining:
        return txn.put_job(fold(array, named))
    txn.put_job(fold(array, remaining))
    return txn.put_job(fold(replace(array, id=txn.new_job_id()), named))


def take_tasks(txn: Transaction, array: Job, tasks: Ranges) -> list[Job]:
    """Return waiting tasks of a folded array as single jobs that are not yet in the state.

    The array's record keeps the other tasks. At least one task must remain.
    """
    _, remaining = split_ranges(array.pending_tasks, tasks)
    array = txn.put_job(fold(array, remaining))
    singles = [((task, task, 1),) for task in iter_tasks(tasks)]
    return [fold(replace(array, id=txn.new_job_id()), single) for single in singles]


def fold_back(txn: Transaction, task: Job) -> None:
    """Merge a waiting task into the record of its array's waiting tasks again.

    The task was split off and never started. Does nothing unless the two records are equal except for the
    task numbers and the planner's values.
    """
    array = txn.state.jobs.get(task.array_job_id)
    if array is None or array is task or array.state is not JobState.PENDING or task.array_task_id is None:
        return
    expected = replace(
        task, id=array.id, array_task_id=array.array_task_id, pending_tasks=array.pending_tasks
    )
    if expected != replace(
        array, predicted_s=task.predicted_s, eligible_at_unix=task.eligible_at_unix, preempted_claim=None
    ):
        return
    last = array.array_task_id
    waiting = array.pending_tasks if last is None else ((last, last, 1),)
    txn.evict_job(task)
    txn.put_job(fold(array, with_task(waiting, task.array_task_id)))


def fold(job: Job, tasks: Ranges) -> Job:
    """Return the job as the record of these waiting tasks. A single task becomes an ordinary array task."""
    if len(tasks) == 1 and tasks[0][0] == tasks[0][1]:
        return replace(job, pending_tasks=(), array_task_id=tasks[0][0])
    return replace(job, pending_tasks=tasks, array_task_id=None)
