"""Lifecycle of a reservation: it ends when unused, its nodes are replaced, and its jobs are ended.

This follows Slurm (reservation.c: job_resv_check, _resv_node_replace). Nodes are replaced only if the
reservation requested a number of nodes, not if it named them. Nodes that accept no jobs are replaced by idle
nodes. With replace "busy", nodes that run jobs are replaced too.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warpdeck.model import JobId, NodeName
from warpdeck.policy.input.site import ReservationView


class ReservationUse(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a reservation."""

    waiting: tuple[JobId, ...] = ()
    running: tuple[tuple[JobId, float], ...] = ()
    """Pairs of a job and the time at which the reservation ends for it; infinite if the job may continue."""


class NodePool(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that a reservation could use instead of its own."""

    able: frozenset[NodeName] = frozenset()
    """Nodes that accept jobs."""
    idle: frozenset[NodeName] = frozenset()
    """Nodes without jobs."""
    spare: tuple[NodeName, ...] = ()
    """Able and idle nodes of the reservation's partition that are in no other reservation, in order of
    preference.
    """


class ReservationActions(msgspec.Struct, frozen=True, kw_only=True):
    """The actions that a reservation needs now."""

    purged: bool = False
    """True if the reservation ends now. A recurring reservation ends only this occurrence."""
    idle_since_unix: float | None = None
    """Time since which the reservation has been unused, to be stored in it; None if it is in use."""
    nodes: frozenset[NodeName] = frozenset()
    """The nodes of the reservation from now on."""
    detached: tuple[JobId, ...] = ()
    """Jobs for which the reservation has ended: pending ones, and running ones that continue."""
    timed_out: tuple[JobId, ...] = ()
    """Running jobs that must be ended."""


def reservation_actions(
    each: ReservationView, use: ReservationUse, pool: NodePool, now: float
) -> ReservationActions:
    """Return the actions that the reservation needs now. Without actions, all values stay as they are."""
    is_over = each.end_unix <= now and not each.repeat and each.float_s is None
    idle_since = _idle_since(each, use, now)
    purged = (
        idle_since is not None and each.purge_after_s is not None and now - idle_since >= each.purge_after_s
    )
    return ReservationActions(
        purged=purged,
        idle_since_unix=None if purged else idle_since,
        nodes=each.nodes if is_over or purged else _nodes(each, pool),
        detached=(*use.waiting, *(_running_on(use) if each.flex else ())) if is_over else (),
        timed_out=tuple(job_id for job_id, closes_unix in use.running if closes_unix <= now),
    )


def _running_on(use: ReservationUse) -> tuple[JobId, ...]:
    return tuple(job_id for job_id, _ in use.running)


def next_deadline_unix(each: ReservationView, use: ReservationUse) -> float:
    """Return the next time at which an action becomes due because time passes; infinite for never."""
    deadlines = [closes_unix for _, closes_unix in use.running]
    if (use.waiting or use.running) and not each.repeat and each.float_s is None:
        deadlines.append(each.end_unix)
    if each.purge_after_s is not None and each.float_s is None:
        since = each.start_unix if each.idle_since_unix is None else each.idle_since_unix + each.purge_after_s
        deadlines.append(since)
    return min(deadlines, default=float("inf"))


def _idle_since(each: ReservationView, use: ReservationUse, now: float) -> float | None:
    """Return the time since which no job has used the reservation, if it is set to end when unused."""
    in_time = each.start_unix <= now < each.end_unix
    if each.purge_after_s is None or each.float_s is not None or not in_time or use.waiting or use.running:
        return None
    return now if each.idle_since_unix is None else each.idle_since_unix


def _nodes(each: ReservationView, pool: NodePool) -> frozenset[NodeName]:
    """Return the nodes of the reservation after unusable nodes were replaced."""
    if not each.node_count or each.static or each.parts:
        return each.nodes
    kept = each.nodes & pool.able
    if each.replace == "busy":
        kept &= pool.idle
    missing = each.node_count - len(kept)
    spare = [name for name in pool.spare if name not in each.nodes]
    if missing <= 0 or not spare or (not each.replace and len(spare) < missing):
        return each.nodes
    return kept | _first(spare, missing) | _first(sorted(each.nodes - kept), missing - len(spare))


def _first(names: Sequence[NodeName], count: int) -> frozenset[NodeName]:
    return frozenset(names[: max(0, count)])
