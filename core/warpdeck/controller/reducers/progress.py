"""Handlers for reports of nodes about jobs: started, ended, refused or returned.

A job is RUNNING when all of its shares run. A batch job begins to end when its batch share has ended, because
its other nodes only hold the allocation. Any other job ends when all shares have ended. The end is final when
every share has ended.

Times that nodes report are converted to the controller's clock, which accounting and limits use. The clock of a
node may be wrong or may jump. Small differences are not corrected, so that the duration of a job is measured by
one clock. For a node with a large clock error, the error that its health check reports is subtracted. A time in
the future is replaced by the present. The present is also used if a job seems to have started long before it was
eligible, or to have ended long before its start.
"""

from __future__ import annotations

from warpdeck.controller.events.effects import (
    CollectOutput,
    Effect,
    ForgetShare,
    KillShare,
    LimitShare,
    Outcome,
    ShowNotice,
)
from warpdeck.controller.events.events import HANG, HangJudged, LaunchRefused, LaunchRevoked, NodeWarning
from warpdeck.controller.state.array_record_splitting import fold_back
from warpdeck.controller.state.measurements import to_curve, to_own, to_usage
from warpdeck.controller.state.state import replace
from warpdeck.controller.state.suspect_nodes import HELD_AFTER_NODES
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import BY_ITSELF, ExitStatus, Job, JobCurve, JobId, JobState, NodeName, ShareStatus
from warpdeck_agent.wire import messages as wire

from . import hetjob_components, step_commands, unknown_launches
from .allocations import RELEASED
from .job_commands import end_job, kill_share, requeue_job
from .launch_prefetch import promote_successor, take_over
from .node_failures import drain_permanently, drain_until_passed
from .suspension import correct_suspension
from .unknown_launches import Verdict, classify

MIN_RELATIVE_CHANGE = 0.05
"""Relative change of a predicted run time below which the waiting tasks keep the old prediction.

Thousands of short tasks may end one after the other, and each would change the prediction slightly.
"""
MIN_CHANGE_S = 1.0
"""Change of a predicted run time in seconds below which the waiting tasks keep the old prediction.

Smaller differences do not matter for planning, and the run times of short tasks vary by larger fractions.
"""
TOP_PRIORITY = 2**32 - 3
"""The highest priority that Slurm knows."""
_STATE_OF_CAUSE = {
    "cancelled": JobState.CANCELLED,
    "requeued": JobState.CANCELLED,
    "preempted": JobState.PREEMPTED,
    "timeout": JobState.TIMEOUT,
    "idle": JobState.TIMEOUT,
    "oom": JobState.OUT_OF_MEMORY,
    "node_fail": JobState.NODE_FAIL,
    "launch_failed": JobState.FAILED,
    "unknown": JobState.FAILED,
}


NOT_FOLLOWED = {
    Verdict.UNREADABLE: "its record could not be read",
    Verdict.UNPROVEN: "this controller has not started it",
}
"""Reason why a job is neither followed nor ended."""


def starts_are_awaited(txn: Transaction) -> bool:
    """Return whether a waiting job may depend on the start of another job.

    A start affects no other waiting jobs.
    """
    jobs = txn.state.jobs
    return any(jobs[job_id].request.dependencies is not None for job_id in txn.state.index.pending)


def warn(txn: Transaction, event: NodeWarning) -> Outcome:
    """Record an agent's warning about a job in its history and as its notice."""
    warning = event.message
    job = txn.state.jobs.get(JobId(warning.job_id))
    if job is not None and _is_there(job, event.name, warning.restarts) and not job.is_finished:
        sentence = f"{event.name}: {warning.text}"
        txn.put_job(replace(job, notice=sentence))
        txn.log(job.id, sentence)
    return Outcome(replan=False)


def judge_hang(txn: Transaction, event: HangJudged) -> Outcome:
    """Record a verdict in the job's history, as its notice and in its output, or withdraw it."""
    job = txn.state.jobs.get(event.job_id)
    if job is None or job.restarts != event.restarts or job.state is not JobState.RUNNING:
        return Outcome(replan=False)
    if job.notice.startswith(HANG) is bool(event.sentence):
        return Outcome(replan=False)
    text = event.sentence or "is no longer suspected to hang"
    txn.put_job(replace(job, notice=event.sentence))
    txn.log(job.id, text)
    shown = ShowNotice(node=job.shares[0].node, job_id=job.id, restarts=job.restarts, text=f"the job {text}")
    return Outcome(replan=False, effects=(shown,))


def refuse(txn: Transaction, event: LaunchRefused) -> Outcome:
    """Handle a node's refusal to start a share. No process of the share runs.

    If the node caused the refusal, the job is requeued.
    """
    failed = event.failed
    drain_permanently(txn, event.name, failed.drain)
    node_failed = drain_until_passed(txn, event.name, failed.check, reason=failed.message) or failed.again
    requeues = node_failed and _requeue_failed_start(txn, event.name, failed)
    gone = wire.JobReport(
        job_id=failed.job_id,
        restarts=failed.restarts,
        phase="exited",
        exit_code=1,
        cause="requeued" if requeues else "launch_failed",
        message=failed.message,
        ended_at=txn.now,
    )
    return Outcome(effects=tuple(apply_report(txn, event.name, gone)))


def return_to_queue(txn: Transaction, event: LaunchRevoked) -> Outcome:
    """Return prefetched tasks that have not started to the queue, as if they had never been sent.

    If the end of a task was requested in the meantime, the task ends.
    """
    effects: list[Effect] = []
    for job_id, restarts in event.launches:
        job = txn.state.jobs.get(job_id)
        if job is None or not _is_there(job, event.name, restarts) or not _has_not_started(job):
            continue
        if job.state is JobState.COMPLETING:
            gone = wire.JobReport(job_id, restarts, phase="exited", cause=job.ending_cause, ended_at=txn.now)
            effects += apply_report(txn, event.name, gone)
            continue
        waits = replace(
            job,
            state=JobState.PENDING,
            prefetched_after=None,
            allocation=None,
            shares=(),
            partition="",
            time_limit_s=None,
        )
        txn.put_job(waits)
        promote_successor(txn, job.id, job.prefetched_after)
        fold_back(txn, waits)
    return Outcome(effects=tuple(effects))


def _has_not_started(job: Job) -> bool:
    """Return whether no share of the job is known to have started."""
    is_open = job.state in (JobState.CONFIGURING, JobState.COMPLETING)
    return is_open and all(share.phase == "launching" for share in job.shares)


def _requeue_failed_start(txn: Transaction, name: NodeName, failed: wire.LaunchFailed) -> bool:
    """Requeue a job that a node could not start. Returns False if the job cannot be requeued.

    As in Slurm, a job with a failed prolog is held, because it might drain one node after the other.
    """
    job = txn.state.jobs.get(JobId(failed.job_id))
    if job is None or job.state is not JobState.CONFIGURING or job.request.pty is not None:
        return False
    if not _is_there(job, name, failed.restarts):
        return False
    txn.log(job.id, f"not started on {name}: {failed.message}")
    job = replace(job, requeue_on_exit=True, held=job.held or bool(failed.drain))
    txn.put_job(_with_failed_node(txn, job, name) if failed.check else job)
    return True


def _with_failed_node(txn: Transaction, job: Job, name: NodeName) -> Job:
    """Return the job with this node added to the nodes that could not start it.

    The job then starts on other nodes. If several nodes failed, the job itself may be the cause, and it is
    held.
    """
    nodes = tuple(dict.fromkeys((*job.failed_nodes, name)))
    job = replace(job, failed_starts=job.failed_starts + 1, failed_nodes=nodes)
    if len(nodes) < HELD_AFTER_NODES:
        return job
    notice = f"held: {len(nodes)} nodes could not start the job ({', '.join(nodes)})"
    txn.log(job.id, notice)
    return replace(job, held=True, notice=notice)


def apply_report(txn: Transaction, name: NodeName, job_report: wire.JobReport) -> list[Effect]:
    """Apply a report to the share and the job.

    A repeated report changes nothing and causes at most a `ForgetShare`.
    """
    job = txn.state.jobs.get(JobId(job_report.job_id))
    share = None if job is None else _share(job, name)
    verdict = classify(
        txn.state,
        name,
        job_id=job_report.job_id,
        restarts=job_report.restarts,
        proof=job_report.proof,
    )
    if verdict is Verdict.UNKNOWN:
        unknown_launches.note(txn, name, job_report)
        return []
    if job_report.phase == "running" and verdict in NOT_FOLLOWED:
        unknown_launches.drain_for(txn, name, job_report.job_id, NOT_FOLLOWED[verdict])
        return []
    if verdict is not Verdict.CURRENT or job is None or share is None:
        return _handle_stale_report(job, name, job_report)
    if share.phase == "exited":
        return []
    if job_report.phase == "running":
        return _share_runs(txn, job, share, job_report)
    return _share_ended(txn, job, share, job_report)


def lose_share(
    txn: Transaction, job: Job, name: NodeName, message: str, *, cause: str = "node_fail"
) -> list[Effect]:
    """End a share that the node has lost or never had."""
    gone = wire.JobReport(
        job_id=job.id,
        restarts=job.restarts,
        phase="exited",
        exit_code=1,
        cause=cause,
        message=message,
        ended_at=txn.now,
    )
    return apply_report(txn, name, gone)


def _handle_stale_report(job: Job | None, name: NodeName, job_report: wire.JobReport) -> list[Effect]:
    """End and release an outdated launch, and collect its output for the user.

    Only the store knows whether that earlier start ran on the node. This is checked when the effect runs.
    """
    job_id = JobId(job_report.job_id)
    if job_report.phase == "running":
        return [KillShare(node=name, job_id=job_id, restarts=job_report.restarts, at_once=True)]
    effects: list[Effect] = []
    was_there = job is not None and (
        job_report.restarts < job.restarts or _is_there(job, name, job_report.restarts)
    )
    if was_there and not _is_visible(job_report):
        effects.append(CollectOutput(node=name, job_id=job_id, restarts=job_report.restarts))
    return [*effects, ForgetShare(node=name, job_id=job_id, restarts=job_report.restarts)]


def _is_visible(job_report: wire.JobReport) -> bool:
    """Return whether the output is stored where the user expects it."""
    return not job_report.stdout_path.startswith("spool:")


def _share_runs(txn: Transaction, job: Job, share: ShareStatus, job_report: wire.JobReport) -> list[Effect]:
    effects: list[Effect] = []
    visible = _is_visible(job_report)
    started = replace(
        share,
        phase="running",
        pid=job_report.pid,
        stdout_path=job_report.stdout_path,
        stderr_path=job_report.stderr_path,
        work_dir=job_report.work_dir,
        visible=visible,
    )
    if share != started:
        job = txn.put_job(_with_share(job, started))
    if not visible:
        effects.append(CollectOutput(node=share.node, job_id=job.id, restarts=job.restarts))
    effects += correct_suspension(job, share.node, stopped_there=job_report.suspended)
    if job_report.time_limit_s not in (-1.0, job.time_limit_s or 0.0):
        effects.append(LimitShare(node=share.node, job_id=job.id, restarts=job.restarts))
    if job.state is JobState.COMPLETING:
        effects.append(kill_share(txn, job, share.node, cause=job.ending_cause))
    elif job.state is JobState.CONFIGURING and all(part.phase != "launching" for part in job.shares):
        txn.put_job(
            replace(
                job,
                state=JobState.RUNNING,
                start_at_unix=start_of(txn, job, share.node, job_report.started_at),
            )
        )
        txn.log(job.id, "running on " + ", ".join(part.node for part in job.shares))
    elif job.state is JobState.RUNNING and job.request.requeue_at_limit and job_report.cause == "timeout":
        txn.log(job.id, "saves its work at its time limit")
        effects += end_job(txn, job, "timeout", saving_s=txn.state.site.grace_s)
    return effects


def _share_ended(txn: Transaction, job: Job, share: ShareStatus, job_report: wire.JobReport) -> list[Effect]:
    drain_permanently(txn, share.node, job_report.drain)
    cause = job_report.cause or ("unknown" if job_report.phase == "lost" else "")
    status = ExitStatus(
        code=job_report.exit_code, signal=job_report.signal, cause=cause, message=job_report.message
    )
    paths = {}
    if job_report.stdout_path:
        paths = {"stdout_path": job_report.stdout_path, "visible": _is_visible(job_report)}
    ended = replace(
        share,
        phase="exited",
        exit=status,
        stderr_path=job_report.stderr_path or share.stderr_path,
        work_dir=job_report.work_dir or share.work_dir,
        peak_mem_bytes=job_report.peak_mem_bytes,
        cpu_seconds=job_report.cpu_seconds,
        system_s=job_report.system_s,
        own=to_own(job_report.own),
        gpu=to_usage(job_report.gpu),
        checkpoint_at_unix=job_report.checkpoint_at,
        **paths,
    )
    if job_report.curve is not None:
        txn.put_curve(JobCurve(job_id=job.id, node=share.node, curve=to_curve(job_report.curve)))
    begun_unix = job.start_at_unix
    if begun_unix is None and job_report.started_at:
        begun_unix = start_of(txn, job, share.node, job_report.started_at)
    began, over = (
        job_report.started_at or job_report.ended_at,
        job_report.ended_at,
    )  # Both are times on the node's clock.
    suspect = txn.state.node_status.suspects.record_end(
        share.node, job, status, began_unix=began, ended_unix=over
    )
    drain_permanently(txn, share.node, suspect)
    job = replace(_with_share(job, ended), start_at_unix=begun_unix)
    effects: list[Effect] = []
    if not ended.visible:
        effects.append(CollectOutput(node=share.node, job_id=job.id, restarts=job.restarts))
    if all(part.phase == "exited" for part in job.shares):
        return effects + finish(txn, job, ended_at=to_controller_clock(txn, share.node, job_report.ended_at))
    txn.put_job(job)
    batch_ended = bool(job.request.script) and job.shares[0].phase == "exited"
    failed = cause not in ("", "cancelled") and job.state is not JobState.COMPLETING
    if job.state is not JobState.COMPLETING and (batch_ended or failed):
        effects += end_job(txn, job, cause if failed else "")
    return effects


def finish(txn: Transaction, job: Job, *, ended_at: float) -> list[Effect]:
    """Set the final state of a job after all its shares have ended, or requeue it.

    The nodes may forget the job after the commit.
    """
    status = final_status(job)
    state = _STATE_OF_CAUSE.get(status.cause)
    if state is None:
        state = JobState.COMPLETED if (status.code, status.signal) == (0, 0) else JobState.FAILED
    effects: list[Effect] = [
        ForgetShare(node=share.node, job_id=job.id, restarts=job.restarts) for share in job.shares
    ]
    prefetched_after = job.prefetched_after
    if job.start_at_unix is not None:
        ended_at = end_of(txn, job, ended_at=ended_at)
        job = take_over(txn, job)
    txn.log(job.id, f"ended {state}, exit {status}" + (f": {status.message}" if status.message else ""))
    ended = txn.put_job(replace(job, state=state, exit=status, end_at_unix=ended_at, prefetched_after=None))
    successor = promote_successor(txn, job.id, prefetched_after)
    if successor is not None:
        txn.successors[job.id] = successor
    if state in BY_ITSELF:
        _update_predictions(txn, ended)
    step_commands.end_all(txn, ended, ended_at=ended_at)
    requeues = (
        job.requeue_on_exit
        or (state is JobState.NODE_FAIL and job.request.requeue and not job.request.pty)
        or (state is JobState.TIMEOUT and _continues_after_limit(job))
    )
    requeues = requeues and not hetjob_components.is_left(txn.state, job)
    if requeues:
        if state is JobState.TIMEOUT:
            txn.log(job.id, "returns to the queue at its time limit, because it has checkpointed")
        requeue_job(txn, _expedited(txn, ended))
        txn.log(job.id, f"requeued (start {job.restarts + 1})")
    return effects + hetjob_components.after_end(txn, ended, requeues=requeues)


def _continues_after_limit(job: Job) -> bool:
    """Return whether a job at its time limit returns to the queue: it asked for it, and has checkpointed since its start.

    Without the second condition, a job that makes no progress would be started forever.
    """
    asked = job.request.requeue_at_limit and job.request.requeue
    return asked and any(share.checkpoint_at_unix > 0 for share in job.shares)


def _expedited(txn: Transaction, ended: Job) -> Job:
    """Return the job with the highest priority if its node failed and it requested --requeue=expedite."""
    if ended.state is not JobState.NODE_FAIL or not (ended.request.expedite and txn.state.site.expedites):
        return ended
    txn.log(ended.id, "goes first, because its node failed (--requeue=expedite)")
    return replace(ended, request=replace(ended.request, priority=TOP_PRIORITY))


def _update_predictions(txn: Transaction, ended: Job) -> None:
    """Update the predicted run time of an array's waiting tasks from the tasks that have ended."""
    array = txn.state.jobs.get(ended.array_job_id)
    if array is None or array.state is not JobState.PENDING:
        return
    predicted_s = txn.state.predict(array.user, array.request)
    if not _is_near(array.predicted_s, predicted_s):
        txn.put_job(replace(array, predicted_s=predicted_s))


def _is_near(before_s: float | None, predicted_s: float | None) -> bool:
    if before_s is None or predicted_s is None:
        return before_s is predicted_s
    return abs(predicted_s - before_s) <= max(MIN_CHANGE_S, MIN_RELATIVE_CHANGE * before_s)


def to_controller_clock(txn: Transaction, name: NodeName, at_unix: float) -> float:
    """Return the reported time on the controller's clock; the present if the node reports no time."""
    health = txn.state.node_status.health.get(name)
    here = at_unix if health is None else at_unix - health.clock_off_s
    is_known = at_unix and here <= txn.now + txn.state.site.health.max_clock_skew_s
    return here if is_known else txn.now


def start_of(txn: Transaction, job: Job, name: NodeName, at_unix: float) -> float:
    """Return the time at which the job started on the node, on the controller's clock."""
    here = to_controller_clock(txn, name, at_unix)
    return here if here >= job.eligible_at_unix - txn.state.site.health.max_clock_skew_s else txn.now


def end_of(txn: Transaction, job: Job, *, ended_at: float) -> float:
    """Return the time at which the job ended. It is never before the start of the job."""
    if job.start_at_unix is None:
        return ended_at
    if ended_at < job.start_at_unix - txn.state.site.health.max_clock_skew_s:
        return txn.now
    return max(ended_at, job.start_at_unix)


def final_status(job: Job) -> ExitStatus:
    """Return the exit status of the batch share, or the worst exit status of all shares.

    If the end of the job was requested, the cause of the request takes precedence.
    """
    ends = [share.exit or ExitStatus(cause="unknown", code=1) for share in job.shares]
    worst = ends[0] if job.request.script else max(ends, key=lambda end: (end.signal, end.code))
    abnormal = next((end for end in ends if end.cause not in ("", "cancelled")), None)
    if job.ending_cause == RELEASED and job.exit is not None:
        return ExitStatus(code=job.exit.code, signal=job.exit.signal, message=job.exit.message)
    if job.ending_cause:
        message = abnormal.message if abnormal is not None else worst.message
        return ExitStatus(code=worst.code, signal=worst.signal, cause=job.ending_cause, message=message)
    if abnormal is not None and not worst.cause:
        return ExitStatus(
            code=worst.code or 1, signal=worst.signal, cause=abnormal.cause, message=abnormal.message
        )
    return worst


def _is_there(job: Job, name: NodeName, restarts: int) -> bool:
    """Return whether this start of the job has a share on the node.

    Reports of a node about other jobs are ignored.
    """
    return job.restarts == restarts and _share(job, name) is not None


def _share(job: Job, name: NodeName) -> ShareStatus | None:
    return next((share for share in job.shares if share.node == name), None)


def _with_share(job: Job, changed: ShareStatus) -> Job:
    shares = tuple(changed if part.node == changed.node else part for part in job.shares)
    return replace(job, shares=shares)
