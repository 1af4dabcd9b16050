"""Small dialogs: confirmations, questions with one line of text, lists to choose from, and texts to read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from warpdeck.base.errors import UserError
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.data.action_log import ActionLog
from warpdeck_tui.deck import Deck
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels import Cell, Line
from warpdeck_tui.viewmodels.jobs.job_columns import choice_row
from warpdeck_tui.viewmodels.jobs.queue import Question
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.form import show_or_hide
from warpdeck_tui.widgets.form_fields import FormField, FormValues
from warpdeck_tui.widgets.log.view import LogView
from warpdeck_tui.widgets.virtual_table import Column, VirtualTable

from .deck_screen import Arrives, TextPane
from .form_dialog import FormDialog
from .key_line import DialogKeys

if TYPE_CHECKING:
    from .form_opening import FormOpening

CHOICE_COLUMNS = (
    Column("JOB", 12),
    Column("STATE", 5),
    Column("NAME", 16, flex=1, most=48),
    Column("TIME", 10, align="right"),
    Column("NODES OR END", 0, flex=1),
)
FILL_COLUMNS = (Column("TYPE", 6), Column("NAME", 24, flex=1, most=48), Column("OPTIONS", 0, flex=3))
DONE_COLUMNS = (Column("WHEN", 8), Column("COMMAND", 0), Column("UNDO", 7))
EXPORT_NAMES = "(.csv, .json or .md)"
MAX_NAMED = 8
"""Largest number of jobs listed in a confirmation. The others are only counted."""


class Confirm(Arrives[bool], ModalScreen[bool]):
    """A yes/no question that shows the affected objects, the effect, and the equivalent command line."""

    places: ClassVar[tuple[str, ...]] = ("confirm",)
    """The contexts of the keys that the last line shows."""
    BINDINGS: ClassVar[list[BindingType]] = bindings("confirm")

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static("", id="question", classes="title", markup=False)
            yield Static("", id="listed", classes="listed", markup=False)
            yield Static("", id="effect", classes="listed", markup=False)
            yield Static("", id="command", classes="command", markup=False)
            yield DialogKeys(*self.places)

    def arrive(self) -> None:
        self.show(self.question)

    def show(self, question: Question) -> None:
        """Show this question in place of the one before."""
        self.question = question
        lines = question.lines
        more = [f"and {len(lines) - MAX_NAMED} more"] if len(lines) > MAX_NAMED else []
        self.query_one("#question", Static).update(question.text)
        show_or_hide(self.query_one("#listed", Static), "\n".join([*lines[:MAX_NAMED], *more]))
        show_or_hide(self.query_one("#effect", Static), question.effect)
        self.query_one("#command", Static).update(f"$ {question.command}")

    def action_yes(self) -> None:
        self.dismiss(True)

    def action_copy_command(self) -> None:
        cast(Deck, self.app).copy(self.question.command)

    def action_no(self) -> None:
        self.dismiss(False)


class Ask(FormDialog):
    """A question that is answered with one line of text. The result is "" if the user canceled.

    `required` is the message for an empty answer. `check` raises UserError for an invalid answer, and its
    message is shown. `value` is the initial text.
    """

    place = "ask"
    BINDINGS: ClassVar[list[BindingType]] = bindings("ask")

    def __init__(
        self,
        title: str,
        *,
        required: str,
        command: str = "",
        value: str = "",
        check: Callable[[str], object] = str,
    ) -> None:
        answer = FormField("answer", required=required, check=check, selects_on_focus=False)
        super().__init__(title, (answer,), {"answer": value})
        self._command = command

    def command(self, values: FormValues) -> str:
        return f"$ {printable(self._command)}" if self._command else ""

    def accept(self, values: FormValues) -> None:
        self.dismiss(values["answer"])


class Choose(Arrives[str], ModalScreen[str]):
    """A choice of one of several jobs. The result is its key, or "" if the user canceled."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("choose")

    def __init__(self, title: str, rows: Sequence[JobRow]) -> None:
        super().__init__()
        self._title = title
        self._rows = rows

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Static(self._title, classes="title", markup=False)
            yield VirtualTable(CHOICE_COLUMNS, cast(Deck, self.app).palette, empty="", id="choices")
            yield DialogKeys("choose", opens="Select")

    def arrive(self) -> None:
        table = self.query_one(VirtualTable)
        table.show([(str(row.id), choice_row(row, now=time.time())) for row in self._rows])
        table.focus()

    def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        event.stop()
        self.dismiss(event.key)

    def action_give_up(self) -> None:
        self.dismiss("")


class Fill(Arrives[str], ModalScreen[str]):
    """A list of presets and jobs to fill a form from.

    The result is the key of the chosen row, or "" if the user canceled.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("fill")

    def __init__(self, filling: FormOpening, rows: Sequence[tuple[str, Line]]) -> None:
        super().__init__()
        self._filling = filling
        self._rows = list(rows)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Static("Load a preset or a job", classes="title", markup=False)
            styles = cast(Deck, self.app).palette
            empty = "No presets and no jobs. Press Ctrl-S in the form to save a preset"
            yield VirtualTable(FILL_COLUMNS, styles, empty=empty, id="fill")
            yield DialogKeys("fill", opens="Load")

    def arrive(self) -> None:
        table = self.query_one(VirtualTable)
        table.show(self._rows)
        table.focus()

    def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        event.stop()
        self.dismiss(event.key)

    def action_remove(self) -> None:
        table = self.query_one(VirtualTable)
        key = table.cursor_key
        try:
            self._filling.remove(key)
        except UserError as error:
            cast(Deck, self.app).tell_error(error)
            return
        self._rows = [row for row in self._rows if row[0] != key]
        table.show(self._rows)

    def action_give_up(self) -> None:
        self.dismiss("")


class DonePage(Arrives[None], ModalScreen[None]):
    """The list of all changes made in the app, the latest first, with their equivalent command lines."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("done")

    def __init__(self, chronicle: ActionLog) -> None:
        super().__init__()
        self._chronicle = chronicle

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Static("Action log", classes="title", markup=False)
            styles = cast(Deck, self.app).palette
            yield VirtualTable(DONE_COLUMNS, styles, empty="No changes", id="done")
            yield DialogKeys("done")

    def arrive(self) -> None:
        self._show()
        self.query_one(VirtualTable).focus()

    def _show(self) -> None:
        self.query_one(VirtualTable).show(self._chronicle.rows())

    def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        event.stop()
        self.action_copy()

    def action_copy(self) -> None:
        cast(Deck, self.app).copy(self._chronicle.command(self.query_one(VirtualTable).cursor_key))

    def action_undo(self) -> None:
        """Undo the change under the cursor.

        The worker belongs to the app, so it continues if this page is closed meanwhile.
        """
        self.app.run_worker(self._undo(self.query_one(VirtualTable).cursor_key), group="undo")

    async def _undo(self, key: str) -> None:
        await cast(Deck, self.app).take_back(key)
        if not self.is_left:
            self._show()

    def action_close(self) -> None:
        self.dismiss(None)


class HelpPage(Arrives[None], ModalScreen[None]):
    """A page of keys, the titles of their actions and explanations, in sections with titles."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("page")

    def __init__(self, title: str, lines: Sequence[tuple[str, str, str]]) -> None:
        super().__init__()
        self._title = title
        self._lines = lines

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Static(self._title, classes="title", markup=False)
            yield TextPane()
            yield DialogKeys("page")

    def arrive(self) -> None:
        self.recolour()
        self.query_one(TextPane).focus()

    def recolour(self) -> None:
        self.query_one(TextPane).show(key_table(self._lines), cast(Deck, self.app).palette)

    def action_close(self) -> None:
        self.dismiss(None)


def key_table(lines: Sequence[tuple[str, str, str]]) -> list[Line]:
    """Return a table of three columns, the first two as wide as needed, with an empty line before each
    title.
    """
    rows = [line for line in lines if line[2]]
    of_keys, of_names = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
    table: list[Line] = []
    for keys, name, words in lines:
        if words:
            table.append((Cell(f"  {keys:<{of_keys}}  {name:<{of_names}}  ", "accent"), Cell(words)))
        else:
            table += [(Cell(name, "header"),)] if not table else [(), (Cell(name, "header"),)]
    return table


class TextPage(Arrives[None], ModalScreen[None]):
    """A page for a long text with ANSI colors, such as a diff.

    With `is_prose`, long lines are wrapped instead of cut off.
    """

    place = "page"
    BINDINGS: ClassVar[list[BindingType]] = bindings("page")

    def __init__(self, title: str, text: str, *, is_prose: bool = False) -> None:
        super().__init__()
        self._is_prose = is_prose
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Static(printable(self._title), classes="title", markup=False)
            yield LogView(id="text")
            yield DialogKeys(self.place)

    def arrive(self) -> None:
        self.recolour()
        view = self.query_one(LogView)
        view.feed(self._text.encode())
        if self._is_prose:
            view.action_wrap()
        view.action_first()
        view.focus()

    def action_close(self) -> None:
        if not self.query_one(LogView).end_search():
            self.dismiss(None)
