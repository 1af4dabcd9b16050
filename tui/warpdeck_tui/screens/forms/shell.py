"""The dialogs that open an interactive shell: its size, and the wait for its start."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import ClassVar, cast

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from warpdeck.base.errors import UserError
from warpdeck.client.terminal import window_size
from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.forms.completed_form import CompletedForm, CompletedLine
from warpdeck_tui.screens.shared.deck_screen import Arrives
from warpdeck_tui.screens.shared.form_dialog import FormDialog
from warpdeck_tui.screens.shared.key_line import DialogKeys
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.terminal.lent_terminal import STDOUT
from warpdeck_tui.user_files.shell_choice import keep_shell_choice
from warpdeck_tui.viewmodels.job_form.form import forecast_words
from warpdeck_tui.viewmodels.shell.new_shell import (
    FIELDS,
    command,
    free_words,
    options_of,
    values_of,
    wait_lines,
)
from warpdeck_tui.widgets.choice_list import ChoiceList
from warpdeck_tui.widgets.form import show_verdict
from warpdeck_tui.widgets.form_fields import FormValues

TICK_S, FIRST_TICK_S = 0.5, 0.02
"""Seconds between two looks whether the session has started; the second number holds for the first moments, in which
most sessions start.
"""
HANDS_OFF_S = 1.0
"""The key c does not cancel the session during this number of seconds, because it may have been typed for the shell."""
READY, LEFT, CANCEL = "ready", "left", "cancel"
"""Results of the wait."""


class ShellLine(CompletedLine):
    """A field of the dialog."""

    place = "shell"


class FreeWords(Static):
    """The nodes with free GPUs. The list of partitions replaces it while the user is in that field."""


class ShellSize(FormDialog, CompletedForm):
    """Asks for GPUs, time and partition of a shell, beginning with the last choice, and submits it.

    The result is the id of its job.
    """

    place = "shell"
    look = "shell"
    line = ShellLine
    hidden = FreeWords
    BINDINGS: ClassVar[list[BindingType]] = bindings("shell")

    def __init__(self, options: Sequence[str]) -> None:
        super().__init__("Open a shell", FIELDS, values_of(options))
        self._busy = False
        self._asked = 0
        """Number of questions about the expected start, so that a late answer is dropped."""

    def compose_more(self) -> Iterable[Widget]:
        yield FreeWords("", id="free", markup=False)
        yield ChoiceList(self.deck.palette, id="choices")
        yield Static("", id="forecast", markup=False)

    def value(self, field: str) -> str:
        return self.form.input(field).value.strip()

    def on_input_changed(self) -> None:
        super().on_input_changed()
        if not self.is_left:
            self.list_names()

    def show_path_error(self, field: str, error: UserError) -> None:
        self.show_error(error.message)

    def action_submit(self) -> None:
        if self.submits():
            super().action_submit()

    def action_give_up(self) -> None:
        if self.gives_up():
            super().action_give_up()

    def preview(self, values: FormValues) -> None:
        super().preview(values)
        self.show_error("")
        self.query_one(FreeWords).update(free_words(self.deck.board.nodes.values()))
        if not self.form.wrong():
            self.form.show_errors(())
            self._look_ahead(values)

    @work(group="forecast")
    async def _look_ahead(self, values: FormValues) -> None:
        """Show when the shell would start. The last answer stays until this one has come."""
        if self.deck.board.scheduler.reason("dry_run") or not self.deck.board.scheduler.is_own:
            return
        self._asked += 1
        number = self._asked
        try:
            found = await self.deck.core.dry_run(
                "", text="#!/bin/sh\n$SHELL\n", options=options_of(values), cwd="/"
            )
            words, verdict = forecast_words(found, now=time.time()), found.verdict
        except UserError as error:
            words, verdict = error.message, ""
        if number == self._asked:
            show_verdict(self.query_one("#forecast", Static), words, verdict)

    def show_error(self, words: str) -> None:
        super().show_error(words)
        if words:  # it says the same as the expected start
            show_verdict(self.query_one("#forecast", Static), "", "")

    def command(self, values: FormValues) -> str:
        return f"$ {command(options_of(values))}"

    def accept(self, values: FormValues) -> None:
        if not self._busy:
            self._busy = True
            super().accept(values)

    async def save(self, values: FormValues) -> str:
        options = options_of(values)
        rows, cols = window_size(STDOUT)
        try:
            done = await self.deck.core.shell(options, rows=rows, cols=cols)
        finally:
            self._busy = False
        try:
            keep_shell_choice(options)
        except UserError as error:
            self.deck.tell_error(error)
        self.deck.chronicle.add(command(options))
        return str(done.job_id)


class ShellWait(Arrives[str], ModalScreen[str]):
    """Says why a session has not started yet, and lets the user cancel it or leave it waiting."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("wait")

    def __init__(self, key: str) -> None:
        super().__init__()
        self._key = key
        self._opened_at = time.monotonic()

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(f"Session {self._key}", classes="title", markup=False)
            yield Static("", id="why", markup=False)
            yield DialogKeys("wait")

    @property
    def deck(self) -> Deck:
        return cast(Deck, self.app)

    def arrive(self) -> None:
        self._tick()

    def _tick(self) -> None:
        if self.is_left:
            return
        row = self.deck.find_job(self._key)
        if row is not None and row.state != "PENDING":
            self.dismiss(READY)
            return
        lines = wait_lines(row, self._key, now=time.time())
        self.query_one("#why", Static).update("\n".join(lines))
        self.set_timer(FIRST_TICK_S if self._is_new else TICK_S, self._tick)

    @property
    def _is_new(self) -> bool:
        return time.monotonic() - self._opened_at < HANDS_OFF_S

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "cancel_session" and self._is_new:
            return False
        return super().check_action(action, parameters)

    def action_leave(self) -> None:
        self.dismiss(LEFT)

    def action_cancel_session(self) -> None:
        self.dismiss(CANCEL)
