"""The form that creates or changes a reservation."""

from __future__ import annotations

import shlex
import time
from typing import Any, ClassVar, cast

import msgspec
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from warpdeck.base.errors import UserError
from warpdeck.model import Reservation
from warpdeck.notation.filters.reservation_flags import FLAGS
from warpdeck.notation.filters.reservations import Wish, parse_wish, wish_command, wish_of
from warpdeck.protocol import requests
from warpdeck_tui.data.action_log import Undo
from warpdeck_tui.data.connection import Core
from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.shared.deck_screen import Arrives
from warpdeck_tui.screens.shared.key_line import DialogKeys
from warpdeck_tui.table.bindings import bindings

UNSAID = frozenset({"FIRST_CORES", "IGNORE_JOBS", "PART_NODES", "REPLACE", "REPLACE_DOWN", "STATIC"})
"""Flags that the form does not mention: they always apply, or concern nodes that are not named."""
HINTS = {
    "name": "name",
    "nodes": "gpu[01-04], or ALL",
    "start": "now, now+2hours, 2026-03-02T09:00",
    "duration": "3:00:00; empty: no end",
    "users": "ann,bob",
    "accounts": "teaching",
    "flags": " ".join(flag for flag in FLAGS if flag not in UNSAID),
    "tres": "cpu=16,gres/gpu=2; empty: whole nodes",
    "licenses": "matlab:2",
}


class Reserve(Arrives[str], ModalScreen[str]):
    """The form. Its result is the reservation's name once it exists, or "" if the user canceled."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("reserve")

    def __init__(self, before: dict[str, Any] | None = None) -> None:
        """Create the form. `before` is the row of the reservation to change, or None for a new one."""
        super().__init__()
        self._before = before
        self._wish = Wish("") if before is None else wish_of(before)
        self._instead = before is not None

    def compose(self) -> ComposeResult:
        title = f"Edit reservation {self._wish.name}" if self._instead else "New reservation"
        with Vertical(classes="dialog"):
            yield Static(title, classes="title", markup=False)
            for name, hint in HINTS.items():
                with Horizontal(classes="field"):
                    yield Static(name, classes="label", markup=False)
                    field = Input(getattr(self._wish, name), placeholder=hint, id=name, compact=True)
                    field.disabled = self._instead and name == "name"
                    yield field
            yield Static("", id="error", classes="error", markup=False)
            yield Static("", id="command", classes="command", markup=False)
            yield DialogKeys("reserve")

    def arrive(self) -> None:
        self.query_one("#error").display = False
        self.query_one("#nodes" if self._instead else "#name").focus()
        self.on_input_changed()

    def _now(self) -> Wish:
        return Wish(**{name: self.query_one(f"#{name}", Input).value.strip() for name in HINTS})

    def on_input_changed(self) -> None:
        if not self.is_left:
            self.query_one("#command", Static).update(self._command())

    def _command(self) -> str:
        return f"$ {wish_command(self._now(), instead=self._instead)}"

    def on_input_submitted(self) -> None:
        self.action_submit()

    @work(exclusive=True)
    async def action_submit(self) -> None:
        deck, wish, before = cast(Deck, self.app), self._now(), self._before
        core = deck.core
        try:
            await core.ask(reservation_request(wish, before, instead=self._instead))
        except UserError as error:
            line = self.query_one("#error", Static)
            line.update(f"{error.message}\n{error.hint}".strip())
            line.display = True
        else:
            back = (
                reserving(core, before, instead=True)
                if before is not None
                else Undo(
                    f"warpdeck reservation rm {shlex.quote(wish.name)}",
                    lambda: core.ask(requests.ReservationRemove(name=wish.name)),
                )
            )
            deck.chronicle.add(wish_command(wish, instead=self._instead), back)
            self.dismiss(wish.name)

    def action_give_up(self) -> None:
        self.dismiss("")


def reservation_request(
    wish: Wish, before: dict[str, Any] | None, *, instead: bool
) -> requests.ReservationMake:
    """Return the request that makes the reservation. Raises UserError if it is invalid."""
    fields = parse_wish(wish, time.time(), before=before)
    try:
        reservation = msgspec.convert(fields, Reservation)
    except msgspec.ValidationError as error:
        name = fields.get("name")
        raise UserError(f"invalid reservation {name!r}: {error}", "see `warpdeck reservation`") from error
    return requests.ReservationMake(reservation=reservation, instead=instead)


def reserving(core: Core, before: dict[str, Any], *, instead: bool) -> Undo:
    """Return the undo of a changed or removed reservation, which restores it from its former row `before`."""
    wish = wish_of(before)

    async def reserve() -> None:
        await core.ask(reservation_request(wish, before, instead=instead))

    return Undo(wish_command(wish, instead=instead), reserve)
