"""The reducer: one event in, changes to the transaction and effects out. The only way the state changes.

Raises UserError where the event is refused; the caller then undoes what the event had begun.
"""

from __future__ import annotations

from typing import assert_never

from . import (
    allocations,
    annotating,
    decisions,
    health,
    jobs,
    nodes,
    progress,
    recording,
    reserving,
    steps,
    submitting,
    suspension,
    tending,
    updates,
)
from .events import (
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
from .transaction import Transaction


def reduce(txn: Transaction, event: Event) -> Outcome:
    """Applies the event."""
    match event:
        case Submitted():
            return submitting.submit(txn, event)
        case Cancelled():
            return jobs.cancel(txn, event)
        case Held():
            return jobs.hold(txn, event)
        case Released():
            return jobs.release(txn, event)
        case Requeued():
            return jobs.requeue(txn, event)
        case Suspended():
            return suspension.suspend(txn, event)
        case Resumed():
            return suspension.resume(txn, event)
        case Told():
            return jobs.tell(txn, event)
        case Updated():
            return updates.update(txn, event)
        case Annotated():
            return annotating.annotate(txn, event)
        case CodeRecorded():
            return recording.record(txn, event)
        case Planned():
            return decisions.decide(txn, event)
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
            return steps.ask(txn, event)
        case StepEndAsked():
            return steps.end(txn, event)
        case StepReported():
            return steps.report(txn, event)
        case _:
            return _of_the_site(txn, event)


def _of_the_site(txn: Transaction, event: SiteEvent) -> Outcome:
    """What is about nodes and reservations."""
    match event:
        case NodeUp():
            return nodes.up(txn, event)
        case NodeLost():
            return nodes.lost(txn, event)
        case NodeAdded():
            return nodes.add(txn, event)
        case NodeDrained():
            return nodes.drain(txn, event)
        case NodeResumed():
            return nodes.resume(txn, event)
        case HealthTold():
            return health.take(txn, event)
        case NodeRemoved():
            return nodes.remove(txn, event)
        case ReservationMade():
            return reserving.make(txn, event)
        case ReservationRemoved():
            return reserving.remove(txn, event)
        case ReservationsTended():
            return tending.tend_all(txn)
        case _:
            assert_never(event)
