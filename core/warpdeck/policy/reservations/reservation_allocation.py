"""Allocation of CPUs and GPUs of nodes to a partial reservation.

As in Slurm, each named node provides the amount requested of it. Otherwise the first nodes with free
resources provide the amount, or a requested number of nodes provide equal amounts, idle nodes first. If no
CPUs are requested, each GPU brings its share of the node's CPUs. Otherwise other jobs could use all CPUs, and
the reserved GPUs would stay idle.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import NodeName
from warpdeck.model.reservation import PartsRequest, ReservedPart
from warpdeck.notation.filters.reservations import split_evenly


class FreeCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """Resources of a node that other reservations leave free.

    `gpus` is by type in lower case. `cpus_each` is the number of the node's CPUs per GPU.
    """

    node: NodeName
    cpus: int
    gpus: Mapping[str, int] = {}
    cpus_each: float = 0.0
    idle: bool = True


def _busy() -> UserError:
    return UserError(
        "not enough CPUs and GPUs are unreserved at that time",
        "request fewer, or another time; see `warpdeck reservations`",
        code="reservation_busy",
    )


def parts_of(requested: PartsRequest, nodes: Sequence[FreeCapacity]) -> tuple[ReservedPart, ...]:
    """Return the reserved parts, sorted by node. Raises UserError if they are not available."""
    if requested.chosen:
        order = sorted(nodes, key=lambda each: (not each.idle, each.node))
        found = _alike(requested, order) if requested.nodes else _first(requested, order)
    else:
        found = _named(requested, nodes)
    return tuple(sorted(found, key=lambda part: part.node))


def _named(requested: PartsRequest, nodes: Sequence[FreeCapacity]) -> list[ReservedPart]:
    """Reserve the requested part of each of these nodes."""
    if len(requested.cpus) > len(nodes):
        raise _busy()
    if requested.cpus and len(requested.cpus) != len(nodes):
        raise UserError(
            "the number of CPU counts differs from the number of nodes",
            "give one count per node, separated by commas",
            code="reservation_counts",
        )
    gpus = split_evenly(requested.gpus, len(nodes))
    cpus = requested.cpus or (0,) * len(nodes)
    parts = [
        _part(each, cpus[at], gpus[at], requested.gpu_type)
        for at, each in enumerate(nodes)
        if cpus[at] or gpus[at]
    ]
    return _all(parts, len(nodes))


def _alike(requested: PartsRequest, nodes: Sequence[FreeCapacity]) -> list[ReservedPart]:
    """Take equal amounts from the requested number of nodes."""
    counts = (
        requested.cpus
        if len(requested.cpus) == requested.nodes
        else split_evenly(sum(requested.cpus), requested.nodes)
    )
    gpus, left, found = split_evenly(requested.gpus, requested.nodes), list(nodes), list[ReservedPart]()
    for cpus, count in zip(counts, gpus, strict=True):
        part = next((part for each in left if (part := _part(each, cpus, count, requested.gpu_type))), None)
        if part is None:
            raise _busy()
        left = [each for each in left if each.node != part.node]
        found.append(part)
    return found


def _first(requested: PartsRequest, nodes: Sequence[FreeCapacity]) -> list[ReservedPart]:
    """Take everything from one node if possible, else from as many nodes as needed, in this order."""
    cpus, gpus = sum(requested.cpus), requested.gpus
    if gpus:
        whole = next((part for each in nodes if (part := _part(each, cpus, gpus, requested.gpu_type))), None)
        if whole is not None:
            return [whole]
    found = []
    for each in nodes:
        here = min(gpus, _count(each, requested.gpu_type))
        # Requested CPUs are distributed in proportion to the GPUs.
        share = -(-cpus * here // gpus) if gpus else cpus
        part = _part(each, min(each.cpus, share), here, requested.gpu_type)
        if part is not None and (here or not requested.gpus):
            found.append(part)
            cpus, gpus = cpus - part.cpus if requested.cpus else 0, gpus - here
        if cpus <= 0 and gpus <= 0:
            return found
    raise _busy()


def _part(each: FreeCapacity, cpus: int, gpus: int, gpu_type: str) -> ReservedPart | None:
    """Return a part of this size; None if the node has too little left, or if nothing is requested of it."""
    cpus = cpus or (max(1, round(gpus * each.cpus_each)) if gpus else 0)
    if cpus > each.cpus or gpus > _count(each, gpu_type) or not cpus:
        return None
    taken, left = [], gpus
    for name, count in sorted(each.gpus.items(), key=lambda pair: (-pair[1], pair[0])):
        some = min(left, count) if gpu_type in ("", name) else 0
        if some:
            taken.append((name, some))
            left -= some
    return ReservedPart(node=each.node, cpus=cpus, gpus=tuple(sorted(taken)))


def _count(each: FreeCapacity, gpu_type: str) -> int:
    return sum(count for name, count in each.gpus.items() if gpu_type in ("", name))


def _all(parts: Iterable[ReservedPart | None], count: int) -> list[ReservedPart]:
    found = [part for part in parts if part is not None]
    if len(found) < count:
        raise _busy()
    return found
