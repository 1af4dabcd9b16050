"""Handlers that create and remove reservations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import ReservationMade, ReservationRemoved
from warpdeck.controller.state.request_revision import RequestRevisions
from warpdeck.controller.state.reservations import overlap_in_time, reservations, view_of
from warpdeck.controller.state.state import State, replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.controller.state.view import unavailable_reason
from warpdeck.model import JobId, JobState, Node, NodeName, Reservation
from warpdeck.model.created_by_nonce import find_created
from warpdeck.model.reservation import PERIOD_S
from warpdeck.policy import ReservationView
from warpdeck.policy.reservations.reservation_allocation import FreeCapacity, parts_of

MAX_RESERVATIONS = 1000
"""Maximum number of reservations created at run time. Each reservation slows down every pass."""
KEPT_S = 86_400.0
"""Seconds for which a finished reservation stays visible.

It is removed when another reservation is created after that time.
"""


def make(txn: Transaction, event: ReservationMade) -> Outcome:
    """Create a reservation, or replace the reservation of the same name.

    Raises UserError if the reservation names unknown objects or conflicts with another one.
    """
    state, reservation = txn.state, event.reservation
    if find_created(state.created, event.uid, event.request_id) is not None:
        return Outcome(replan=False)
    for each in list(state.reserved.values()):
        if each.end_unix is None or each.repeat or each.float_s is not None:
            continue
        kept_s = 0.0 if each.name == reservation.name and not event.instead else KEPT_S
        if each.end_unix + kept_s <= txn.now:
            txn.drop_reservation(each.name)
    if event.instead:
        _check_made(state, reservation.name)
    if reservation.asked is not None:
        reservation = with_parts(state, reservation, txn.now)
    _check(state, reservation, now=txn.now, instead=event.instead)
    txn.put_reservation(reservation)
    txn.put_created_by_name(reservation.name, uid=event.uid, request_id=event.request_id)
    return Outcome()


def _check_made(state: State, name: str) -> None:
    """Raise UserError if the reservation was not made at run time."""
    if name in state.reserved:
        return
    if any(each.name == name for each in state.site.reservations):
        raise UserError(
            f"reservation {name} is defined in config.toml",
            "remove it there, then run `warpdeck config reload`",
        )
    raise UserError(f"there is no reservation {name}", "see `warpdeck reservations`", code="not_found")


def _check(state: State, reservation: Reservation, *, now: float, instead: bool) -> None:
    others = [each for each in reservations(state, now) if not (instead and each.name == reservation.name)]
    if any(each.name == reservation.name for each in others):
        raise UserError(
            f"reservation {reservation.name} already exists",
            "see `warpdeck reservations`",
            code="reservation_exists",
        )
    if len(state.reserved) >= MAX_RESERVATIONS and not instead:
        raise UserError(
            f"the limit of {MAX_RESERVATIONS:,} reservations is reached",
            "remove some",
            code="reservation_exists",
        )
    unknown = [name for name in reservation.nodes or () if name not in state.nodes]
    if unknown:
        raise UserError(f"there is no node {unknown[0]}", "see `warpdeck node ls`", code="InvalidNode")
    for name, count in reservation.licenses:
        if count > dict(state.site.licenses).get(name, 0):
            raise UserError(
                f"fewer than {count} licenses of {name} exist",
                "see `scontrol show licenses`",
                code="Licenses",
            )
    if reservation.first_cores and reservation.parts:
        raise UserError(
            "reservations of specific cores are not supported",
            "remove FIRST_CORES, or reserve whole nodes",
            code="reservation_cores",
        )
    of_none = reservation.licenses or reservation.watts or reservation.burst_buffer
    if reservation.nodes == () and not (of_none and reservation.any_nodes):
        raise UserError("the reservation has no nodes", "name nodes, or use ALL")
    _check_times(reservation, now=now)
    admitted = (reservation.users, reservation.accounts, reservation.deny_users, reservation.deny_accounts)
    if not (reservation.maintenance or any(admitted)):
        raise UserError(
            "the reservation has no users or accounts",
            "add users or accounts, or the flag MAINT (--maintenance)",
            code="reservation_for_nobody",
        )
    _check_accounts(state, reservation)
    if not (reservation.maintenance or reservation.overlap):
        _check_alone(state, reservation, others, now=now)


def _check_alone(
    state: State, reservation: Reservation, others: list[ReservationView], *, now: float
) -> None:
    """Raise UserError if another reservation conflicts with this one.

    Another reservation conflicts if it contains one of the nodes at that time, or leaves too little of a
    node.
    """
    new = view_of(state, reservation)
    others_there = [each for each in others if new.nodes & each.nodes and overlap_in_time(new, each, now)]
    for each in others_there:
        if not (new.parts and each.parts):
            both = min(new.nodes & each.nodes)
            raise UserError(
                f"{both} belongs to reservation {each.name} at that time",
                "see `warpdeck reservations`",
                code="reservation_overlaps",
            )
    check_parts(state, new, others_there)


def _check_times(reservation: Reservation, *, now: float) -> None:
    if reservation.repeat:
        _check_repeat(reservation)
    elif reservation.float_s is not None:
        pass  # A floating reservation never begins, so it never ends.
    elif reservation.end_unix is not None and reservation.end_unix <= max(now, reservation.start_unix):
        raise UserError(
            "the reservation would already have ended",
            "use a later start or a longer duration",
            code="reservation_over",
        )


def _check_repeat(reservation: Reservation) -> None:
    if reservation.float_s is not None:
        raise UserError(
            "a floating reservation cannot repeat",
            "remove TIME_FLOAT or the repetition",
            code="reservation_floats",
        )
    length_s = None if reservation.end_unix is None else reservation.end_unix - reservation.start_unix
    if length_s is None or length_s <= 0:
        raise UserError("a recurring reservation needs a duration", "add one, such as 2:00:00")
    if length_s > PERIOD_S[reservation.repeat]:
        raise UserError("the reservation would start again before its end", "use a shorter duration")


def _check_accounts(state: State, reservation: Reservation) -> None:
    known = {account.name for account in state.site.accounts}
    unknown = [name for name in reservation.accounts if name not in known]
    if unknown:
        raise UserError(f"there is no account {unknown[0]}", "see `warpdeck share`", code="InvalidAccount")


def remove(txn: Transaction, event: ReservationRemoved) -> Outcome:
    """Remove a reservation. Its waiting jobs are held, or continue to wait without it."""
    _check_made(txn.state, event.name)
    detached = [
        job_id
        for job_id in txn.state.index.in_reservations
        if job_id in txn.state.index.pending and txn.state.jobs[job_id].reservation == event.name
    ]
    detach_jobs(txn, detached, hold=txn.state.reserved[event.name].hold_jobs_after)
    txn.drop_reservation(event.name)
    return Outcome()


def detach_jobs(txn: Transaction, detached: Iterable[JobId], *, hold: bool) -> None:
    """Take jobs out of a reservation that is over. Waiting jobs are held with `hold`."""
    revisions = RequestRevisions()
    for job_id in detached:
        job = txn.state.jobs[job_id]
        name = job.reservation
        if job.request.reservation:
            job = revisions.of(txn, job, replace(job.request, reservation=""))
        waits = job.state is JobState.PENDING
        if hold and waits and not job.held:
            job = replace(job, held=True, lost_reservation=name)
        txn.put_job(replace(job, magnetic_reservation=""))
        txn.log(job.id, f"its reservation {name} has ended" + (", held" if hold and waits else ""))


WHOLE = "a reservation of CPUs or GPUs has no nodes that are replaced"


def with_parts(state: State, reservation: Reservation, now: float) -> Reservation:
    """Return the reservation with the parts of nodes that it requests.

    Raises UserError if a node is unknown, if the flags do not fit, or if the parts are not available.
    """
    requested = reservation.asked
    assert requested is not None
    if reservation.replace:
        raise UserError(WHOLE, "leave out REPLACE and REPLACE_DOWN")
    if reservation.any_nodes and requested.chosen:
        raise UserError("ANY_NODES requires a list of nodes", "name the nodes, or remove ANY_NODES")
    each = view_of(state, reservation)
    others = [
        other
        for other in reservations(state, now)
        if other.name != reservation.name and overlap_in_time(each, other, now)
    ]
    names = sorted(each.nodes) if reservation.nodes is None else reservation.nodes
    unknown = [name for name in names if name not in state.nodes]
    if unknown:
        raise UserError(f"there is no node {unknown[0]}", "see `warpdeck node ls`", code="InvalidNode")
    nodes = [state.nodes[name] for name in names]
    if requested.chosen:
        whole = {name for other in others if not other.parts for name in other.nodes}
        nodes = [node for node in nodes if node.name not in whole and not unavailable_reason(state, node)]
    parts = parts_of(requested, [_free_capacity(state, node, others) for node in nodes])
    return msgspec.structs.replace(
        reservation,
        nodes=tuple(part.node for part in parts),
        parts=parts,
        asked=None,
        node_count=len(parts) if requested.chosen else 0,
    )


def check_parts(state: State, new: ReservationView, others_there: Sequence[ReservationView]) -> None:
    """Raise UserError if the nodes do not have enough CPUs or GPUs left beside these reservations."""
    if new.parts and new.nodes != {part.node for part in new.parts}:
        raise UserError("the parts do not match the named nodes", "give the total TRES instead of the parts")
    for part in new.parts:
        node = state.nodes.get(part.node)
        left = None if node is None else _free_capacity(state, node, others_there)
        if left is None:
            continue
        if part.cpus > left.cpus or any(count > left.gpus.get(name, 0) for name, count in part.gpus):
            has = [each.name for each in others_there if part.node in each.nodes]
            held = f", because of reservation {has[0]}" if has else ""
            raise UserError(
                f"not enough resources on {part.node} at that time{held}",
                "request less, or another node",
                code="reservation_busy",
            )


def _free_capacity(state: State, node: Node, others: Iterable[ReservationView]) -> FreeCapacity:
    """Return the part of the node that the parts of these reservations leave free.

    Reservations of whole nodes are ignored.
    """
    parts = [part for each in others for part in each.parts if part.node == node.name]
    gpus = Counter(gpu.type.lower() for gpu in node.gpus)
    for part in parts:
        gpus.subtract(dict(part.gpus))
    return FreeCapacity(
        node=NodeName(node.name),
        cpus=node.cpus - sum(part.cpus for part in parts),
        gpus={name: max(0, count) for name, count in gpus.items()},
        cpus_each=node.cpus / max(1, len(node.gpus)),
        idle=not state.jobs_on(node.name),
    )
