"""The "New job" form, with its script beside it.

The fields and the script are kept in sync while the user types. Meanwhile the controller estimates when the
job would start, or says why it never would.
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
from textual.widgets import Input, Static, TextArea

from warpdeck.base.errors import UserError
from warpdeck.client.submission import read_script
from warpdeck_tui.data.server_requests import Core
from warpdeck_tui.data.user_folders import in_own_thread
from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.forms.completed_form import CompletedForm, CompletedLine
from warpdeck_tui.screens.forms.field_choices import LISTED, PATHS
from warpdeck_tui.screens.forms.sweep import SweepGrid
from warpdeck_tui.screens.shared.dialogs import Ask, Fill
from warpdeck_tui.screens.shared.key_line import DialogKeys
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.user_files.external_editor import edited
from warpdeck_tui.user_files.presets import check_name
from warpdeck_tui.viewmodels.job_form.form import (
    FIELDS,
    SCRIPT_TEXT,
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
from warpdeck_tui.viewmodels.job_form.form_sources import preset_of
from warpdeck_tui.viewmodels.job_form.script import BARE
from warpdeck_tui.widgets.choice_list import ChoiceList
from warpdeck_tui.widgets.form import Form, show_or_hide, show_verdict
from warpdeck_tui.widgets.form_fields import WHOLE_FORM, FieldError

if TYPE_CHECKING:
    from warpdeck_tui.screens.shared.form_opening import FormOpening

TYPING_S = 0.4
"""Seconds without typing after which another scheduler is asked when the job would start. Each such question costs
it a request. Our own scheduler is asked at each key.
"""
SLOW_S = 0.05
"""After an answer that took longer than this, the next question waits as long as the answer took."""


class FormLine(CompletedLine):
    """A field of the submission form.

    The form's keys are bound here instead of on the screen, because they have other meanings in the script.
    """

    place = "form"
    BINDINGS: ClassVar[list[BindingType]] = bindings("form")


class ScriptText(TextArea):
    """The text area of the script. Every key is typed as text, except the keys of its own context."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("script")

    def on_paste(self, event: events.Paste) -> None:
        """Replace an empty script by a pasted whole script. This runs before Textual inserts the text."""
        if self.text == BARE and event.text.startswith("#!"):
            self.select_all()


class NewJob(CompletedForm):
    """The form. Enter submits; the result is the new job's id, or "" if the user canceled.

    If the job is refused, the form stays open.
    """

    hidden = ScriptText
    VERTICAL_BREAKPOINTS = [(0, "-low"), (34, "-tall")]  # noqa: RUF012  (as Textual declares it)

    def __init__(self, core: Core, filling: FormOpening, sheet: Sheet) -> None:
        super().__init__()
        self._core = core
        self._filling = filling
        self._sheet = sheet
        self._path = self._path_of(sheet)
        """The path of the script that was read."""
        self._busy = False
        self._told: list[FieldError] = []
        """The errors that are shown."""
        self._asks = False
        """Whether the scheduler is being asked when the job would start."""
        self._answered: Sheet | None = None
        """The state of the form to which the shown expected start belongs."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog form"):
            yield Static("New job", id="title", classes="title", markup=False)
            with Horizontal(id="sheet"):
                yield Form(FIELDS, self._sheet.values, line=FormLine, id="fields")
                with Vertical(id="beside"):
                    yield ScriptText(self._sheet.text, id="text", compact=True, soft_wrap=False)
                    yield ChoiceList(cast(Deck, self.app).palette, id="choices")
                    yield Static("", id="text-error", classes="error", markup=False)
            yield Static("", id="form-error", classes="error", markup=False)
            yield Static("", id="forecast", classes="forecast", markup=False)
            yield Static("", id="command", classes="command", markup=False)
            yield DialogKeys("form")

    def arrive(self) -> None:
        self._show_errors(())
        self.query_one("#gpus" if self._sheet.repeats else "#script").focus()
        self._changed(self._sheet)

    # ---- Keeping fields and script in sync

    def on_input_changed(self, event: Input.Changed) -> None:
        field = event.input.id or ""
        if self.is_left or self._sheet.value(field) == event.value.strip():
            return
        sheet = typed(self._sheet, field, event.value.strip())
        self._clear_corrected(sheet)
        self._changed(sheet, but=field)
        if field in PATHS:
            self.close_list()
            self._read(but=field)
        elif field in LISTED:
            self.list_names()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        if not self.is_left and event.text_area.text != self._sheet.text:
            sheet = written(self._sheet, event.text_area.text)
            self._clear_corrected(sheet)
            self._changed(sheet)

    @work(exclusive=True, group="read")
    async def _read(self, *, but: str = "") -> None:
        """Read the script once the field names an existing one. The field `but` stays as the user types it."""
        path = self._path_of(self._sheet)
        if path == self._path:
            return
        try:
            text = await in_own_thread(lambda: read_script(path) if os.path.isfile(path) else None)
        except UserError as error:
            self._show_errors([FieldError("script", in_words(error))])
            return
        if text is not None and path == self._path_of(self._sheet):
            self._path = path
            self._changed(opened(self._sheet, text), but=but)

    def _changed(self, sheet: Sheet, *, but: str = "") -> None:
        """Show the new state of the form.

        The field `but`, in which the user is typing, keeps its blanks and its cursor. Updating the other
        fields does not count as typing.
        """
        self._sheet = sheet
        with self.prevent(Input.Changed, TextArea.Changed):
            self.query_one(Form).fill(sheet.values, but=but)
            area = self.query_one(ScriptText)
            if area.text != sheet.text:
                area.text = sheet.text
        source = f"   from {sheet.source}" if sheet.source else ""
        self.query_one("#title", Static).update(f"New job{source}")
        self.query_one("#command", Static).update(f"$ {command_line(sheet)}")
        self._look_ahead()

    def value(self, field: str) -> str:
        return self._sheet.value(field)

    def show_path_error(self, field: str, error: UserError) -> None:
        self._show_errors([FieldError(field, in_words(error))])

    @staticmethod
    def _path_of(sheet: Sheet) -> str:
        if not sheet.value("script"):
            return ""
        return os.path.join(
            os.path.expanduser(sheet.value("folder")), os.path.expanduser(sheet.value("script"))
        )

    def action_edit(self) -> None:
        """Edit the script in the user's own editor."""
        try:
            text = edited(
                cast(Deck, self.app), self._sheet.text, name=os.path.basename(self._path) or "job.sh"
            )
        except UserError as error:
            self._show_errors([FieldError(WHOLE_FORM, in_words(error))])
        else:
            sheet = written(self._sheet, text)
            self._clear_corrected(sheet)
            self._changed(sheet)

    def action_leave_script(self) -> None:
        self.query_one("#gpus").focus()

    # ---- Filling the form

    @work(exclusive=True, group="fill")
    async def action_fill(self) -> None:
        """Fill the form from a preset or a job that the user chooses."""

        def fill(key: str | None) -> None:
            if key:
                self._fill(key)

        self.app.push_screen(Fill(self._filling, await self._filling.choices()), fill)

    @work(exclusive=True, group="fill")
    async def _fill(self, key: str) -> None:
        try:
            self._use(await self._filling.chosen(key, self._sheet))
        except UserError as error:
            self._show_errors([FieldError(WHOLE_FORM, in_words(error))])

    def _use(self, sheet: Sheet) -> None:
        """Replace the content of the form. If it names a script that was not read yet, the script is read."""
        self._show_errors(())
        self._path = self._path_of(sheet) if sheet.original else ""
        self._changed(sheet)
        self._read()

    def action_empty(self) -> None:
        self._use(Sheet({"folder": self._sheet.value("folder")}))
        self.query_one("#script").focus()

    def action_save(self) -> None:
        """Save the form as a preset."""
        try:
            preset = preset_of(self._sheet)
        except UserError as error:
            self._show_errors([FieldError(SCRIPT_TEXT, in_words(error))])
            return

        def save(name: str | None) -> None:
            if name:
                try:
                    self._filling.save(name, preset)
                except UserError as error:
                    self._show_errors([FieldError(WHOLE_FORM, in_words(error))])
                else:
                    self.app.notify(f"Saved preset {name}. Press Ctrl-O to load it", markup=False)

        self.app.push_screen(Ask("Save form as preset", required="Enter a name", check=check_name), save)

    def action_sweep(self) -> None:
        """Open the dialog for the grid of a sweep."""

        def use(grid: str | None) -> None:
            if grid:
                self._changed(typed(self._sheet, "sweep", grid.strip()))

        self.app.push_screen(SweepGrid(self._sheet), use)

    # ---- Submitting

    def on_input_submitted(self) -> None:
        self.action_submit()

    def action_submit(self) -> None:
        if not self.submits() or self._busy:
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
            if not await in_own_thread(lambda: os.path.isdir(cwd)):
                self._show_errors([FieldError("folder", f"No such folder: {cwd}")])
                return
            done = await self._core.submit(
                sheet.value("script"),
                text=await self._text_of(sheet),
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
        self.app.notify(f"Submitted job {done.label}{tasks}", markup=False)
        cast(Deck, self.app).chronicle.add(command_line(sheet))
        self.dismiss(str(done.job_id))

    async def _text_of(self, sheet: Sheet) -> str:
        """Return the text of the script as it is shown.

        If the named script was never read, it is read now; may raise UserError.
        """
        path = self._path_of(sheet)
        return sheet.text if path in ("", self._path) else await in_own_thread(lambda: read_script(path))

    def _look_ahead(self) -> None:
        """Have the expected start shown for the new state of the form."""
        if not self._asks:
            self._asks = True
            self._keep_asking()

    @work(group="forecast")
    async def _keep_asking(self) -> None:
        """Show when the job would start, until this is done for the present state of the form.

        One question is asked at a time. The last answer stays on the screen until the next one has come.
        """
        took_s = 0.0
        try:
            while not self.is_answered:
                await asyncio.sleep(self._pause_s(took_s))
                asked, begun = self._sheet, time.monotonic()
                words, verdict = await self._expected_start(asked)
                took_s = time.monotonic() - begun
                show_verdict(self.query_one("#forecast", Static), words, verdict)
                self._answered = asked
        finally:
            self._asks = False

    @property
    def is_answered(self) -> bool:
        """Whether the expected start is shown for the present state of the form."""
        return self._answered is self._sheet

    def _pause_s(self, took_s: float) -> float:
        if not cast(Deck, self.app).board.scheduler.is_own:
            return TYPING_S
        return min(took_s, TYPING_S) if took_s > SLOW_S else 0.0

    async def _expected_start(self, sheet: Sheet) -> tuple[str, str]:
        """Return the expected start in words and the verdict, or the reason why the scheduler cannot tell.

        Nothing is returned for an incomplete form, because submitting it reports the errors.
        """
        words = cast(Deck, self.app).board.scheduler.reason("dry_run")
        if words or check(sheet, now=time.time()):
            return words, ""
        cwd = os.path.abspath(os.path.expanduser(sheet.value("folder") or "."))
        try:
            text = await self._text_of(sheet)
        except UserError:  # the name of the script is incomplete
            return "", ""
        try:
            found = await self._core.dry_run(
                sheet.value("script"), text=text, options=options_of(sheet), cwd=cwd
            )
        except UserError as error:
            return in_words(error), ""
        return forecast_words(found, now=time.time()), found.verdict

    def _clear_corrected(self, sheet: Sheet) -> None:
        """Clear the shown errors that do not hold for this state of the form any more.

        An error that only the server can find is cleared by any change. The line below the form shows it again.
        """
        if self._told:
            fields = {each.field for each in self._told}
            still = check(sheet, now=time.time())
            self._show_errors((each for each in still if each.field in fields), moves=False)

    def _show_errors(self, wrong: Iterable[FieldError], *, moves: bool = True) -> None:
        """Show each error beside its field and, if `moves` is true, move the cursor to the first."""
        found = self._told = list(wrong)
        self.query_one(Form).show_errors(found)
        for field in (SCRIPT_TEXT, WHOLE_FORM):
            words = "; ".join(each.words for each in found if each.field == field)
            show_or_hide(self.query_one(f"#{field or 'form'}-error", Static), words)
        if moves and found and found[0].field:
            self.query_one(f"#{found[0].field}").focus()

    def action_give_up(self) -> None:
        if self.gives_up():
            self.dismiss("")
