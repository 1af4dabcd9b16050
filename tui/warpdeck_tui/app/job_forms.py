"""Opens the "New job" form, with values from another job if there is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING

from textual.screen import ModalScreen

from warpdeck.base.errors import UserError
from warpdeck_tui import screens
from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.queue import QueueScreen
from warpdeck_tui.terminal.terminal_app import TerminalApp

if TYPE_CHECKING:
    from warpdeck_tui.screens.shared.form_opening import FormOpening
    from warpdeck_tui.viewmodels.job_form.form import Sheet


class JobForms:
    """The forms of one app."""

    def __init__(self, deck: Deck, app: TerminalApp) -> None:
        self._deck = deck
        self._app = app

    @cached_property
    def _filling(self) -> FormOpening:
        """The source of the values. Created when the form is first opened."""
        from warpdeck_tui.screens.shared.form_opening import FormOpening

        return FormOpening(self._deck)

    def open_new(self) -> None:
        """Open the form, filled from the user's last job."""
        self._fill(self._filling.last)

    def open_like(self, key: str) -> None:
        """Open the form, filled from this job."""
        self._fill(partial(self._filling.of_job, key))

    def open(self, sheet: Sheet) -> None:
        """Open the form with these values."""

        def submitted(job_id: str | None) -> None:
            if job_id and isinstance(self._app.screen, QueueScreen):
                self._app.screen.go_to(job_id)

        if not isinstance(self._app.screen, ModalScreen):
            self._app.push_screen(screens.NewJob(self._deck.core, self._filling, sheet), submitted)
        else:
            self._app.notify("The form was not opened because another dialog is open", severity="warning")

    def _fill(self, fill: Callable[[], Awaitable[Sheet]]) -> None:
        """Open the form with the values that `fill` returns. Keys typed meanwhile wait for it."""

        async def fill_and_open() -> None:
            try:
                self.open(await fill())
            except UserError as error:
                self._deck.tell_error(error)

        self._app.keyboard.wait_for(self._app.run_worker(fill_and_open(), group="form", exclusive=True))
