"""Small dialogs: a confirmation that names the command it stands for, one line of text, and texts to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from warpdeck_tui.viewmodels.queue import Question
from warpdeck_tui.widgets.log_view import LogView

from .base import TextPane

MAX_NAMED = 8
"""Jobs listed in a confirmation; the rest is counted."""


class Confirm(ModalScreen[bool]):
    """Yes or no, with what it meets and the command line that does the same."""

    BINDINGS: ClassVar[list[BindingType]] = [("y,enter", "yes", "Yes"), ("n,escape", "no", "No")]

    def __init__(self, question: Question) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        lines = self._question.lines
        more = [f"and {len(lines) - MAX_NAMED} more"] if len(lines) > MAX_NAMED else []
        with Vertical(classes="dialog"):
            yield Static(self._question.text, classes="title", markup=False)
            if lines:
                yield Static("\n".join([*lines[:MAX_NAMED], *more]), classes="listed", markup=False)
            yield Static(f"$ {self._question.command}", classes="command", markup=False)
            yield Static("y yes    n no", classes="keys", markup=False)

    def action_yes(self) -> None:
        self.dismiss(True)

    def action_no(self) -> None:
        self.dismiss(False)


class Ask(ModalScreen[str]):
    """One line of text; "" if it was given up."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "give_up", "Back")]

    def __init__(self, title: str, value: str = "", *, command: str = "") -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._command = command

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._title, classes="title", markup=False)
            yield Input(self._value, id="answer", compact=True)
            if self._command:
                yield Static(f"$ {self._command}", classes="command", markup=False)
            yield Static("Enter does it    Esc goes back", classes="keys", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())

    def action_give_up(self) -> None:
        self.dismiss("")


class HelpPage(ModalScreen[None]):
    """The keys of the screen that asked, then all others."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,enter,question_mark", "close", "Close")]

    def __init__(self, lines: Sequence[tuple[str, str, str]]) -> None:
        super().__init__()
        self._lines = lines

    def compose(self) -> ComposeResult:
        text = Text("Everywhere in lists: j k g G, arrows and pages move; Enter opens, Esc goes back.\n")
        for keys, title, words in self._lines:
            if not words:
                text.append(f"\n{title}\n", "bold")
            else:
                text.append(f"  {keys:<7}", "bold").append(f" {title:<22} {words}\n")
        with Vertical(classes="dialog tall"):
            yield Static("Keys", classes="title", markup=False)
            yield TextPane(text)

    def on_mount(self) -> None:
        self.query_one(TextPane).focus()

    def action_close(self) -> None:
        self.dismiss(None)


class TextPage(ModalScreen[None]):
    """A long text with ANSI colours, such as a diff."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "close", "Close")]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Static(self._title, classes="title", markup=False)
            yield LogView(id="text")
            yield Static("Esc closes", classes="keys", markup=False)

    def on_mount(self) -> None:
        view = self.query_one(LogView)
        view.feed(self._text.encode())
        view.action_first()
        view.focus()

    def action_close(self) -> None:
        self.dismiss(None)
