"""The reducer: it applies one event to the transaction and returns the effects.

The state is changed in no other way. Raises UserError if the event is refused. The caller then rolls back the
changes that the event had already made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import (
    Cancelled,
    ClaimEnded,
    CodeRecorded,
    CommentUpdated,
    Event,
    Fenced,
    HangJudged,
    HealthReported,
    Held,
    HolderLeft,
    HolderSeen,
    JournalNote,
    LaunchRefused,
    LaunchRevoked,
    MessagesRead,
    NodeAdded,
    NodeDrained,
    NodeLost,
    NodeRemoved,
    NodeResumed,
    NodeUp,
    NodeWarning,
    NotifyJob,
    Planned,
    Recovered,
    Released,
    Reported,
    Requeued,
    ReservationMade,
    ReservationRemoved,
    ReservationsDue,
    Resumed,
    StartBegun,
    StepEndRequested,
    StepReported,
    StepRequested,
    Submitted,
    Suspended,
    Updated,
)
from warpdeck.controller.state.transaction import Transaction

from . import (
    allocations,
    apply_plan,
    claims,
    code_recording,
    comment_update,
    fencing,
    job_commands,
    node_changes,
    node_health,
    progress,
    recovering,
    reservation_lifecycle,
    reserving,
    step_commands,
    submitting,
    suspension,
    updates,
)


def _note(txn: Transaction, event: JournalNote) -> Outcome:
    txn.log(event.job_id, event.text)
    return Outcome(replan=False)


def _nothing(txn: Transaction, event: MessagesRead) -> Outcome:
    return Outcome(replan=False)


REDUCERS: dict[type, Callable[[Transaction, Any], Outcome]] = {
    Submitted: submitting.submit,
    Cancelled: job_commands.cancel,
    Held: job_commands.hold,
    Released: job_commands.release,
    Requeued: job_commands.requeue,
    Suspended: suspension.suspend,
    Resumed: suspension.resume,
    NotifyJob: job_commands.notify,
    Updated: updates.update,
    CommentUpdated: comment_update.annotate,
    CodeRecorded: code_recording.record,
    Planned: apply_plan.apply_plan,
    Reported: claims.report,
    LaunchRevoked: progress.return_to_queue,
    LaunchRefused: progress.refuse,
    NodeWarning: progress.warn,
    HangJudged: progress.judge_hang,
    JournalNote: _note,
    MessagesRead: _nothing,
    HolderLeft: allocations.release_by_client,
    HolderSeen: allocations.see,
    StepRequested: step_commands.request_step,
    StepEndRequested: step_commands.end,
    StepReported: step_commands.report,
    NodeUp: node_changes.up,
    NodeLost: node_changes.lost,
    Fenced: fencing.fence,
    StartBegun: fencing.begin_start,
    ClaimEnded: claims.end_claim,
    Recovered: recovering.recover,
    NodeAdded: node_changes.add,
    NodeDrained: node_changes.drain,
    NodeResumed: node_changes.resume,
    HealthReported: node_health.apply_health,
    NodeRemoved: node_changes.remove,
    ReservationMade: reserving.make,
    ReservationRemoved: reserving.remove,
    ReservationsDue: lambda txn, _: reservation_lifecycle.apply_due_actions(txn),
}
"""The function for each kind of event. A test compares the table with the union `Event`."""


def reduce(txn: Transaction, event: Event) -> Outcome:
    """Apply one event to the transaction, and return its outcome. Raises UserError if the event is refused."""
    return REDUCERS[type(event)](txn, event)
