"""Reservations: those of the configuration beside those that admins make at run time. Handlers of the reducer.

Jobs that run there are left alone: they end within their limits, and a reservation begins on what is free of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from warpdeck.errors import UserError
from warpdeck.model import Reservation
from warpdeck.policy import ReservationView

from .events import Outcome, ReservationMade, ReservationRemoved

if TYPE_CHECKING:
    from .state import State, Transaction

MAX_RESERVATIONS = 1000
"""Made at run time: each costs every pass."""
KEPT_S = 86_400.0
"""One that is over can still be seen for so long, and goes when another is made."""


def reservations(state: State) -> tuple[ReservationView, ...]:
    """All of them, by name."""
    made = [_view(state, each) for each in state.reserved.values()]
    if not made:
        return state.site.reservations_on(state.nodes)
    return tuple(sorted([*state.site.reservations_on(state.nodes), *made], key=lambda each: each.name))


def _view(state: State, made: Reservation) -> ReservationView:
    return ReservationView(
        name=made.name,
        nodes=frozenset(state.nodes if made.nodes is None else made.nodes),
        start_unix=made.start_unix,
        end_unix=math.inf if made.end_unix is None else made.end_unix,
        users=frozenset(made.users),
        accounts=frozenset(made.accounts),
        maintenance=made.maintenance,
    )


def make(txn: Transaction, event: ReservationMade) -> Outcome:
    """A new reservation. Raises UserError where it names what is not there, or gets into another's way."""
    state, wanted = txn.state, event.reservation
    for each in list(state.reserved.values()):
        if each.end_unix is not None and each.end_unix + KEPT_S < txn.now:
            txn.drop_reservation(each.name)
    _check(state, wanted, now=txn.now)
    txn.put_reservation(wanted)
    return Outcome()


def _check(state: State, wanted: Reservation, *, now: float) -> None:
    there = reservations(state)
    if any(each.name == wanted.name for each in there):
        raise UserError(f"there is a reservation {wanted.name} already", "see `warpdeck reservations`")
    if len(state.reserved) >= MAX_RESERVATIONS:
        raise UserError(f"there are {MAX_RESERVATIONS:,} reservations already", "remove some")
    unknown = [name for name in wanted.nodes or () if name not in state.nodes]
    if unknown:
        raise UserError(f"there is no node {unknown[0]}", "see `warpdeck node ls`")
    if wanted.nodes == ():
        raise UserError("the reservation names no node", "name some, or ALL")
    if wanted.end_unix is not None and wanted.end_unix <= max(now, wanted.start_unix):
        raise UserError("the reservation would be over before it begins", "give a later start or duration")
    if wanted.maintenance == bool(wanted.users or wanted.accounts):
        raise UserError(
            "a reservation is either for somebody or for maintenance",
            "give --users and --accounts, or --maintenance",
        )
    _check_accounts(state, wanted)
    new = _view(state, wanted)
    for each in there:
        if max(new.start_unix, each.start_unix) < min(new.end_unix, each.end_unix):
            both = sorted(new.nodes & each.nodes)
            if both:
                raise UserError(
                    f"reservation {each.name} has {both[0]} at that time", "see `warpdeck reservations`"
                )


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
