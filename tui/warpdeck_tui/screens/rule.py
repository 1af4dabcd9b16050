"""The form of a QoS or a partition.

Its changes are written into config.toml, and take effect at once or not at all.
"""

from __future__ import annotations

import re
from typing import ClassVar, cast

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from warpdeck.base.errors import UserError
from warpdeck.model.amendment import Amendment, Value
from warpdeck.notation.config.rules import values_of
from warpdeck.notation.config.toml_edit import amended
from warpdeck_tui.data.rule_changes import RELOAD, RuleChanges
from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.shared.deck_screen import Arrives
from warpdeck_tui.screens.shared.key_line import DialogKeys
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels.site.rules import Kind, asked, field_texts, told

_PLACE = re.compile(r"^\S+:\d+: ", re.MULTILINE)
"""Matches the file name and line number before a problem, which are useless because the file was not kept."""


class RuleForm(Arrives[str], ModalScreen[str]):
    """The form. Its result is the name of the rule once it is in effect, or "" if the user canceled.

    Empty `rule` means a new one.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("rule")

    def __init__(self, kind: Kind, rules: RuleChanges, *, text: str, rule: str = "") -> None:
        super().__init__()
        self._kind = kind
        self._rules = rules
        self._rule = rule
        self._before = field_texts(kind, values_of(text, kind.table, rule) if rule else {})

    def compose(self) -> ComposeResult:
        title = f"Edit {self._kind.noun} {self._rule}" if self._rule else f"New {self._kind.noun}"
        with Vertical(classes="dialog rule"):
            yield Static(title, classes="title", markup=False)
            with Horizontal(classes="field"):
                yield Static("name", classes="label", markup=False)
                name = Input(self._rule, placeholder="name", id="name", compact=True)
                name.disabled = bool(self._rule)
                yield name
            for field in self._kind.fields:
                with Horizontal(classes="field"):
                    yield Static(field.name, classes="label", markup=False)
                    yield Input(self._before[field.name], placeholder=field.hint, id=field.name, compact=True)
            yield Static("", id="error", classes="error", markup=False)
            yield Static("", id="command", classes="command", markup=False)
            yield DialogKeys("rule")

    def arrive(self) -> None:
        self.query_one("#error").display = False
        self.query_one(f"#{self._kind.fields[0].name}" if self._rule else "#name").focus()
        self.on_input_changed()

    def _field(self, name: str) -> str:
        return self.query_one(f"#{name}", Input).value.strip()

    def _asked(self) -> dict[str, Value | None]:
        return asked(
            self._kind, self._before, {each.name: self._field(each.name) for each in self._kind.fields}
        )

    def on_input_changed(self) -> None:
        if self.is_left:
            return
        try:
            words = told(self._kind, self._field("name"), self._asked())
        except UserError as error:
            words = error.message
        self.query_one("#command", Static).update(words)

    def on_input_submitted(self) -> None:
        self.action_submit()

    @work(exclusive=True)
    async def action_submit(self) -> None:
        deck, name = cast(Deck, self.app), self._field("name")
        try:
            before = self._rules.read()
            if not self._rule and values_of(before, self._kind.table, name):
                raise UserError(f"{self._kind.noun} {name} already exists", "Press e in the table to edit it")
            after = amended(before, [Amendment(path=(self._kind.table, name), values=self._asked())])
            reloaded = await self._rules.use(after, before=before)
        except UserError as error:
            line = self.query_one("#error", Static)
            problems = _PLACE.sub("", str(error.details.get("problems", "")))
            line.update(problems or f"{error.message}\n{error.hint}".strip())
            line.display = True
        else:
            what = told(self._kind, name, self._asked())
            deck.chronicle.add(f"{RELOAD}  # {what}", self._rules.undo(before, after=after, what=what))
            deck.tell_reloaded(reloaded)
            self.dismiss(name)

    def action_give_up(self) -> None:
        self.dismiss("")
