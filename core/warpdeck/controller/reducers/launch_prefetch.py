"""Array tasks that are handed to their node ahead of time: each begins there in the place of the one before it, without a
round trip. Handlers of the reducer.

A handed task is a job of its own, CONFIGURING, with the allocation of the job that it is `behind`; while it is behind one it
holds nothing. When that one ends, however it ends, its follower moves up in the same transaction: behind whom that one was, or
into the place. So a place has one holder at any time, whatever was handed and in which order nodes tell what they have begun.
Only the node's own word that it has not begun (GivenBack) makes a handed task a waiting one again: it never runs twice.
"""

from __future__ import annotations

from warpdeck.controller.events.events import Ahead, Effect, LaunchShare
from warpdeck.controller.state.array_record_splitting import take_tasks
from warpdeck.controller.state.state import amend
from warpdeck.controller.state.transaction import Transaction
from warpdeck.controller.state.view import why_unavailable
from warpdeck.model import Job, JobId, JobState, Ranges, ShareStatus, count_tasks, has_task

_LEADS = frozenset({JobState.CONFIGURING, JobState.RUNNING})
"""States of a job whose place its follower may be promised."""


def hand(txn: Transaction, ahead: Ahead) -> list[Effect]:
    """Hands tasks, each behind the one before it. What does not fit the present state any more is left."""
    last, array = txn.state.jobs.get(ahead.behind), txn.state.jobs.get(ahead.job_id)
    if last is None or array is None or not _may_follow(txn, array, last):
        return []
    assert last.allocation is not None
    tasks: Ranges = tuple((task, task, 1) for task in ahead.tasks if has_task(array.pending_tasks, task))
    if not tasks or count_tasks(array.pending_tasks) <= len(tasks):
        return []  # the array's own record stays for the rest
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
    """Whether the next of the array may be promised the place of that job: its own task, on a node that takes jobs."""
    if array.state is not JobState.PENDING or array.held or last.state not in _LEADS:
        return False
    if last.request is not array.request or last.id in txn.state.index.follower or last.drawn_into:
        return False
    if last.allocation is None:
        return False
    node = txn.state.nodes.get(last.allocation.shares[0].node)
    return len(last.shares) == 1 and node is not None and not why_unavailable(txn.state, node)


def step_in(txn: Transaction, job: Job) -> Job:
    """The job as the holder of its place. To be asked for before it ends: what it has run is charged to whoever held it."""
    return job if job.behind is None else txn.put_job(amend(job, behind=None))


def move_up(txn: Transaction, gone: JobId, behind: JobId | None) -> JobId | None:
    """The job is out of its place or out of its line, in which it was behind that one: its follower, if any, moves up."""
    follower = txn.state.index.follower.get(gone)
    if follower is not None:
        txn.put_job(amend(txn.state.jobs[follower], behind=behind))
    return follower
