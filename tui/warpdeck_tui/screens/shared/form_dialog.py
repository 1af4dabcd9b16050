"""Base class of the dialogs that consist of a form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, cast

from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from warpdeck.base.errors import UserError
from warpdeck_tui.deck import Deck
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.form import Form, show_or_hide
from warpdeck_tui.widgets.form_fields import FormField, FormValues

from .deck_screen import Arrives
from .key_line import DialogKeys


class FormDialog(Arrives[str], ModalScreen[str]):
    """A form with a title, an error line, the equivalent command, and the dialog's keys.

    Enter saves. The result is a text that `save` returns, or "" if the user canceled. If saving fails, the
    error is shown and the form stays open.
    """

    place: ClassVar[str]
    """The dialog's context in the table of actions."""
    look: ClassVar[str] = ""
    """Further style classes of the dialog."""
    line: ClassVar[type[Input]] = Input
    """The class of the fields."""

    def __init__(
        self, title: str, fields: tuple[FormField, ...], values: FormValues | None = None, *, first: str = ""
    ) -> None:
        """Create the dialog.

        The cursor begins in the field `first`, by default in the first one that the user can edit.
        """
        super().__init__()
        self._title = title
        self._fields = fields
        self._initial = values or {}
        self._first = first or next(field.id for field in fields if not field.is_fixed)

    def compose(self) -> ComposeResult:
        with Vertical(classes=f"dialog {self.look}".rstrip()):
            yield Static(printable(self._title), classes="title", markup=False)
            yield Form(self._fields, self._initial, line=self.line)
            yield from self.compose_more()
            yield Static("", id="error", classes="error", markup=False)
            yield Static("", id="command", classes="command", markup=False)
            yield DialogKeys(self.place)

    def compose_more(self) -> Iterable[Widget]:
        """Yield further widgets, which are shown below the fields."""
        return ()

    @property
    def deck(self) -> Deck:
        return cast(Deck, self.app)

    @property
    def form(self) -> Form:
        return self.query_one(Form)

    def arrive(self) -> None:
        self.show_error("")
        self.form.input(self._first).focus()
        self.preview(self.form.values())

    def on_input_changed(self) -> None:
        if not self.is_left:
            self.preview(self.form.values())

    def on_input_submitted(self) -> None:
        self.action_submit()

    def action_submit(self) -> None:
        wrong = self.form.wrong()
        self.form.show_errors(wrong)
        if not wrong:
            self.accept(self.form.values())

    def action_give_up(self) -> None:
        self.dismiss("")

    def preview(self, values: FormValues) -> None:
        """Show what saving would do."""
        try:
            words = self.command(values)
        except UserError as error:
            words = error.message
        show_or_hide(self.query_one("#command", Static), words)

    def show_error(self, words: str) -> None:
        """Show an error below the form, or clear it."""
        show_or_hide(self.query_one("#error", Static), words)

    def accept(self, values: FormValues) -> None:
        """Handle valid values. By default they are saved."""
        self._save(values)

    @work(exclusive=True)
    async def _save(self, values: FormValues) -> None:
        try:
            saved = await self.save(values)
        except UserError as error:
            self.show_error(self.error_words(error))
        else:
            self.dismiss(saved)

    def command(self, values: FormValues) -> str:
        """Return the line that describes the change. May raise UserError, whose message is shown instead."""
        return ""

    async def save(self, values: FormValues) -> str:
        """Make the change and return the dialog's result. Raises UserError."""
        return ""

    def error_words(self, error: UserError) -> str:
        """Return the text that shows why saving failed."""
        return f"{error.message}\n{error.hint}".strip()
