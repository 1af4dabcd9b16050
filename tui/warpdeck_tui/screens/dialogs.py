"""Small dialogs: a confirmation that names the command it stands for, a text page, and the form for a new job."""

from __future__ import annotations

import os
import shlex
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Static


class Confirm(ModalScreen[bool]):
    """Yes or no, with the command line that does the same."""

    BINDINGS: ClassVar[list[BindingType]] = [("y,enter", "yes", "Yes"), ("n,escape", "no", "No")]

    def __init__(self, question: str, command: str) -> None:
        super().__init__()
        self._question = question
        self._command = command

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(self._question)
            yield Static(f"$ {self._command}", classes="muted", markup=False)
            yield Label("y yes   n no", classes="keys")

    def action_yes(self) -> None:
        self.dismiss(True)

    def action_no(self) -> None:
        self.dismiss(False)


class Page(ModalScreen[None]):
    """A text to read."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,enter", "close", "Close")]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Label(self._title, classes="title")
            with VerticalScroll():
                yield Static(self._text, markup=False)

    def action_close(self) -> None:
        self.dismiss(None)


class Ask(ModalScreen[str]):
    """One line of text; "" if nothing is wanted."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "give_up", "Back")]

    def __init__(self, title: str, value: str = "") -> None:
        super().__init__()
        self._title = title
        self._value = value

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(self._title, classes="title")
            yield Input(self._value, id="answer")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def action_give_up(self) -> None:
        self.dismiss(self._value)


class NewJob(ModalScreen[tuple[str, list[str]] | None]):
    """A script and what outranks its #SBATCH lines."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "give_up", "Back")]
    FIELDS: ClassVar = (
        ("gpus", "GPUs"),
        ("time", "time limit"),
        ("name", "job name"),
        ("more", "more options"),
    )

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label("New job: Enter submits, Esc goes back", classes="title")
            yield Label("script")
            yield Input(placeholder="train.sh", id="script")
            for name, title in self.FIELDS:
                yield Label(title)
                yield Input(id=name, placeholder="as the script says")
            yield Label("", id="error", markup=False)

    def on_input_submitted(self) -> None:
        script = self._value("script")
        if not os.path.isfile(os.path.expanduser(script)):
            self.query_one("#error", Label).update(f"there is no script {script!r}")
            return
        try:
            more = shlex.split(self._value("more"))
        except ValueError as error:
            self.query_one("#error", Label).update(f"more options: {error}")
            return
        flags = {"gpus": "--gpus", "time": "--time", "name": "--job-name"}
        options = [f"{flag}={self._value(name)}" for name, flag in flags.items() if self._value(name)]
        self.dismiss((script, options + more))

    def action_give_up(self) -> None:
        self.dismiss(None)

    def _value(self, name: str) -> str:
        return self.query_one(f"#{name}", Input).value.strip()
