"""The dialog that adds a machine over SSH: its address, the progress, and the confirmation of its host
key.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import ClassVar

from textual import work
from textual.binding import BindingType
from textual.containers import VerticalGroup
from textual.widget import Widget
from textual.widgets import Input, Static

from warpdeck.base.errors import UserError
from warpdeck_tui.data.server_requests import Core
from warpdeck_tui.screens.shared.form_dialog import FormDialog
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels.cells import plural
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.form import Form, show_or_hide
from warpdeck_tui.widgets.form_fields import FormField, FormValues

PROGRESS_LINES = 6
FIELDS = (
    FormField("target", "address", "[user@]host[:port], as in ssh"),
    FormField("name", "name", "default: the host name"),
)
ACCEPT = FormField("accept", hint="Type yes to accept this key")


class NodeAdd(FormDialog):
    """The dialog. Enter adds the machine.

    An unknown host key is shown first, and accepted only if the user types "yes".
    """

    place = "add"
    BINDINGS: ClassVar[list[BindingType]] = bindings("add")

    def __init__(self, core: Core) -> None:
        super().__init__("Add a node", FIELDS)
        self._core = core
        self._fingerprint = ""
        self._told: list[str] = []
        self._adding = ""
        """The machine that is being added. The controller continues with it even if this dialog is closed."""

    def compose_more(self) -> Iterable[Widget]:
        with VerticalGroup(id="unknown-key"):
            yield Static("", id="key", classes="listed", markup=False)
            yield Form((ACCEPT,), {}, id="answer")
        yield Static("", id="progress", classes="muted", markup=False)

    def arrive(self) -> None:
        super().arrive()
        self._forget_key()
        show_or_hide(self.query_one("#progress", Static), "")

    def command(self, values: FormValues) -> str:
        return f"$ {command_line(values)}"

    def action_submit(self) -> None:
        accept = self.query_one("#accept", Input)
        if self._adding:
            self.show_error(f"Still adding {self._adding}")
        elif not self.form.values()["target"]:
            self._ask_again("Enter an address")
        elif not accept.has_focus:
            self._forget_key()
            self._add("")
        elif accept.value.strip() == "yes":
            self._add(self._fingerprint)
        else:
            self._forget_key()
            self._ask_again("Host key not accepted; nothing was changed")

    def _ask_again(self, words: str) -> None:
        self.show_error(words)
        self.form.input("target").focus()

    @work(exclusive=True)
    async def _add(self, accepted: str) -> None:
        self._told.clear()
        self.show_error("")
        values = self.form.values()
        self._adding = values["target"]
        try:
            row = await self._core.node_add(
                values["target"],
                name=values["name"],
                accept_host_key=accepted,
                progress=self._progress,
            )
        except UserError as error:
            self._failed(error)
            return
        finally:
            self._adding = ""
        self.deck.chronicle.add(command_line(values))
        has = f"{plural(row.cpus, 'CPU')}, {plural(len(row.gpus), 'GPU')}"
        self.app.notify(f"Added {row.name}: {has}", markup=False)
        self.dismiss("")

    def _failed(self, error: UserError) -> None:
        if error.code != "host_key" or self._fingerprint:
            self.show_error(self.error_words(error))
            return
        self._fingerprint = error.details["fingerprint"]
        kind, host = error.details.get("key_type", ""), error.details.get("host", "")
        self.query_one("#key", Static).update(
            f"The host key of {host} is unknown. Compare it with the key of the machine:\n{kind} {self._fingerprint}"
        )
        self.query_one("#unknown-key").display = True
        self.query_one("#accept").focus()

    def _forget_key(self) -> None:
        self._fingerprint = ""
        self.query_one("#accept", Input).value = ""
        self.query_one("#unknown-key").display = False

    def _progress(self, line: str) -> None:
        self._told.append(printable(line))
        show_or_hide(self.query_one("#progress", Static), "\n".join(self._told[-PROGRESS_LINES:]))

    def action_give_up(self) -> None:
        if self._adding:
            words = f"Still adding {self._adding}. It appears in the list of nodes when it is ready"
            self.app.notify(words, markup=False)
        self.dismiss("")


def command_line(values: FormValues) -> str:
    """Return the command that adds this machine."""
    name = f" --name {shlex.quote(values['name'])}" if values["name"] else ""
    target = shlex.quote(values["target"]) if values["target"] else "HOST"
    return f"warpdeck node add {target}{name}"
