"""The dialog that adds a machine over SSH: its address, the progress, and the confirmation of its host
key.
"""

from __future__ import annotations

import shlex
from typing import ClassVar, cast

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from warpdeck.base.errors import UserError
from warpdeck_tui.data.connection import Core
from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.shared.deck_screen import Arrives
from warpdeck_tui.screens.shared.key_line import DialogKeys
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels.cells import plural
from warpdeck_tui.widgets.cells import printable

PROGRESS_LINES = 6
FIELDS = (("address", "target", "[user@]host[:port], as in ssh"), ("name", "name", "default: the host name"))


class NodeAdd(Arrives[None], ModalScreen[None]):
    """The dialog. Enter adds the machine.

    An unknown host key is shown first, and accepted only if the user types "yes".
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("add")

    def __init__(self, core: Core) -> None:
        super().__init__()
        self._core = core
        self._fingerprint = ""
        self._told: list[str] = []
        self._adding = ""
        """The machine that is being added. The controller continues with it even if this dialog is closed."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static("Add a node", classes="title", markup=False)
            for title, name, hint in FIELDS:
                with Horizontal(classes="field"):
                    yield Static(title, classes="label", markup=False)
                    yield Input(placeholder=hint, id=name, compact=True)
            yield Static("", id="key", classes="listed", markup=False)
            yield Input(placeholder="Type yes to accept this key", id="accept", compact=True)
            yield Static("", id="progress", classes="muted", markup=False)
            yield Static("", id="error", classes="error", markup=False)
            yield Static("", id="command", classes="command", markup=False)
            yield DialogKeys("add")

    def arrive(self) -> None:
        self.query_one("#key").display = self.query_one("#accept").display = False
        self._show("progress", "")
        self._show("error", "")
        self.on_input_changed()

    def on_input_changed(self) -> None:
        if self.is_left:
            return
        self.query_one("#command", Static).update(f"$ {self._command()}")

    def _command(self) -> str:
        name = f" --name {shlex.quote(self._value('name'))}" if self._value("name") else ""
        target = shlex.quote(self._value("target")) if self._value("target") else "HOST"
        return f"warpdeck node add {target}{name}"

    def on_input_submitted(self) -> None:
        self.action_submit()

    def action_submit(self) -> None:
        accept = self.query_one("#accept", Input)
        if self._adding:
            self._say(f"Still adding {self._adding}")
        elif not self._value("target"):
            self._say("Enter an address")
            self.query_one("#target").focus()
        elif not accept.has_focus:
            self._forget_key()
            self._add("")
        elif accept.value.strip() == "yes":
            self._add(self._fingerprint)
        else:
            self._forget_key()
            self._say("Host key not accepted; nothing was changed")
            self.query_one("#target").focus()

    @work(exclusive=True)
    async def _add(self, accepted: str) -> None:
        self._told.clear()
        self._say("")
        self._adding = self._value("target")
        try:
            row = await self._core.node_add(
                self._value("target"),
                name=self._value("name"),
                accept_host_key=accepted,
                progress=self._progress,
            )
        except UserError as error:
            self._failed(error)
            return
        finally:
            self._adding = ""
        cast(Deck, self.app).chronicle.add(self._command())
        has = f"{plural(row.cpus, 'CPU')}, {plural(len(row.gpus), 'GPU')}"
        self.app.notify(f"Added {row.name}: {has}", markup=False)
        self.dismiss(None)

    def _failed(self, error: UserError) -> None:
        if error.code != "host_key" or self._fingerprint:
            self._say(f"{error.message}\n{error.hint}".strip())
            return
        self._fingerprint = error.details["fingerprint"]
        key, accept = self.query_one("#key", Static), self.query_one("#accept", Input)
        kind, host = error.details.get("key_type", ""), error.details.get("host", "")
        key.update(
            f"The host key of {host} is unknown. Compare it with the key of the machine:\n{kind} {self._fingerprint}"
        )
        key.display = accept.display = True
        accept.focus()

    def _forget_key(self) -> None:
        self._fingerprint = ""
        self.query_one("#accept", Input).value = ""
        self.query_one("#key").display = self.query_one("#accept").display = False

    def _progress(self, line: str) -> None:
        self._told.append(printable(line))
        self._show("progress", "\n".join(self._told[-PROGRESS_LINES:]))

    def _say(self, words: str) -> None:
        self._show("error", words)

    def _show(self, name: str, words: str) -> None:
        """Show a text in this line, or hide the line if the text is empty."""
        line = self.query_one(f"#{name}", Static)
        line.update(words)
        line.display = bool(words)

    def _value(self, name: str) -> str:
        return self.query_one(f"#{name}", Input).value.strip()

    def action_give_up(self) -> None:
        if self._adding:
            words = f"Still adding {self._adding}. It appears in the list of nodes when it is ready"
            self.app.notify(words, markup=False)
        self.dismiss(None)
