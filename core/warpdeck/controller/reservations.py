"""Reservations: those of the configuration beside those that admins make at run time. Handlers of the reducer.

Jobs that run there are left alone: they end within their limits, and a reservation begins on what is free of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from warpdeck.errors import UserError
from warpdeck.model import Reservation
from warpdeck.model.reservation import PERIOD_S
from warpdeck.policy import ReservationView

from .events import Outcome, ReservationMade, ReservationRemoved
from .recurrence import occurrences

if TYPE_CHECKING:
    from .state import State, Transaction

MAX_RESERVATIONS = 1000
"""Made at run time: each costs every pass."""
FURTHER = 7
"""Occurrences after the next one that the planner minds: a week of a daily one."""
KEPT_S = 86_400.0
"""One that is over can still be seen for so long, and goes when another is made."""


def reservations(state: State, now: float) -> tuple[ReservationView, ...]:
    """All of them, by name. One that comes again is told as it is now, or will be next."""
    made = [
        *state.site.reservations_on(state.nodes),
        *(_view(state, each) for each in state.reserved.values()),
    ]
    return tuple(sorted((_next(each, now) for each in made), key=lambda each: each.name))


def windows(state: State, now: float) -> tuple[ReservationView, ...]:
    """The same for the planner, with further occurrences of those that come again: nobody may run into them."""
    found = itertools.chain.from_iterable(_occurrences(each, now) for each in reservations(state, now))
    return tuple(sorted(found, key=lambda each: each.name))


def _occurrences(each: ReservationView, now: float) -> list[ReservationView]:
    """The present or next one and, where it comes again, the FURTHER after it."""
    first = _next(each, now)
    if not each.repeat:
        return [first]
    length_s, begins = first.end_unix - first.start_unix, _begins(first, first.start_unix)
    further = (
        {"name": f"{each.name} (+{number})", "start_unix": begin, "end_unix": begin + length_s}
        for number, begin in enumerate(itertools.islice(begins, 1, 1 + FURTHER), 1)
    )
    return [first, *(msgspec.structs.replace(each, **again) for again in further)]


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
        repeat=made.repeat,
    )


def make(txn: Transaction, event: ReservationMade) -> Outcome:
    """A new reservation. Raises UserError where it names what is not there, or gets into another's way."""
    state, wanted = txn.state, event.reservation
    for each in list(state.reserved.values()):
        if each.end_unix is not None and not each.repeat and each.end_unix + KEPT_S < txn.now:
            txn.drop_reservation(each.name)
    _check(state, wanted, now=txn.now)
    txn.put_reservation(wanted)
    return Outcome()


def _check(state: State, wanted: Reservation, *, now: float) -> None:
    there = windows(state, now)
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
    if wanted.maintenance == bool(wanted.users or wanted.accounts):
        raise UserError(
            "a reservation is either for somebody or for maintenance",
            "give --users and --accounts, or --maintenance",
        )
    _check_accounts(state, wanted)
    for new, each in itertools.product(_occurrences(_view(state, wanted), now), there):
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
    if length_s >= PERIOD_S[wanted.repeat]:
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
