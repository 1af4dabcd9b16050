"""The "Details" pane of a job's page: groups of facts in frames, in two columns on a wide terminal."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from warpdeck_tui.table.palette import Palette
from warpdeck_tui.viewmodels.job_page.details import BELOW, LEFT, RIGHT, Group, Groups

from .deck_screen import Folded, TextPane

TWO_COLUMNS_FROM = 110


class GroupFrame(Static):
    """One group. It is painted again only if its lines have changed."""

    def __init__(self, name: str) -> None:
        super().__init__("", id=f"group-{name}", classes="group", markup=False)
        self._shown: tuple[Group, int] | None = None
        self.display = False

    def show(self, group: Group, styles: Palette) -> None:
        if self._shown == (group, id(styles)):
            return
        self._shown = (group, id(styles))
        self.display = bool(group.lines)
        self.border_title = Content(f" {group.title} ")
        self.update(Folded(group.lines, styles))


class DetailsPane(TextPane):
    """The pane. The groups are known from the start, and those without lines are hidden."""

    def compose(self) -> ComposeResult:
        yield GroupFrame("cause")
        with Horizontal(classes="columns"):
            yield _column(LEFT)
            yield _column(RIGHT)
        yield GroupFrame("steps")
        with Horizontal(classes="columns"):
            for name in BELOW:
                yield _column((name,))

    def on_resize(self) -> None:
        self.set_class(self.size.width >= TWO_COLUMNS_FROM, "-two")

    def show_groups(self, groups: Groups, styles: Palette) -> None:
        """Show these groups. Groups that are not named keep their lines."""
        for name, group in groups.items():
            self.query_one(f"#group-{name}", GroupFrame).show(group, styles)
        for column in self.query(".column"):
            column.display = any(frame.display for frame in column.query(GroupFrame))


def _column(names: Sequence[str]) -> Widget:
    return Vertical(*(GroupFrame(name) for name in names), classes="column")
