"""Handlers for prefetched array tasks.

Such a task is sent to a node early and starts when the previous task there ends. This saves a round trip per
task. A prefetched task is a job of its own in state CONFIGURING. It has the allocation of the job that it is
`behind`, and holds no resources while it is behind another job. When that job ends for any reason, its
follower moves up in the same transaction, to the job's position in the line or into the allocation. The
allocation therefore has exactly one holder at any time, in whatever order the nodes report starts. A
prefetched task waits again only if its node reports that it has not started it (`GivenBack`), so it never
runs twice.
"""

from __future__ import annotations

from warpdeck.controller.events.events import Ahead, Effect, LaunchShare
from warpdeck.controller.state.array_record_splitting import take_tasks
from warpdeck.controller.state.state import amend
from warpdeck.controller.state.transaction import Transaction
from warpdeck.controller.state.view import why_unavailable
from warpdeck.model import Job, JobId, JobState, Ranges, ShareStatus, count_tasks, has_task

_LEADS = frozenset({JobState.CONFIGURING, JobState.RUNNING})
"""States of a job behind which a task may be prefetched."""


def hand(txn: Transaction, ahead: Ahead) -> list[Effect]:
    """Prefetch tasks, each behind the previous one.

    Tasks that no longer fit the present state are left out.
    """
    last, array = txn.state.jobs.get(ahead.behind), txn.state.jobs.get(ahead.job_id)
    if last is None or array is None or not _may_follow(txn, array, last):
        return []
    assert last.allocation is not None
    tasks: Ranges = tuple((task, task, 1) for task in ahead.tasks if has_task(array.pending_tasks, task))
    if not tasks or count_tasks(array.pending_tasks) <= len(tasks):
        return []  # The array's own record stays for the remaining tasks.
    node = last.allocation.shares[0].node
    effects: list[Effect] = []
    for task in take_tasks(txn, array, tasks):
        txn.log(task.id, f"allocated {node} after job {last.label()}")
        last = txn.put_job(
            amend(
                task,
                state=JobState.CONFIGURING,
                allocation=last.allocation,
                behind=last.id,
                room=None,
                partition=last.partition,
                time_limit_s=last.time_limit_s,
                shares=(ShareStatus(node=node),),
            )
        )
        effects.append(LaunchShare(node=node, job_id=last.id))
    return effects


def _may_follow(txn: Transaction, array: Job, last: Job) -> bool:
    """Return whether the next task of the array may be prefetched behind the job.

    The job must be a task of the same array on one node that accepts jobs.
    """
    if array.state is not JobState.PENDING or array.held or last.state not in _LEADS:
        return False
    if last.request is not array.request or last.id in txn.state.index.follower or last.drawn_into:
        return False
    if last.allocation is None:
        return False
    node = txn.state.nodes.get(last.allocation.shares[0].node)
    return len(last.shares) == 1 and node is not None and not why_unavailable(txn.state, node)


def step_in(txn: Transaction, job: Job) -> Job:
    """Return the job as the holder of its allocation.

    Call this before the job ends, because its usage is charged to the holder.
    """
    return job if job.behind is None else txn.put_job(amend(job, behind=None))


def move_up(txn: Transaction, gone: JobId, behind: JobId | None) -> JobId | None:
    """Move up the follower, if any, of a job that has left its allocation or its position behind `behind`.

    Returns the id of the follower.
    """
    follower = txn.state.index.follower.get(gone)
    if follower is not None:
        txn.put_job(amend(txn.state.jobs[follower], behind=behind))
    return follower
