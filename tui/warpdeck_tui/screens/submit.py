"""The form for a new job, and the script that it makes beside it: what is typed in the one stands in the other.

As it is typed, the controller says when the job would start, or why it never would.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static, TextArea

from warpdeck.base.errors import UserError
from warpdeck.client.submission import read_script
from warpdeck_tui.data.connection import Core
from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.shared.deck_screen import Arrives
from warpdeck_tui.screens.shared.dialogs import Ask, Fill
from warpdeck_tui.screens.shared.key_line import DialogKeys
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.user_files.external_editor import edited
from warpdeck_tui.user_files.presets import check_name
from warpdeck_tui.viewmodels.jobs.form import (
    FIELDS,
    FieldError,
    Sheet,
    arguments,
    belongs_to,
    check,
    command_line,
    forecast_words,
    in_words,
    opened,
    options_of,
    typed,
    written,
)
from warpdeck_tui.viewmodels.jobs.form_sources import preset_of
from warpdeck_tui.viewmodels.jobs.script import BARE

from .sweep import SweepGrid

if TYPE_CHECKING:
    from warpdeck_tui.screens.shared.form_opening import Filling

TYPING_S = 0.4
"""A rest from typing after which the controller is asked when the job would start."""


class FormLine(Input):
    """A field. It has the form's keys, not the screen: they mean other things in the script."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("form")


class ScriptText(TextArea):
    """The script: every key writes, but for those of its own place."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("script")

    def on_paste(self, event: events.Paste) -> None:
        """Before Textual puts it in: a whole script takes the place of one with nothing in it."""
        if self.text == BARE and event.text.startswith("#!"):
            self.select_all()


class NewJob(Arrives[str], ModalScreen[str]):
    """Enter submits; dismissed with the new job's id, or "" if it was given up. A refused form stays as it is."""

    def __init__(self, core: Core, filling: Filling, sheet: Sheet) -> None:
        super().__init__()
        self._core = core
        self._filling = filling
        self._sheet = sheet
        self._path = self._path_of(sheet)
        """The script's file that was read."""
        self._busy = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog form"):
            yield Static("New job", id="title", classes="title", markup=False)
            with Horizontal(id="sheet"):
                with Vertical(id="fields"):
                    for field in FIELDS:
                        with Horizontal(classes="field"):
                            yield Static(field.title, classes="label", markup=False)
                            value = self._sheet.value(field.id)
                            yield FormLine(value, placeholder=field.example, id=field.id, compact=True)
                        yield Static("", id=f"{field.id}-error", classes="error", markup=False)
                with Vertical(id="beside"):
                    yield ScriptText(self._sheet.text, id="text", compact=True, soft_wrap=False)
                    yield Static("", id="text-error", classes="error", markup=False)
            yield Static("", id="form-error", classes="error", markup=False)
            yield Static("", id="forecast", classes="forecast", markup=False)
            yield Static("", id="command", classes="command", markup=False)
            yield DialogKeys("form")

    def arrive(self) -> None:
        self._show_errors(())
        self.query_one("#script").focus()
        self._changed(self._sheet)

    # ---- fields and script in step

    def on_input_changed(self, event: Input.Changed) -> None:
        field = event.input.id or ""
        if self.is_left or self._sheet.value(field) == event.value.strip():
            return
        sheet = typed(self._sheet, field, event.value.strip())
        if field in ("script", "folder"):
            sheet = self._read(sheet)
        self._changed(sheet, but=field)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        if not self.is_left and event.text_area.text != self._sheet.text:
            self._changed(written(self._sheet, event.text_area.text))

    def _read(self, sheet: Sheet) -> Sheet:
        """With the script's text, as soon as it is the name of one."""
        path = self._path_of(sheet)
        if path == self._path or not os.path.isfile(path):
            return sheet
        try:
            sheet = opened(sheet, read_script(path))
        except UserError as error:
            self._show_errors([FieldError("script", in_words(error))])
            return sheet
        self._path = path
        return sheet

    def _changed(self, sheet: Sheet, *, but: str = "") -> None:
        """Shows it. The field that is typed in keeps its blanks and its cursor; what is only shown is not typed."""
        self._sheet = sheet
        with self.prevent(Input.Changed, TextArea.Changed):
            for field in FIELDS:
                line = self.query_one(f"#{field.id}", FormLine)
                if field.id != but and line.value.strip() != sheet.value(field.id).strip():
                    line.value = sheet.value(field.id)
            area = self.query_one(ScriptText)
            if area.text != sheet.text:
                area.text = sheet.text
        source = f"   filled from {sheet.source}" if sheet.source else ""
        self.query_one("#title", Static).update(f"New job{source}")
        self.query_one("#command", Static).update(f"$ {command_line(sheet)}")
        self._look_ahead()

    @staticmethod
    def _path_of(sheet: Sheet) -> str:
        if not sheet.value("script"):
            return ""
        return os.path.join(
            os.path.expanduser(sheet.value("folder")), os.path.expanduser(sheet.value("script"))
        )

    def action_edit(self) -> None:
        """The script in the user's own editor."""
        try:
            text = edited(self.app, self._sheet.text, name=os.path.basename(self._path) or "job.sh")
        except UserError as error:
            self._show_errors([FieldError("", in_words(error))])
        else:
            self._changed(written(self._sheet, text))

    def action_leave_script(self) -> None:
        self.query_one("#gpus").focus()

    # ---- filling it from what there is

    @work(exclusive=True, group="fill")
    async def action_fill(self) -> None:
        """From a preset or a job, chosen from a list."""

        def fill(key: str | None) -> None:
            if key:
                self._fill(key)

        self.app.push_screen(Fill(self._filling, await self._filling.choices()), fill)

    @work(exclusive=True, group="fill")
    async def _fill(self, key: str) -> None:
        try:
            self._use(await self._filling.chosen(key, self._sheet))
        except UserError as error:
            self._show_errors([FieldError("", in_words(error))])

    def _use(self, sheet: Sheet) -> None:
        """Another form in place of this one; a script that it names is read if that was not done yet."""
        self._show_errors(())
        self._path = self._path_of(sheet) if sheet.original else ""
        self._changed(self._read(sheet))

    def action_empty(self) -> None:
        self._use(Sheet({"folder": self._sheet.value("folder")}))
        self.query_one("#script").focus()

    def action_save(self) -> None:
        """As a preset."""
        try:
            preset = preset_of(self._sheet)
        except UserError as error:
            self._show_errors([FieldError("text", in_words(error))])
            return

        def save(name: str | None) -> None:
            if name:
                try:
                    self._filling.save(name, preset)
                except UserError as error:
                    self._show_errors([FieldError("", in_words(error))])
                else:
                    self.app.notify(f"saved preset {name}; ctrl+o fills a form from it", markup=False)

        self.app.push_screen(
            Ask("Save this form as a preset named", required="give it a name", check=check_name), save
        )

    def action_sweep(self) -> None:
        """The grid of values, with what it comes to."""

        def use(grid: str | None) -> None:
            if grid:
                self._changed(typed(self._sheet, "sweep", grid.strip()))

        self.app.push_screen(SweepGrid(self._sheet), use)

    # ---- submitting

    def on_input_submitted(self) -> None:
        self.action_submit()

    def action_submit(self) -> None:
        if self._busy:
            return
        wrong = check(self._sheet, now=time.time())
        self._show_errors(wrong)
        if not wrong:
            self._busy = True
            self._submit(self._sheet)

    @work
    async def _submit(self, sheet: Sheet) -> None:
        cwd = os.path.abspath(os.path.expanduser(sheet.value("folder") or "."))
        try:
            if not os.path.isdir(cwd):
                self._show_errors([FieldError("folder", f"there is no folder {cwd}")])
                return
            done = await self._core.submit(
                sheet.value("script"),
                text=self._text_of(sheet),
                options=options_of(sheet),
                cwd=cwd,
                args=arguments(sheet),
                code_of=sheet.value("code"),
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
        cast(Deck, self.app).chronicle.add(command_line(sheet))
        self.dismiss(str(done.job_id))

    def _text_of(self, sheet: Sheet) -> str:
        """What is submitted is what stands there. Raises UserError if the named script was never read."""
        path = self._path_of(sheet)
        return sheet.text if path in ("", self._path) else read_script(path)

    @work(exclusive=True, group="forecast")
    async def _look_ahead(self) -> None:
        """When it would start as it stands. Of what is not complete nothing is said: that is told when it is submitted."""
        await asyncio.sleep(TYPING_S)
        sheet, words = self._sheet, ""
        if not check(sheet, now=time.time()):
            cwd = os.path.abspath(os.path.expanduser(sheet.value("folder") or "."))
            try:
                found = await self._core.dry_run(
                    sheet.value("script"), text=self._text_of(sheet), options=options_of(sheet), cwd=cwd
                )
                words = forecast_words(found, now=time.time())
            except UserError as error:
                words = in_words(error)
        self.query_one("#forecast", Static).update(words)

    def _show_errors(self, wrong: Iterable[FieldError]) -> None:
        """Each beside its field; the first gets the cursor."""
        found = list(wrong)
        for name in [*(field.id for field in FIELDS), "text", "form"]:
            words = "; ".join(each.words for each in found if (each.field or "form") == name)
            line = self.query_one(f"#{name}-error", Static)
            line.update(words)
            line.display = bool(words)
        if found and found[0].field:
            self.query_one(f"#{found[0].field}").focus()

    def action_give_up(self) -> None:
        self.dismiss("")
