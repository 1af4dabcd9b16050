"""Adopt or discard the launches that the database does not explain (`unknown_launches`).

The action for the launches of one job follows from the job in the state:

  job in the state         the newest start on the nodes              action
  none                     with a record                              ADOPT: the job is made from the record
  the same submission      with a record                              ADOPT: the job continues with this start
  the same submission      has a share there, and was forgotten       ADOPT: the job ends as it was reported
  the same submission      without a record, and has ended            ADOPT: the job ends with an unknown result
  none                     without a record, and has ended            ADOPT: it is only forgotten
  of another submission    any                                        KEEP: the id was given again
  any                      without a record, and runs                 KEEP

Launches of earlier starts are released with it. A launch that is kept blocks the start of jobs until it is discarded.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from warpdeck.controller.events.effects import Effect, ForgetShare, KillShare, Outcome
from warpdeck.controller.events.events import FoundLaunch, Recovered
from warpdeck.controller.launch.launch_records import identity_of, parse_proof
from warpdeck.controller.state.array_record_splitting import fold
from warpdeck.controller.state.state import State, replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import ExitStatus, Job, JobId, JobState, ShareStatus, split_ranges
from warpdeck.model.recovery import RUNNING

from .job_commands import requeue_job
from .progress import apply_report

LOST_RESULT = ExitStatus(code=1, cause="unknown", message="the result was lost with the database")


class Action(StrEnum):
    """The action for an unknown launch."""

    ADOPT = "adopt"
    DISCARD = "discard"
    KEEP = "keep"


def action_of(state: State, found: FoundLaunch) -> Action:
    """Return the action for a launch, the newest of its job, if it is not discarded."""
    job = state.jobs.get(found.launch.job_id)
    identity = "" if found.report is None else parse_proof(found.report.proof).identity
    if job is not None and identity and identity != identity_of(job):
        return Action.KEEP
    return Action.KEEP if found.job is None and found.launch.phase == RUNNING else Action.ADOPT


def recover(txn: Transaction, event: Recovered) -> Outcome:
    """Adopt or discard the launches. The other launches stay unknown."""
    effects: list[Effect] = []
    done: list[FoundLaunch] = []
    for job_id in sorted({each.launch.job_id for each in event.launches}):
        launches = [each for each in event.launches if each.launch.job_id == job_id]
        newest = max(each.launch.restarts for each in launches)
        current = [each for each in launches if each.launch.restarts == newest]
        if event.discard:
            effects += _discard(txn, launches)
        elif any(action_of(txn.state, each) is Action.KEEP for each in current):
            continue
        else:
            effects += _release([each for each in launches if each not in current])
            effects += _adopt(txn, current)
        done += launches
    left = txn.state.recovery.without(tuple(each.launch for each in done))
    txn.put_recovery(msgspec.structs.replace(left, adopted=_adopted(txn.state, left.adopted, done)))
    return Outcome(effects=tuple(effects))


def _adopted(
    state: State, before: tuple[tuple[int, int], ...], done: list[FoundLaunch]
) -> tuple[tuple[int, int], ...]:
    """Return the unfinished adopted starts. The controller does not know their steps."""
    keys = {*before, *((each.launch.job_id, each.launch.restarts) for each in done)}
    unfinished = {(job.id, job.restarts) for job_id, _ in keys if (job := state.jobs.get(JobId(job_id)))}
    return tuple(sorted(key for key in keys & unfinished if not state.jobs[JobId(key[0])].is_finished))


def _release(launches: list[FoundLaunch]) -> list[Effect]:
    """Return the effects that end and forget launches that are of no use any more."""
    return [
        KillShare(
            node=each.launch.node, job_id=each.launch.job_id, restarts=each.launch.restarts, at_once=True
        )
        if each.launch.phase == RUNNING
        else ForgetShare(node=each.launch.node, job_id=each.launch.job_id, restarts=each.launch.restarts)
        for each in launches
    ]


def _discard(txn: Transaction, launches: list[FoundLaunch]) -> list[Effect]:
    """End the launches. A job of the same id that waits gets a later start, so that it cannot be confused."""
    job = txn.state.jobs.get(launches[0].launch.job_id)
    newest = max(each.launch.restarts for each in launches)
    if job is not None and not job.is_finished and job.restarts <= newest:
        if job.state is not JobState.PENDING:
            job = requeue_job(txn, job)
        restarts = newest + 1
        skipped = restarts - job.restarts
        txn.put_job(replace(job, restarts=restarts, failed_starts=job.failed_starts + skipped))
    return _release(launches)


def _adopt(txn: Transaction, found: list[FoundLaunch]) -> list[Effect]:
    """Put the job into the state as the nodes know it, and apply their reports."""
    launch = found[0].launch
    before = txn.state.jobs.get(launch.job_id)
    recorded = next((each.job for each in found if each.job is not None), None)
    if before is None and recorded is None:
        return _release(found)
    has_share = before is not None and before.restarts == launch.restarts and before.allocation is not None
    if not has_share and recorded is not None:
        _put_recorded(txn, before, recorded, found)
    elif not has_share:
        assert before is not None
        return [*_end_without_result(txn, before), *_release(found)]
    effects: list[Effect] = []
    for each in found:
        if each.report is not None:
            effects += apply_report(txn, each.launch.node, each.report)
    txn.log(launch.job_id, "recovered from the nodes, because the database was older")
    return effects


def _put_recorded(txn: Transaction, before: Job | None, recorded: Job, found: list[FoundLaunch]) -> None:
    reported = {each.launch.node for each in found}
    job = replace(
        recorded,
        state=JobState.CONFIGURING,
        shares=tuple(
            # A share without a report is not sent again: its node may have run it.
            ShareStatus(node=share.node, phase="launching" if share.node in reported else "running")
            for share in (recorded.allocation.shares if recorded.allocation else ())
        ),
        prefetched_after=None,
        requeue_on_exit=False,
        held=False,
        steps_made=max([recorded.steps_made, *(each.last_step + 1 for each in found)]),
    )
    if before is None:
        job = _with_request(txn, job)
        _take_from_array(txn, job)
    else:
        if before.state is not JobState.PENDING:
            before = requeue_job(txn, before)
        job = replace(job, request=before.request, request_key=before.request_key)
    txn.put_job(job)


def _with_request(txn: Transaction, job: Job) -> Job:
    """Return a job that is new in the state, with its request in the store."""
    key = JobId(job.request_key or job.array_job_id)
    members = txn.state.array_members(job.array_job_id)
    if not job.request_key and members:
        return replace(job, request=members[0].request, request_key=members[0].request_key)
    txn.add_request(key, job.request)
    return job


def _take_from_array(txn: Transaction, job: Job) -> None:
    """Remove a recovered task from the waiting tasks of its array."""
    array = txn.state.jobs.get(job.array_job_id)
    if array is None or job.array_task_id is None or not array.pending_tasks:
        return
    task = job.array_task_id
    _, remaining = split_ranges(array.pending_tasks, ((task, task, 1),))
    if remaining:
        txn.put_job(fold(array, remaining))


def _end_without_result(txn: Transaction, job: Job) -> list[Effect]:
    """End a job that has ended on its node with an unknown result."""
    if job.is_finished:
        return []
    if job.state is not JobState.PENDING:
        job = requeue_job(txn, job)
    txn.put_job(replace(job, state=JobState.FAILED, exit=LOST_RESULT, end_at_unix=txn.now))
    txn.log(job.id, f"ended: {LOST_RESULT.message}")
    return []
