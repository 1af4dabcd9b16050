"""The form for a new job. What the script says itself stands in the fields as a hint; what is typed outranks it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from warpdeck.api.submission import read_script
from warpdeck.errors import UserError
from warpdeck_tui.actions import bindings
from warpdeck_tui.client import Core
from warpdeck_tui.viewmodels.form import (
    FIELDS,
    FieldError,
    belongs_to,
    check,
    command_line,
    forecast_words,
    in_words,
    options_of,
    said_by_script,
    script_text,
)

from .base import Arrives
from .keyline import DialogKeys

TYPING_S = 0.4
"""A rest from typing after which the controller is asked when the job would start."""


class NewJob(Arrives[str], ModalScreen[str]):
    """Enter submits; dismissed with the new job's id, or "" if it was given up. A refused form stays as it is."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("form")

    def __init__(self, core: Core, *, folder: str) -> None:
        super().__init__()
        self._core = core
        self._folder = folder
        self._busy = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog form"):
            yield Static("New job", classes="title", markup=False)
            for field in FIELDS:
                value = self._folder if field.id == "folder" else ""
                with Horizontal(classes="field"):
                    yield Static(field.title, classes="label", markup=False)
                    yield Input(value, placeholder=field.example, id=field.id, compact=True)
                yield Static("", id=f"{field.id}-error", classes="error", markup=False)
            yield Static("", id="form-error", classes="error", markup=False)
            yield Static("", id="forecast", classes="forecast", markup=False)
            yield Static("", id="command", classes="command", markup=False)
            yield DialogKeys("form")

    def arrive(self) -> None:
        self._show_errors(())
        self.query_one("#script").focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if self.is_left:
            return
        self.query_one("#command", Static).update(f"$ {command_line(self._values())}")
        if event.input.id in ("script", "folder"):
            self._hint()
        self._look_ahead()

    def on_input_submitted(self) -> None:
        self.action_submit()

    def action_submit(self) -> None:
        if self._busy:
            return
        values = self._values()
        wrong = check(values, now=time.time())
        self._show_errors(wrong)
        if not wrong:
            self._busy = True
            self._submit(values)

    @work
    async def _submit(self, values: dict[str, str]) -> None:
        cwd = os.path.abspath(os.path.expanduser(values["folder"] or "."))
        try:
            if not os.path.isdir(cwd):
                self._show_errors([FieldError("folder", f"there is no folder {cwd}")])
                return
            done = await self._core.submit(
                values["script"], text=script_text(values), options=options_of(values), cwd=cwd
            )
        except UserError as error:
            self._show_errors([FieldError(belongs_to(error), in_words(error))])
            return
        finally:
            self._busy = False
        for note in done.notes:
            self.app.notify(note, severity="warning", markup=False)
        tasks = f", {done.tasks} tasks" if done.tasks > 1 else ""
        self.app.notify(f"submitted job {done.label}{tasks}", markup=False)
        self.dismiss(str(done.job_id))

    @work(exclusive=True, group="forecast")
    async def _look_ahead(self) -> None:
        """When it would start as it stands. Nothing is said of what is not complete: that is told when it is submitted."""
        await asyncio.sleep(TYPING_S)
        values, words = self._values(), ""
        if not check(values, now=time.time()):
            cwd = os.path.abspath(os.path.expanduser(values["folder"] or "."))
            try:
                found = await self._core.dry_run(
                    values["script"], text=script_text(values), options=options_of(values), cwd=cwd
                )
                words = forecast_words(found, now=time.time())
            except UserError:
                words = ""
        self.query_one("#forecast", Static).update(words)

    def _hint(self) -> None:
        """What the script asks for, in the empty fields."""
        values = self._values()
        said: dict[str, str] = {}
        path = os.path.join(os.path.expanduser(values["folder"]), os.path.expanduser(values["script"]))
        if values["script"] and os.path.isfile(path):
            try:
                said = said_by_script(read_script(path), path)
            except UserError as error:
                self._show_errors([FieldError("script", in_words(error))])
        for field in FIELDS:
            by_script = said.get(field.id)
            hint = f"{by_script}, says the script" if by_script else field.example
            if by_script and field.id == "name":  # it is long, and the queue is about to show it
                hint = "as the script says"
            self.query_one(f"#{field.id}", Input).placeholder = hint

    def _show_errors(self, wrong: Iterable[FieldError]) -> None:
        """Each beside its field; the first gets the cursor."""
        found = list(wrong)
        for name in [*(field.id for field in FIELDS), "form"]:
            words = "; ".join(each.words for each in found if (each.field or "form") == name)
            line = self.query_one(f"#{name}-error", Static)
            line.update(words)
            line.display = bool(words)
        if found and found[0].field:
            self.query_one(f"#{found[0].field}").focus()

    def _values(self) -> dict[str, str]:
        return {field.id: self.query_one(f"#{field.id}", Input).value.strip() for field in FIELDS}

    def action_give_up(self) -> None:
        self.dismiss("")
