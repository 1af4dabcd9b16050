"""A form that completes paths and offers the partitions, accounts and QoS of the site."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, cast

from textual import events, work
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input

from warpdeck.base.errors import UserError
from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.forms.field_choices import (
    LISTED,
    PATHS,
    FieldChoices,
    Rows,
    path_rows,
    paths_title,
    rows_of,
)
from warpdeck_tui.screens.shared.deck_screen import Arrives
from warpdeck_tui.table.bindings import actions_at
from warpdeck_tui.terminal.keyboard import Keyboard
from warpdeck_tui.viewmodels.job_form.path_completion import completed
from warpdeck_tui.viewmodels.site.choices import that_begin
from warpdeck_tui.widgets.choice_list import ChoiceList
from warpdeck_tui.widgets.virtual_table import VirtualTable


class CompletedLine(Input):
    """A field of the form. `place` is the context of the form in the table of actions."""

    place: ClassVar[str]

    def on_key(self, event: events.Key) -> None:
        """Open the list of the field. Without this, an input takes a blank as text before it looks for a binding."""
        default = next(each.keys for each in actions_at(self.place) if each.id == "choose")
        keys = cast(Deck, self.app).keymap.get(f"{self.place}.choose", default)
        if event.key in keys.split(",") and isinstance(self.screen, CompletedForm) and self.screen.has_list:
            event.stop()
            event.prevent_default()
            self.screen.action_choose()


class CompletedForm(Arrives[str], ModalScreen[str]):
    """A form with a `ChoiceList` in place of the widget `hidden` while there is something to choose."""

    hidden: ClassVar[type[Widget]]

    @cached_property
    def _choices(self) -> FieldChoices:
        return FieldChoices(cast(Deck, self.app))

    @property
    def _keyboard(self) -> Keyboard:
        """Keys wait until a path is completed or a list is open, because they are meant for the result."""
        return cast(Deck, self.app).keyboard

    @abstractmethod
    def value(self, field: str) -> str:
        """Return the text of a field."""

    @abstractmethod
    def show_path_error(self, field: str, error: UserError) -> None:
        """Show why the path in this field cannot be completed."""

    @property
    def choice_list(self) -> ChoiceList:
        return self.query_one(ChoiceList)

    def _focused_field(self) -> str:
        return (self.focused.id or "") if isinstance(self.focused, Input) else ""

    @property
    def has_list(self) -> bool:
        """Whether the list of the focused field can be opened."""
        return self._focused_field() in LISTED and not self.choice_list.is_active

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.has_list if action == "choose" else super().check_action(action, parameters)

    def on_descendant_focus(self) -> None:
        if not self.is_left and self._focused_field() != self.choice_list.field:
            self.close_list()
            self.list_names()

    def submits(self) -> bool:
        """Take the chosen value of an open list. Return whether there was none, so that the form is submitted."""
        if not self.choice_list.is_active:
            return True
        self.take(self.choice_list.chosen)
        return False

    def gives_up(self) -> bool:
        """Close an open list. Return whether there was none, so that the form is closed."""
        if not self.choice_list.is_active:
            return True
        self.close_list()
        self.list_names()
        return False

    def close_list(self) -> None:
        self.choice_list.hide()
        self.query_one(self.hidden).display = True

    def _open_list(
        self, field: str, rows: Rows, *, titles: Sequence[str], keys: str = "", empty: str = ""
    ) -> None:
        self.query_one(self.hidden).display = False
        self.choice_list.show(field, rows, titles=titles, keys=keys, empty=empty)

    def action_next_value(self) -> None:
        """Go to the next field, or to the next value of an open list."""
        if self.choice_list.is_active:
            self.choice_list.move(1)
        else:
            self.app.action_focus_next()

    def action_focus_previous(self) -> None:
        """Go to the previous field, or to the previous value of an open list."""
        if self.choice_list.is_active:
            self.choice_list.move(-1)
        else:
            self.app.action_focus_previous()

    def action_focus_next(self) -> None:
        """Complete the text of the field, or go to the next value or field."""
        field = self._focused_field()
        text = self.value(field)
        if self.choice_list.is_active or not text or field not in (*PATHS, *LISTED):
            self.action_next_value()
        elif field in LISTED:
            self._keyboard.wait_for(self._complete_name(field, text))
        else:
            self._keyboard.wait_for(self._complete_path(field, text))

    @work(exclusive=True, group="complete")
    async def _complete_path(self, field: str, text: str) -> None:
        base = "" if field == "folder" else self.value("folder")
        try:
            paths, is_cut = await self._choices.paths(field, text, base)
        except UserError as error:
            self.show_path_error(field, error)
            return
        if self._focused_field() != field or self.value(field) != text:
            return
        if not paths or text in paths or (field == "folder" and f"{text}/" in paths):
            self.action_next_value()
        elif (longer := completed(text, paths)) != text:
            self._enter(field, longer)
        else:
            self._open_list(field, path_rows(paths), titles=[paths_title(len(paths), is_cut=is_cut)])
            self.choice_list.activate()

    @work(exclusive=True, group="complete")
    async def _complete_name(self, field: str, text: str) -> None:
        head, comma, last = text.rpartition(",")
        found = await self._choices.names(field)
        names = [each.value for each in found if each.value.startswith(last)]
        if not names or last in names:
            self.action_next_value()
        elif (longer := completed(last, names)) != last:
            self._enter(field, f"{head}{comma}{longer}")
        else:
            await self._show_names()
            self.choice_list.activate()

    @work(exclusive=True, group="names")
    async def list_names(self) -> None:
        """Show the values of the field beside it, if they come from the site's tables."""
        await self._show_names()

    async def _show_names(self) -> None:
        field = self._focused_field()
        if field not in LISTED:
            return
        found = await self._choices.names(field)
        if self._focused_field() == field:
            text = self.value(field).rpartition(",")[2]
            rows = rows_of(that_begin(found, text))
            keys = "Space opens the list, Tab completes" if rows else ""
            self._open_list(field, rows, titles=LISTED[field], keys=keys, empty=self._choices.empty(field))

    def action_choose(self) -> None:
        self._keyboard.wait_for(self._choose())

    @work(exclusive=True, group="names")
    async def _choose(self) -> None:
        await self._show_names()
        self.choice_list.activate(self.value(self.choice_list.field))

    def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        event.stop()
        self.take(event.key)

    def take(self, value: str) -> None:
        """Use the chosen value."""
        field = self.choice_list.field
        self.close_list()
        if field and value:
            head, comma, _ = self.value(field).rpartition(",") if field in LISTED else ("", "", "")
            self._enter(field, f"{head}{comma}{value}")
        self.list_names()

    def _enter(self, field: str, text: str) -> None:
        """Put the text into a field as if it were typed."""
        line = self.query_one(f"#{field}", Input)
        line.value = text
        line.action_end()
