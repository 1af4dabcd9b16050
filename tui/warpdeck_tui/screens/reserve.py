"""The form that creates or changes a reservation."""

from __future__ import annotations

import shlex
import time
from typing import Any, ClassVar

import msgspec
from textual.binding import BindingType

from warpdeck.base.errors import UserError
from warpdeck.model import Reservation
from warpdeck.notation.filters.reservation_flags import FLAGS
from warpdeck.notation.filters.reservations import (
    ReservationText,
    create_command,
    parse_reservation,
    reservation_text,
)
from warpdeck.protocol import requests
from warpdeck_tui.data.action_log import Undo
from warpdeck_tui.data.server_requests import Core
from warpdeck_tui.screens.shared.form_dialog import FormDialog
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.form_fields import FormField, FormValues

UNSAID = frozenset({"FIRST_CORES", "IGNORE_JOBS", "PART_NODES", "REPLACE", "REPLACE_DOWN", "STATIC"})
"""Flags that the form does not mention: they always apply, or concern nodes that are not named."""
FIELDS = (
    FormField("name", "name", "name"),
    FormField("nodes", "nodes", "gpu[01-04], or ALL"),
    FormField("start", "start", "now, now+2hours, 2026-03-02T09:00"),
    FormField("duration", "duration", "3:00:00; empty: no end"),
    FormField("users", "users", "ann,bob"),
    FormField("accounts", "accounts", "teaching"),
    FormField("flags", "flags", " ".join(flag for flag in FLAGS if flag not in UNSAID)),
    FormField("tres", "tres", "cpu=16,gres/gpu=2; empty: whole nodes"),
    FormField("licenses", "licenses", "matlab:2"),
)
"""The fields of a ReservationText."""


class Reserve(FormDialog):
    """The form. Its result is the reservation's name once it exists, or "" if the user canceled."""

    place = "reserve"
    BINDINGS: ClassVar[list[BindingType]] = bindings("reserve")

    def __init__(self, before: dict[str, Any] | None = None) -> None:
        """Create the form. `before` is the row of the reservation to change, or None for a new one."""
        self._before = before
        self._instead = before is not None
        wish = ReservationText("") if before is None else reservation_text(before)
        super().__init__(
            f"Edit reservation {wish.name}" if self._instead else "New reservation",
            tuple(field._replace(is_fixed=self._instead and field.id == "name") for field in FIELDS),
            {field.id: getattr(wish, field.id) for field in FIELDS},
        )

    def command(self, values: FormValues) -> str:
        return f"$ {create_command(ReservationText(**values), instead=self._instead)}"

    async def save(self, values: FormValues) -> str:
        wish, before, core = ReservationText(**values), self._before, self.deck.core
        await core.ask(reservation_request(wish, before, instead=self._instead))
        back = (
            reserving(core, before, instead=True)
            if before is not None
            else Undo(
                f"warpdeck reservation rm {shlex.quote(wish.name)}",
                lambda: core.ask(requests.ReservationRemove(name=wish.name)),
            )
        )
        done = f"{'Changed' if self._instead else 'Created'} reservation {printable(wish.name)}"
        self.deck.tell_done(done, create_command(wish, instead=self._instead), back)
        return wish.name


def reservation_request(
    wish: ReservationText, before: dict[str, Any] | None, *, instead: bool
) -> requests.ReservationMake:
    """Return the request that makes the reservation. Raises UserError if it is invalid."""
    fields = parse_reservation(wish, time.time(), before=before)
    try:
        reservation = msgspec.convert(fields, Reservation)
    except msgspec.ValidationError as error:
        name = fields.get("name")
        raise UserError(f"invalid reservation {name!r}: {error}", "see `warpdeck reservation`") from error
    return requests.ReservationMake(reservation=reservation, instead=instead)


def reserving(core: Core, before: dict[str, Any], *, instead: bool) -> Undo:
    """Return the undo of a changed or removed reservation, which restores it from its former row `before`."""
    wish = reservation_text(before)

    async def reserve() -> None:
        await core.ask(reservation_request(wish, before, instead=instead))

    return Undo(create_command(wish, instead=instead), reserve)
