"""The reducer: one event in, changes to the transaction and effects out. The only way the state changes.

Raises UserError where the event is refused; the caller then undoes what the event had begun.
"""

from __future__ import annotations

from typing import assert_never

from warpdeck.controller.events.events import (
    Annotated,
    Cancelled,
    CodeRecorded,
    Event,
    GivenBack,
    HealthTold,
    Heard,
    Held,
    HolderLeft,
    HolderSeen,
    LaunchRefused,
    NodeAdded,
    NodeDrained,
    NodeLost,
    NodeRemoved,
    NodeResumed,
    NodeUp,
    Noted,
    Outcome,
    Planned,
    Released,
    Remarked,
    Reported,
    Requeued,
    ReservationMade,
    ReservationRemoved,
    ReservationsTended,
    Resumed,
    SiteEvent,
    StepAsked,
    StepEndAsked,
    StepReported,
    Submitted,
    Suspended,
    Told,
    Updated,
)
from warpdeck.controller.state.transaction import Transaction

from . import (
    allocations,
    apply_plan,
    code_recording,
    comment_update,
    job_commands,
    node_changes,
    node_health,
    progress,
    reservation_lifecycle,
    reserving,
    step_commands,
    submitting,
    suspension,
    updates,
)


def reduce(txn: Transaction, event: Event) -> Outcome:
    """Applies the event."""
    match event:
        case Submitted():
            return submitting.submit(txn, event)
        case Cancelled():
            return job_commands.cancel(txn, event)
        case Held():
            return job_commands.hold(txn, event)
        case Released():
            return job_commands.release(txn, event)
        case Requeued():
            return job_commands.requeue(txn, event)
        case Suspended():
            return suspension.suspend(txn, event)
        case Resumed():
            return suspension.resume(txn, event)
        case Told():
            return job_commands.tell(txn, event)
        case Updated():
            return updates.update(txn, event)
        case Annotated():
            return comment_update.annotate(txn, event)
        case CodeRecorded():
            return code_recording.record(txn, event)
        case Planned():
            return apply_plan.decide(txn, event)
        case Reported():
            return progress.report(txn, event)
        case GivenBack():
            return progress.give_back(txn, event)
        case LaunchRefused():
            return progress.refuse(txn, event)
        case Remarked():
            return progress.remark(txn, event)
        case Noted():
            txn.log(event.job_id, event.text)
            return Outcome(replan=False)
        case Heard():
            return Outcome(replan=False)
        case HolderLeft():
            return allocations.leave(txn, event)
        case HolderSeen():
            return allocations.see(txn, event)
        case StepAsked():
            return step_commands.ask(txn, event)
        case StepEndAsked():
            return step_commands.end(txn, event)
        case StepReported():
            return step_commands.report(txn, event)
        case _:
            return _of_the_site(txn, event)


def _of_the_site(txn: Transaction, event: SiteEvent) -> Outcome:
    """What is about nodes and reservations."""
    match event:
        case NodeUp():
            return node_changes.up(txn, event)
        case NodeLost():
            return node_changes.lost(txn, event)
        case NodeAdded():
            return node_changes.add(txn, event)
        case NodeDrained():
            return node_changes.drain(txn, event)
        case NodeResumed():
            return node_changes.resume(txn, event)
        case HealthTold():
            return node_health.take(txn, event)
        case NodeRemoved():
            return node_changes.remove(txn, event)
        case ReservationMade():
            return reserving.make(txn, event)
        case ReservationRemoved():
            return reserving.remove(txn, event)
        case ReservationsTended():
            return reservation_lifecycle.tend_all(txn)
        case _:
            assert_never(event)
