"""Columns for the reason and the dependencies of pending and finished jobs, as Slurm shows them.

All functions are pure.
"""

from __future__ import annotations

from warpdeck.controller.state.dependencies import evaluate_clause
from warpdeck.controller.state.state import State
from warpdeck.controller.state.suspect_nodes import HELD_AFTER_NODES
from warpdeck.model import FINISHED, Dependency, Job, JobState, PendingReason
from warpdeck.policy import ESTIMATED_CODES, NO_ESTIMATES, StartEstimates
from warpdeck.policy.placement.pending_reason import held
from warpdeck.protocol.job_rows import WhyRow

from .row_context import NODES_UNAVAILABLE, RowContext

UNKNOWN_START = "expected start unknown: it waits for jobs without a time limit"
WAITS_FOR_RESOURCES = "Resources"
"""Slurm's reason for jobs that wait only for resources."""
NEVER_STARTED = {"dependency": "DependencyNeverSatisfied", "deadline": "DeadLine"}
"""Causes of the end of a pending job that can never start -> Slurm's reason, which the job keeps."""
CAUSES = {
    "timeout": "TimeLimit",
    "node_fail": "NodeDown",
    "oom": "OutOfMemory",
    "launch_failed": "JobLaunchFailure",
    **NEVER_STARTED,
}
"""Cause of a job's end -> Slurm's reason. Cancelled and preempted jobs have no reason."""


def never_started(job: Job) -> tuple[str, str]:
    """Return Slurm's reason and a sentence for a job that ended without a start.

    Both are "" for other jobs.
    """
    code = "" if job.exit is None else NEVER_STARTED.get(job.ending_cause, "")
    return code, f"ended without a start: {job.exit.message}" if code and job.exit else ""


def reason_row(
    job: Job, reason: PendingReason | None, estimates: StartEstimates = NO_ESTIMATES
) -> WhyRow | None:
    """Return the reason why a job is pending, or why it ended without a start. Return None for any other job.

    `estimates` contains the estimated starts of jobs far back in the queue.
    """
    if job.state is not JobState.PENDING:
        code, sentence = never_started(job)
        return WhyRow(code=code, sentence=sentence) if code else None
    if job.prefetched_after is not None:
        return WhyRow(code=WAITS_FOR_RESOURCES, sentence="starts after a running task of its array")
    if job.held:
        reason = held(job)
        return WhyRow(code=reason.code, sentence=reason.sentence)
    if reason is None:
        return WhyRow(code="None", sentence="not yet considered by the scheduler")
    if reason.expected_start_unix is None and reason.code in ESTIMATED_CODES and len(estimates):
        at_unix = estimates.start_of(job.id)
        sentence = reason.sentence if at_unix is not None else f"{reason.sentence}; {UNKNOWN_START}"
        return WhyRow(code=reason.code, sentence=sentence, expected_start=at_unix, rough=at_unix is not None)
    return WhyRow(code=reason.code, sentence=reason.sentence, expected_start=reason.expected_start_unix)


def reason_row_of(state: State, job: Job) -> WhyRow | None:
    """Return `reason_row` for the reason that the last scheduling pass found."""
    return reason_row(job, state.planned.pending_reasons.get(job.id), state.planned.start_estimates)


def reason_of(context: RowContext, job: Job) -> str:
    """Return the reason code without the sentence, which most formats do not print."""
    if job.state is JobState.PENDING and job.prefetched_after is not None:
        return WAITS_FOR_RESOURCES
    if is_held(job) or (job.held and job.state not in FINISHED):
        return _hold_reason(job)
    if job.state is JobState.PENDING:
        reason = context.state.planned.pending_reasons.get(job.id)
        if reason is not None and reason.code == NODES_UNAVAILABLE:
            return context.unavailable(job.request.partition, job.request.resources.nodelist)
        return reason.code if reason is not None else "None"
    if job.state not in FINISHED:
        return "None"
    cause = job.exit.cause if job.exit else job.ending_cause
    if cause in CAUSES or job.state is not JobState.FAILED:
        return CAUSES.get(cause, "None")
    return "JobLaunchFailure" if job.exit and job.exit.signal else "NonZeroExitCode"


def _hold_reason(job: Job) -> str:
    """Return the reason of a job that is held, or that will be held once it is requeued."""
    if job.lost_reservation:
        return f"Reservation {job.lost_reservation} was deleted"
    if len(job.failed_nodes) >= HELD_AFTER_NODES and not job.held_by_admin:
        return "launch failed requeued held"
    if job.requeued_held:
        return "job requeued in held state"
    if job.special_exit:
        return "job requeued in special exit state"
    return "JobHeldAdmin" if job.held_by_admin else "JobHeldUser"


def dependency_text(context: RowContext, job: Job) -> str:
    requested = job.request.dependencies
    if requested is None or job.state is not JobState.PENDING:
        return ""
    texts = []
    for clause in requested.clauses:
        verdict = evaluate_clause(
            clause,
            job,
            members=context.state.named,
            first_namesake=context.namesakes.first_before,
            now=context.now,
        )
        if not verdict.holds:
            texts.append(
                f"{_clause_text(context.state, clause)}({'failed' if verdict.never else 'unfulfilled'})"
            )
    return ("?" if requested.any_of else ",").join(texts)


def _clause_text(state: State, clause: Dependency) -> str:
    if clause.kind == "singleton":
        return clause.kind
    delay = f"+{clause.delay_s // 60}" if clause.delay_s else ""
    if clause.task is not None:
        return f"{clause.kind}:{clause.job_id}_{clause.task}{delay}"
    array = any(member.request.array is not None for member in state.named(clause.job_id)[:1])
    return f"{clause.kind}:{clause.job_id}{'_*' if array else ''}{delay}"


def is_held(job: Job) -> bool:
    """Return whether the job is held and pending, or was held until it ended without a start."""
    waits = job.state is JobState.PENDING or (job.state in FINISHED and job.start_at_unix is None)
    return waits and (job.held or job.held_by_admin)
