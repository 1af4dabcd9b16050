"""Handlers for prefetched array tasks.

A prefetched task is sent to a node early and starts when the previous task there ends. This saves a round
trip per task. A prefetched task has a separate job record in state CONFIGURING. It has the allocation of its
predecessor, the job in `prefetched_after`, and holds no resources while it has a predecessor. When the
predecessor ends for any reason, the successor is promoted in the same transaction: it takes over the
predecessor's position in the line, or the allocation. The allocation therefore has exactly one holder at any
time, in whatever order the nodes report starts. A prefetched task becomes pending again only if its node
reports that it has not started it (`LaunchRevoked`), so it never runs twice.
"""

from __future__ import annotations

from warpdeck.controller.events.effects import Effect, LaunchShare
from warpdeck.controller.events.events import Prefetch
from warpdeck.controller.state.array_record_splitting import take_tasks
from warpdeck.controller.state.state import replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.controller.state.view import unavailable_reason
from warpdeck.model import Job, JobId, JobState, Ranges, ShareStatus, count_tasks, has_task

_LEADS = frozenset({JobState.CONFIGURING, JobState.RUNNING})
"""States of a job after which a task may be prefetched."""


def prefetch_tasks(txn: Transaction, request: Prefetch) -> list[Effect]:
    """Prefetch tasks, each after the previous one.

    Tasks that no longer fit the present state are left out.
    """
    last, array = txn.state.jobs.get(request.after), txn.state.jobs.get(request.job_id)
    if last is None or array is None or not _may_follow(txn, array, last):
        return []
    assert last.allocation is not None
    tasks: Ranges = tuple((task, task, 1) for task in request.tasks if has_task(array.pending_tasks, task))
    if not tasks or count_tasks(array.pending_tasks) <= len(tasks):
        return []  # The array's own record stays for the remaining tasks.
    node = last.allocation.shares[0].node
    effects: list[Effect] = []
    for task in take_tasks(txn, array, tasks):
        txn.log(task.id, f"allocated {node} after job {last.label()}")
        last = txn.put_job(
            replace(
                task,
                state=JobState.CONFIGURING,
                allocation=last.allocation,
                prefetched_after=last.id,
                preempted_claim=None,
                partition=last.partition,
                time_limit_s=last.time_limit_s,
                shares=(ShareStatus(node=node),),
            )
        )
        effects.append(LaunchShare(node=node, job_id=last.id))
    return effects


def _may_follow(txn: Transaction, array: Job, last: Job) -> bool:
    """Return whether the next task of the array may be prefetched after the job.

    The job must be a task of the same array on one node that accepts jobs.
    """
    if array.state is not JobState.PENDING or array.held or last.state not in _LEADS:
        return False
    if last.request is not array.request or last.id in txn.state.index.successor or last.magnetic_reservation:
        return False
    if last.allocation is None:
        return False
    node = txn.state.nodes.get(last.allocation.shares[0].node)
    return len(last.shares) == 1 and node is not None and not unavailable_reason(txn.state, node)


def take_over(txn: Transaction, job: Job) -> Job:
    """Make the job the holder of its allocation, and return it.

    Call this before the job ends, because its usage is charged to the holder.
    """
    return job if job.prefetched_after is None else txn.put_job(replace(job, prefetched_after=None))


def promote_successor(txn: Transaction, gone: JobId, after: JobId | None) -> JobId | None:
    """Promote the successor, if any, of a job that has left its allocation or its position after `after`.

    Returns the id of the successor.
    """
    successor = txn.state.index.successor.get(gone)
    if successor is not None:
        txn.put_job(replace(txn.state.jobs[successor], prefetched_after=after))
    return successor
