"""Handler for the lifecycle of reservations.

`policy.reservations.lifecycle` determines the actions, and this module applies them. The reservation manager
checks reservations shortly after a change, and when the clock alone makes an action due. On a site without
reservations nothing is checked.
"""

from __future__ import annotations

import itertools
import math

import msgspec

from warpdeck.controller.events.effects import Effect, Outcome
from warpdeck.controller.state.reservations import ends_for, next_begin_unix, reservations, taken_nodes
from warpdeck.controller.state.state import State
from warpdeck.controller.state.transaction import Transaction
from warpdeck.controller.state.view import unavailable_reason
from warpdeck.model import Job, JobId, JobState
from warpdeck.policy import ReservationView
from warpdeck.policy.reservations.lifecycle import (
    NodePool,
    ReservationActions,
    ReservationUse,
    next_deadline_unix,
    reservation_actions,
)
from warpdeck.policy.resources.features import with_features

from .job_commands import end_job
from .reserving import detach_jobs


def has_reservations(state: State) -> bool:
    """Return whether there are reservations to check."""
    return bool(state.reserved or state.site.reservations or state.index.in_reservations)


def is_due(state: State, now: float) -> bool:
    """Return whether an action is due."""
    return any(actions != _no_actions(each) for each, actions in _actions(state, now)) or bool(
        _orphans(state, now)
    )


def next_deadline(state: State, now: float) -> float:
    """Return the next time at which the clock alone makes an action due; infinity if there is none."""
    uses = _uses(state)
    deadlines = (
        next_deadline_unix(each, uses.get(each.name, ReservationUse())) for each in reservations(state, now)
    )
    return min((at for at in deadlines if at > now), default=math.inf)


def apply_due_actions(txn: Transaction) -> Outcome:
    """Apply all actions that are due."""
    state, now = txn.state, txn.now
    effects: list[Effect] = []
    for each, actions in list(_actions(state, now)):
        detach_jobs(txn, actions.detached, hold=each.hold_jobs_after)
        for job_id in actions.timed_out:
            txn.log(job_id, f"its reservation {each.name} has ended, and so has its time limit")
            effects += end_job(txn, state.jobs[job_id], "timeout")
        if each.name in state.reserved and actions != _no_actions(each):
            _store(txn, each, actions)
    detach_jobs(txn, _orphans(state, now), hold=True)
    return Outcome(effects=tuple(effects))


def _store(txn: Transaction, each: ReservationView, actions: ReservationActions) -> None:
    """Store the reservation with its changes, or remove it."""
    made = txn.state.reserved[each.name]
    if actions.purged and not made.repeat:
        txn.drop_reservation(made.name)
        return
    if actions.purged:
        begin = next_begin_unix(each, txn.now)
        length_s = each.end_unix - each.start_unix
        made = msgspec.structs.replace(made, start_unix=begin, end_unix=begin + length_s)
    if actions.nodes != each.nodes:
        made = msgspec.structs.replace(made, nodes=tuple(sorted(actions.nodes)))
    txn.put_reservation(msgspec.structs.replace(made, idle_since_unix=actions.idle_since_unix))


def _actions(state: State, now: float) -> list[tuple[ReservationView, ReservationActions]]:
    uses = _uses(state)
    return [
        (each, reservation_actions(each, uses.get(each.name, ReservationUse()), _pool(state, each, now), now))
        for each in reservations(state, now)
    ]


def _no_actions(each: ReservationView) -> ReservationActions:
    return ReservationActions(nodes=each.nodes, idle_since_unix=each.idle_since_unix)


def _uses(state: State) -> dict[str, ReservationUse]:
    """Return the jobs of each reservation, by the name of the reservation."""
    jobs = sorted((state.jobs[job_id] for job_id in state.index.in_reservations), key=_reservation)
    return {name: _use(state, list(some)) for name, some in itertools.groupby(jobs, key=_reservation)}


def _reservation(job: Job) -> str:
    return job.reservation


def _use(state: State, jobs: list[Job]) -> ReservationUse:
    running = [job for job in jobs if job.id not in state.index.pending]
    return ReservationUse(
        waiting=tuple(job.id for job in jobs if job.id in state.index.pending),
        running=tuple(
            (job.id, ends_for(state, job) if job.state is JobState.RUNNING else math.inf) for job in running
        ),
    )


def _orphans(state: State, now: float) -> list[JobId]:
    """Return the waiting jobs of reservations that were removed from the configuration."""
    known = {each.name for each in reservations(state, now)}
    return [
        job_id
        for job_id in state.index.in_reservations
        if job_id in state.index.pending and state.jobs[job_id].reservation not in known
    ]


def _pool(state: State, each: ReservationView, now: float) -> NodePool:
    """Return the nodes that may replace nodes of the reservation.

    The pool is empty if the nodes of the reservation are never replaced.
    """
    if not each.node_count or each.static or each.parts:
        return NodePool()
    able = frozenset(name for name, node in state.nodes.items() if not unavailable_reason(state, node))
    if each.features:
        able &= with_features(
            each.features, {name: facts.features for name, facts in state.site.nodes.items()}
        )
    idle = frozenset(name for name in state.nodes if not state.jobs_on(name))
    taken = taken_nodes(state, each, now)
    table = next((part for part in state.site.partitions if part.name == each.partition), None)
    inside = able if table is None or table.nodes is None else table.nodes
    return NodePool(able=able, idle=idle, spare=tuple(sorted((able & idle & inside) - taken)))
