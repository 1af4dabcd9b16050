"""Reservations at a given time, both from the configuration and created by administrators at run time.

A reservation does not affect jobs that already run on its nodes. They end within their time limits, and the
reservation begins with the resources that are free.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from warpdeck.model import Job, NodeName, Reservation
from warpdeck.model.reservation import ReservationSpec
from warpdeck.policy import PendingJob, ReservationView, RunningJob

from .recurrence import occurrences
from .tables import StateTables

EXTRA_OCCURRENCES = 7
"""Number of occurrences after the planning horizon that are considered: one week of a daily reservation.

A new reservation must not overlap this many occurrences after the next occurrence of another reservation.
"""
MAX_OCCURRENCES = 64
"""Maximum number of occurrences of one reservation in the planner's view.

Each occurrence slows down every pass. The maximum covers over two days of an hourly reservation and two
months of a daily one.
"""
AS_STORED = (*ReservationSpec.__struct_fields__, "idle_since_unix")
"""Fields that the planner's view copies unchanged from a reservation."""


def reservations(state: StateTables, now: float) -> tuple[ReservationView, ...]:
    """Return all reservations, ordered by name.

    For a recurring reservation, this is its present or next occurrence.
    """
    made = [
        *state.site.reservations_on(state.nodes),
        *(view_of(state, each) for each in state.reserved.values()),
    ]
    parents = {account.name: account.parent for account in state.site.accounts if account.parent}
    if parents:
        made = [_with_children(each, parents) for each in made]
    return tuple(sorted((_next(each, now) for each in made), key=lambda each: each.name))


def _with_children(each: ReservationView, parents: Mapping[str, str]) -> ReservationView:
    """Return the reservation with the child accounts of the accounts that it names."""
    if not (each.accounts or each.deny_accounts):
        return each
    return msgspec.structs.replace(
        each, accounts_below=_below(each.accounts, parents), deny_below=_below(each.deny_accounts, parents)
    )


def _below(names: frozenset[str], parents: Mapping[str, str]) -> frozenset[str]:
    found, more = set[str](), set(names)
    while more:
        more = {name for name, parent in parents.items() if parent in more} - found
        found |= more
    return frozenset(found)


def ends_for(state: StateTables, job: Job) -> float:
    """Return the time at which a job must end because its reservation ends; infinity if it may continue."""
    made, begun = state.reserved.get(job.reservation), job.start_at_unix
    each = (
        view_of(state, made)
        if made is not None
        else next(
            (each for each in state.site.reservations_on(state.nodes) if each.name == job.reservation), None
        )
    )
    if each is None or begun is None or each.flex:
        return math.inf
    return _next(each, begun).end_unix


def windows(
    state: StateTables, now: float, *, running: Iterable[RunningJob], pending: Iterable[PendingJob]
) -> tuple[ReservationView, ...]:
    """Return all reservations for the planner, including further occurrences of the recurring ones.

    No job may run into these occurrences. They cover the time until all running jobs have ended and the
    longest waiting job could have run, plus `EXTRA_OCCURRENCES` more. The last occurrence has no end. The
    planner therefore reserves no start after it, because occurrences after the last one are not listed and
    could conflict with that start.
    """
    current = reservations(state, now)
    if not any(each.repeat for each in current):
        return current
    until_unix = _horizon_unix(now, running, pending, state.site.settings.default_time_s)
    found: list[ReservationView] = []
    for each in current:
        *before, last = occurrences_of(each, now, until_unix=until_unix)
        found += [*before, msgspec.structs.replace(last, end_unix=math.inf) if each.repeat else last]
    return tuple(sorted(found, key=lambda each: each.name))


def _horizon_unix(
    now: float, running: Iterable[RunningJob], pending: Iterable[PendingJob], default_time_s: int | None
) -> float:
    """Return the time at which all running jobs have ended and the longest waiting job could have run after
    them.

    Only jobs with a time limit count.
    """
    ends = max((job.ends_by_unix for job in running if job.ends_by_unix is not None), default=now)
    longest = max((job.time_limit_s or 0 for job in pending), default=0)
    return max(now, ends) + max(longest, default_time_s or 0)


def occurrences_of(each: ReservationView, now: float, *, until_unix: float) -> list[ReservationView]:
    """Return the present or next occurrence and, for a recurring reservation, the later ones.

    The list contains the occurrences up to `until_unix` and `EXTRA_OCCURRENCES` after it, but at most
    `MAX_OCCURRENCES`.
    """
    first = _next(each, now)
    if not each.repeat:
        return [first]
    length_s, found, after_horizon = first.end_unix - first.start_unix, [first], 0
    for begin in itertools.islice(_begins(first, first.start_unix), 1, MAX_OCCURRENCES):
        occurrence = {
            "name": f"{each.name} (+{len(found)})",
            "start_unix": begin,
            "end_unix": begin + length_s,
        }
        found.append(msgspec.structs.replace(each, **occurrence))
        after_horizon += begin > until_unix
        if after_horizon >= EXTRA_OCCURRENCES:
            break
    return found


def _next(each: ReservationView, now: float) -> ReservationView:
    """Return the first occurrence that has not ended yet."""
    if each.float_s is not None:
        begin = now + each.float_s
        return msgspec.structs.replace(
            each, start_unix=begin, end_unix=begin + (each.end_unix - each.start_unix)
        )
    if not each.repeat or each.end_unix > now:
        return each
    length_s = each.end_unix - each.start_unix
    begin = next(begin for begin in _begins(each, now) if begin + length_s > now)
    return msgspec.structs.replace(each, start_unix=begin, end_unix=begin + length_s)


def _begins(each: ReservationView, after_unix: float) -> Iterator[float]:
    return occurrences(each.start_unix, each.repeat, after_unix=after_unix)


def view_of(state: StateTables, made: Reservation) -> ReservationView:
    return ReservationView(
        nodes=frozenset(state.nodes if made.nodes is None else made.nodes),
        start_unix=made.start_unix,
        end_unix=math.inf if made.end_unix is None else made.end_unix,
        users=frozenset(made.users),
        accounts=frozenset(made.accounts),
        deny_users=frozenset(made.deny_users),
        deny_accounts=frozenset(made.deny_accounts),
        **{name: getattr(made, name) for name in AS_STORED},
    )


def taken_nodes(state: StateTables, each: ReservationView, now: float) -> frozenset[NodeName]:
    """Return the nodes that other reservations hold during the time of this one."""
    others = (other for other in reservations(state, now) if other.name != each.name)
    return frozenset().union(*(other.nodes for other in others if overlap_in_time(each, other, now)))


def overlap_in_time(one: ReservationView, other: ReservationView, now: float) -> bool:
    """Return whether any considered occurrences of two reservations overlap in time."""
    theirs = occurrences_of(other, now, until_unix=now)
    return any(
        max(mine.start_unix, each.start_unix) < min(mine.end_unix, each.end_unix)
        for mine in occurrences_of(one, now, until_unix=now)
        for each in theirs
    )


def next_begin_unix(each: ReservationView, now: float) -> float:
    """Return the next start of a recurring reservation."""
    return next(begin for begin in _begins(each, now) if begin > now)
