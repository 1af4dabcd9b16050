"""The names of a screen's panes or tables in one line; a click on one goes there."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual.widgets import Static

from warpdeck_tui.table.palette import PLAIN, Palette
from warpdeck_tui.viewmodels.cells import Line


class TabLine(Static):
    """Its keys stand in the key line, and its marks do not hang on colours."""

    auto_links = False

    def __init__(self) -> None:
        super().__init__("", id="tabs", markup=False)

    def show(self, names: Line, commands: Sequence[str], styles: Palette) -> None:
        """What a click on the name in the same place runs; what stands behind the names is only read."""
        text = Text()
        for at, cell in enumerate(names):
            click = Style.from_meta({"@click": commands[at]}) if at < len(commands) else PLAIN
            text.append(cell.text, styles.get(cell.style, PLAIN) + click)
        self.update(text)
