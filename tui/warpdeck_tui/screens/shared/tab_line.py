"""A line with the names of a screen's panes or tables. A click on a name shows that pane."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual.widgets import Static

from warpdeck_tui.table.palette import PLAIN, Palette
from warpdeck_tui.viewmodels.cells import Line


class TabLine(Static):
    """The line of names.

    The keys for it are in the key line, and the current name is marked without relying on color.
    """

    auto_links = False

    def __init__(self) -> None:
        super().__init__("", id="tabs", markup=False)
        self._shown: tuple[Line, int] = ((), 0)

    def show(self, names: Line, commands: Sequence[str], styles: Palette) -> None:
        """Show the names, and run the command at the same index when a name is clicked.

        Cells after the last command only display text.
        """
        if (names, id(styles)) == self._shown:
            return
        self._shown = names, id(styles)
        text = Text()
        for at, cell in enumerate(names):
            click = Style.from_meta({"@click": commands[at]}) if at < len(commands) else PLAIN
            text.append(cell.text, styles.get(cell.style, PLAIN) + click)
        self.update(text, layout=False)
