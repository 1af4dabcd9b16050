"""The page that shows the resource usage of the listed jobs, and writes it into a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from textual.binding import BindingType

from warpdeck.base.errors import UserError
from warpdeck.model.finished_jobs import GroupCost
from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.shared.dialogs import EXPORT_NAMES, Ask, TextPage
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.user_files.new_file import new_file, removed_unless_whole
from warpdeck_tui.viewmodels.site.exports import cost_records, form_of
from warpdeck_tui.viewmodels.site.usage import usage_text


class UsagePage(TextPage):
    """The usage tables, one for each way of grouping the jobs."""

    place = "usage"
    BINDINGS: ClassVar[list[BindingType]] = bindings("usage")

    def __init__(self, title: str, groups: Sequence[GroupCost]) -> None:
        super().__init__(title, usage_text(groups))
        self._groups = groups

    def action_export(self) -> None:
        def write(path: str | None) -> None:
            if path:
                self._export(path)

        title = f"Export usage to file {EXPORT_NAMES}"
        self.app.push_screen(
            Ask(title, required="Enter a file name, for example usage.csv", check=form_of), write
        )

    def _export(self, path: str) -> None:
        """Write the figures into a file. They take a few hundred lines at most, whatever the number of
        jobs.
        """
        deck = cast(Deck, self.app)
        try:
            form, file = form_of(path), new_file(path)
            with file, removed_unless_whole(path):
                file.write(form.begin + form.piece(cost_records(self._groups), True) + form.end)
        except UserError as error:
            deck.tell_error(error)
        except OSError as error:
            deck.notify(f"Cannot write {path}: {error.strerror}", severity="error", markup=False)
        else:
            deck.notify(f"Wrote usage to {path}", markup=False)
