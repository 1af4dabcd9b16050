"""What becomes of a reservation as time goes on: it ends when nobody uses it, its nodes are replaced, its jobs are ended. Pure.

As in Slurm (reservation.c: job_resv_check, _resv_node_replace). Nodes are replaced only where so many were asked for, not where
they were named: those that take no jobs, and with replace "busy" also those on which jobs run, give way to idle ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warpdeck.model import JobId, NodeName
from warpdeck.policy.input.site import ReservationView


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a reservation."""

    waiting: tuple[JobId, ...] = ()
    running: tuple[tuple[JobId, float], ...] = ()
    """Each with the moment at which its reservation is over for it; inf where it may run on."""


class NodePool(msgspec.Struct, frozen=True, kw_only=True):
    """What a reservation may have instead of its nodes."""

    able: frozenset[NodeName] = frozenset()
    """Take jobs."""
    idle: frozenset[NodeName] = frozenset()
    """Have none."""
    spare: tuple[NodeName, ...] = ()
    """Able and idle, of its partition, in no other reservation, in the order in which they are taken."""


class Tended(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done."""

    purged: bool = False
    """It ends now, or for this time if it comes again."""
    idle_since_unix: float | None = None
    """To be kept."""
    nodes: frozenset[NodeName] = frozenset()
    """Its nodes from now on."""
    losers: tuple[JobId, ...] = ()
    """Jobs for which it is over: those that wait, and those that run on."""
    overrun: tuple[JobId, ...] = ()
    """Running jobs that have to end."""


def tend(each: ReservationView, use: Use, pool: NodePool, now: float) -> Tended:
    """What is to be done about it now; with nothing to do it stays as it is."""
    is_over = each.end_unix <= now and not each.repeat and each.float_s is None
    idle_since = _idle_since(each, use, now)
    purged = (
        idle_since is not None and each.purge_after_s is not None and now - idle_since >= each.purge_after_s
    )
    return Tended(
        purged=purged,
        idle_since_unix=None if purged else idle_since,
        nodes=each.nodes if is_over or purged else _nodes(each, pool),
        losers=(*use.waiting, *(_running_on(use) if each.flex else ())) if is_over else (),
        overrun=tuple(job_id for job_id, closes_unix in use.running if closes_unix <= now),
    )


def _running_on(use: Use) -> tuple[JobId, ...]:
    return tuple(job_id for job_id, _ in use.running)


def next_deed_unix(each: ReservationView, use: Use) -> float:
    """When the clock alone makes something to be done about it; inf for never."""
    moments = [closes_unix for _, closes_unix in use.running]
    if (use.waiting or use.running) and not each.repeat and each.float_s is None:
        moments.append(each.end_unix)
    if each.purge_after_s is not None and each.float_s is None:
        since = each.start_unix if each.idle_since_unix is None else each.idle_since_unix + each.purge_after_s
        moments.append(since)
    return min(moments, default=float("inf"))


def _idle_since(each: ReservationView, use: Use, now: float) -> float | None:
    """Since when nobody uses it, as far as it ends for that."""
    in_time = each.start_unix <= now < each.end_unix
    if each.purge_after_s is None or each.float_s is not None or not in_time or use.waiting or use.running:
        return None
    return now if each.idle_since_unix is None else each.idle_since_unix


def _nodes(each: ReservationView, pool: NodePool) -> frozenset[NodeName]:
    """Its nodes, with others in the place of those that are to be replaced."""
    if not each.node_count or each.static or each.parts:
        return each.nodes
    kept = each.nodes & pool.able
    if each.replace == "busy":
        kept &= pool.idle
    missing = each.node_count - len(kept)
    spare = [name for name in pool.spare if name not in each.nodes]
    if missing <= 0 or not spare or (not each.replace and len(spare) < missing):
        return each.nodes
    return kept | _so_many(spare, missing) | _so_many(sorted(each.nodes - kept), missing - len(spare))


def _so_many(names: Sequence[NodeName], count: int) -> frozenset[NodeName]:
    return frozenset(names[: max(0, count)])
