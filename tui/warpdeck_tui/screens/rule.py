"""The form of a QoS or a partition.

Its changes are written into config.toml, and take effect at once or not at all.
"""

from __future__ import annotations

import re
from typing import ClassVar

from textual.binding import BindingType

from warpdeck.base.errors import UserError
from warpdeck.model.config_edit import Amendment
from warpdeck.notation.config.rules import values_of
from warpdeck.notation.config.toml_edit import apply_changes
from warpdeck_tui.data.rule_changes import RELOAD, RuleChanges
from warpdeck_tui.screens.shared.form_dialog import FormDialog
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels.site.rules import Kind, asked, field_texts, told
from warpdeck_tui.widgets.form_fields import FormField, FormValues

_PLACE = re.compile(r"^\S+:\d+: ", re.MULTILINE)
"""Matches the file name and line number before a problem, which are useless because the file was not kept."""


class RuleForm(FormDialog):
    """The form. Its result is the name of the rule once it is in effect, or "" if the user canceled.

    Empty `rule` means a new one.
    """

    place = "rule"
    look = "rule"
    BINDINGS: ClassVar[list[BindingType]] = bindings("rule")

    def __init__(self, kind: Kind, rules: RuleChanges, *, text: str, rule: str = "") -> None:
        self._kind = kind
        self._rules = rules
        self._rule = rule
        self._before = field_texts(kind, values_of(text, kind.table, rule) if rule else {})
        super().__init__(
            f"Edit {kind.noun} {rule}" if rule else f"New {kind.noun}",
            (FormField("name", "name", "name", is_fixed=bool(rule)), *kind.fields),
            {"name": rule, **self._before},
        )

    def command(self, values: FormValues) -> str:
        return told(self._kind, values["name"], asked(self._kind, self._before, values))

    async def save(self, values: FormValues) -> str:
        name, changed = values["name"], asked(self._kind, self._before, values)
        before = self._rules.read()
        if not self._rule and values_of(before, self._kind.table, name):
            raise UserError(f"{self._kind.noun} {name} already exists", "Press e in the table to edit it")
        after = apply_changes(before, [Amendment(path=(self._kind.table, name), values=changed)])
        reloaded = await self._rules.use(after, before=before)
        what = told(self._kind, name, changed)
        undo = self._rules.undo(before, after=after, what=what)
        self.deck.tell_done(f"Changed {self._kind.noun} {name}", f"{RELOAD}  # {what}", undo)
        self.deck.tell_reloaded(reloaded)
        return name

    def error_words(self, error: UserError) -> str:
        problems = str(error.details.get("problems", ""))
        return _PLACE.sub("", problems) or super().error_words(error)
