"""Chooses and checks the CPUs and GPUs of reservations that take only parts of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.controller.state.reservations import meet, reservations, view_of
from warpdeck.controller.state.state import State
from warpdeck.controller.state.view import why_unavailable
from warpdeck.model import Node, NodeName, Reservation
from warpdeck.policy import ReservationView
from warpdeck.policy.reservations.reservation_allocation import FreeCapacity, parts_of

WHOLE = "a reservation of CPUs or GPUs has no nodes that are replaced"


def with_parts(state: State, wanted: Reservation, now: float) -> Reservation:
    """Return the reservation with the parts of nodes that it requests.

    Raises UserError if a node is unknown, if the flags do not fit, or if the parts are not available.
    """
    asked = wanted.asked
    assert asked is not None
    if wanted.replace:
        raise UserError(WHOLE, "leave out REPLACE and REPLACE_DOWN")
    if wanted.any_nodes and asked.chosen:
        raise UserError("ANY_NODES requires a list of nodes", "name the nodes, or remove ANY_NODES")
    each = view_of(state, wanted)
    others = [
        other for other in reservations(state, now) if other.name != wanted.name and meet(each, other, now)
    ]
    names = sorted(each.nodes) if wanted.nodes is None else wanted.nodes
    unknown = [name for name in names if name not in state.nodes]
    if unknown:
        raise UserError(f"there is no node {unknown[0]}", "see `warpdeck node ls`", code="InvalidNode")
    nodes = [state.nodes[name] for name in names]
    if asked.chosen:
        whole = {name for other in others if not other.parts for name in other.nodes}
        nodes = [node for node in nodes if node.name not in whole and not why_unavailable(state, node)]
    parts = parts_of(asked, [_leftover(state, node, others) for node in nodes])
    return msgspec.structs.replace(
        wanted,
        nodes=tuple(part.node for part in parts),
        parts=parts,
        asked=None,
        node_count=len(parts) if asked.chosen else 0,
    )


def check_parts(state: State, new: ReservationView, there: Sequence[ReservationView]) -> None:
    """Raise UserError if the nodes do not have enough CPUs or GPUs left beside these reservations."""
    if new.parts and new.nodes != {part.node for part in new.parts}:
        raise UserError("the parts do not match the named nodes", "give the total TRES instead of the parts")
    for part in new.parts:
        node = state.nodes.get(part.node)
        left = None if node is None else _leftover(state, node, there)
        if left is None:
            continue
        if part.cpus > left.cpus or any(count > left.gpus.get(name, 0) for name, count in part.gpus):
            has = [each.name for each in there if part.node in each.nodes]
            held = f", because of reservation {has[0]}" if has else ""
            raise UserError(
                f"not enough resources on {part.node} at that time{held}",
                "request less, or another node",
                code="reservation_busy",
            )


def _leftover(state: State, node: Node, others: Iterable[ReservationView]) -> FreeCapacity:
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
