"""Reservations: those of the configuration beside those that admins make at run time. Handlers of the reducer.

Jobs that run there are left alone: they end within their limits, and a reservation begins on what is free of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from warpdeck.errors import UserError
from warpdeck.model import Reservation
from warpdeck.model.reservation import PERIOD_S
from warpdeck.policy import PendingJob, ReservationView, RunningJob

from .events import Outcome, ReservationMade, ReservationRemoved
from .recurrence import occurrences

if TYPE_CHECKING:
    from .state import State
    from .transaction import Transaction

MAX_RESERVATIONS = 1000
"""Made at run time: each costs every pass."""
FURTHER = 7
"""Occurrences after the next one with which a new reservation may not overlap, and after all that is planned: a week of a
daily one."""
MAX_OCCURRENCES = 64
"""Of one reservation that the planner minds: over two days of an hourly one, two months of a daily one. Each costs every pass."""
KEPT_S = 86_400.0
"""One that is over can still be seen for so long, and goes when another is made."""


def reservations(state: State, now: float) -> tuple[ReservationView, ...]:
    """All of them, by name. One that comes again is told as it is now, or will be next."""
    made = [
        *state.site.reservations_on(state.nodes),
        *(_view(state, each) for each in state.reserved.values()),
    ]
    return tuple(sorted((_next(each, now) for each in made), key=lambda each: each.name))


def windows(
    state: State, now: float, *, running: Iterable[RunningJob], pending: Iterable[PendingJob]
) -> tuple[ReservationView, ...]:
    """The same for the planner, with further occurrences of those that come again: nobody may run into them.

    As many as until all that runs has ended and the longest that waits could have run, and some more; the last one has no end:
    nobody is promised anything behind it, rather than a time at which the reservation is in the way.
    """
    there = reservations(state, now)
    if not any(each.repeat for each in there):
        return there
    until_unix = _horizon_unix(now, running, pending, state.site.settings.default_time_s)
    found: list[ReservationView] = []
    for each in there:
        *before, last = _occurrences(each, now, until_unix=until_unix)
        found += [*before, msgspec.structs.replace(last, end_unix=math.inf) if each.repeat else last]
    return tuple(sorted(found, key=lambda each: each.name))


def _horizon_unix(
    now: float, running: Iterable[RunningJob], pending: Iterable[PendingJob], default_time_s: int | None
) -> float:
    """When all that runs has ended and the longest that waits has run after it, as far as they have limits."""
    ends = max((job.ends_by_unix for job in running if job.ends_by_unix is not None), default=now)
    longest = max((job.time_limit_s or 0 for job in pending), default=0)
    return max(now, ends) + max(longest, default_time_s or 0)


def _occurrences(each: ReservationView, now: float, *, until_unix: float) -> list[ReservationView]:
    """The present or next one and, where it comes again, those until then and FURTHER after it."""
    first = _next(each, now)
    if not each.repeat:
        return [first]
    length_s, found, beyond = first.end_unix - first.start_unix, [first], 0
    for begin in itertools.islice(_begins(first, first.start_unix), 1, MAX_OCCURRENCES):
        again = {"name": f"{each.name} (+{len(found)})", "start_unix": begin, "end_unix": begin + length_s}
        found.append(msgspec.structs.replace(each, **again))
        beyond += begin > until_unix
        if beyond >= FURTHER:
            break
    return found


def _next(each: ReservationView, now: float) -> ReservationView:
    """Its occurrence that is not over yet."""
    if not each.repeat or each.end_unix > now:
        return each
    length_s = each.end_unix - each.start_unix
    begin = next(begin for begin in _begins(each, now) if begin + length_s > now)
    return msgspec.structs.replace(each, start_unix=begin, end_unix=begin + length_s)


def _begins(each: ReservationView, after_unix: float) -> Iterator[float]:
    return occurrences(each.start_unix, each.repeat, after_unix=after_unix)


def _view(state: State, made: Reservation) -> ReservationView:
    return ReservationView(
        name=made.name,
        nodes=frozenset(state.nodes if made.nodes is None else made.nodes),
        start_unix=made.start_unix,
        end_unix=math.inf if made.end_unix is None else made.end_unix,
        users=frozenset(made.users),
        accounts=frozenset(made.accounts),
        maintenance=made.maintenance,
        overlap=made.overlap,
        repeat=made.repeat,
    )


def make(txn: Transaction, event: ReservationMade) -> Outcome:
    """A new reservation. Raises UserError where it names what is not there, or gets into another's way."""
    state, wanted = txn.state, event.reservation
    for each in list(state.reserved.values()):
        if each.end_unix is not None and not each.repeat and each.end_unix + KEPT_S < txn.now:
            txn.drop_reservation(each.name)
    if event.instead:
        remove(txn, ReservationRemoved(name=wanted.name))
    _check(state, wanted, now=txn.now)
    txn.put_reservation(wanted)
    return Outcome()


def _check(state: State, wanted: Reservation, *, now: float) -> None:
    there = [
        window for each in reservations(state, now) for window in _occurrences(each, now, until_unix=now)
    ]
    if any(each.name == wanted.name for each in there):
        raise UserError(f"there is a reservation {wanted.name} already", "see `warpdeck reservations`")
    if len(state.reserved) >= MAX_RESERVATIONS:
        raise UserError(f"there are {MAX_RESERVATIONS:,} reservations already", "remove some")
    unknown = [name for name in wanted.nodes or () if name not in state.nodes]
    if unknown:
        raise UserError(f"there is no node {unknown[0]}", "see `warpdeck node ls`")
    if wanted.nodes == ():
        raise UserError("the reservation names no node", "name some, or ALL")
    if wanted.repeat:
        _check_repeat(wanted)
    elif wanted.end_unix is not None and wanted.end_unix <= max(now, wanted.start_unix):
        raise UserError("the reservation would be over before it begins", "give a later start or duration")
    if not (wanted.maintenance or wanted.users or wanted.accounts):
        raise UserError(
            "a reservation is for somebody or for maintenance",
            "give users or accounts, or the flag MAINT (--maintenance)",
        )
    _check_accounts(state, wanted)
    if not (wanted.maintenance or wanted.overlap):
        _check_alone(state, wanted, there, now=now)


def _check_alone(state: State, wanted: Reservation, there: list[ReservationView], *, now: float) -> None:
    """That no other has one of its nodes in its time."""
    for new, each in itertools.product(_occurrences(_view(state, wanted), now, until_unix=now), there):
        if max(new.start_unix, each.start_unix) < min(new.end_unix, each.end_unix):
            both = sorted(new.nodes & each.nodes)
            if both:
                raise UserError(
                    f"reservation {each.name} has {both[0]} at that time", "see `warpdeck reservations`"
                )


def _check_repeat(wanted: Reservation) -> None:
    length_s = None if wanted.end_unix is None else wanted.end_unix - wanted.start_unix
    if length_s is None or length_s <= 0:
        raise UserError("a reservation that comes again needs a duration", "give one, such as 2:00:00")
    if length_s > PERIOD_S[wanted.repeat]:
        raise UserError("the reservation would come again before it is over", "give a shorter duration")


def _check_accounts(state: State, wanted: Reservation) -> None:
    known = {account.name for account in state.site.accounts}
    unknown = [name for name in wanted.accounts if name not in known]
    if unknown:
        raise UserError(f"there is no account {unknown[0]}", "see `warpdeck share`")


def remove(txn: Transaction, event: ReservationRemoved) -> Outcome:
    """Its nodes are everybody's again; jobs that wait for it say that it is gone."""
    state = txn.state
    if event.name not in state.reserved:
        if any(each.name == event.name for each in state.site.reservations):
            raise UserError(
                f"reservation {event.name} stands in config.toml",
                "take it out there, then `warpdeck config reload`",
            )
        raise UserError(
            f"there is no reservation {event.name}", "see `warpdeck reservations`", code="not_found"
        )
    txn.drop_reservation(event.name)
    return Outcome()
