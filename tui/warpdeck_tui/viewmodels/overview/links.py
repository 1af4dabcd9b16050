"""The page that a row of the overview opens. It is the row's key, such as "job 12" or "history state:F"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, cast, get_args

from warpdeck_tui.viewmodels.cells import Cell, Line
from warpdeck_tui.widgets.cells import Gauge

Page = Literal["job", "node", "queue", "history", "map"]
"""The kinds of pages: a job, a node, the queue or the history with a filter, and the map of GPUs at a time."""
MOST_ROWS = 200
"""Largest number of rows of a panel. The page behind a panel lists all."""
Row = tuple[str, Sequence[Cell | Gauge]]
"""The key of a row and its cells."""


class Link(NamedTuple):
    """A page, and the job, the node, the filter or the time (unix seconds) that it shows."""

    page: Page
    what: str

    @property
    def key(self) -> str:
        return f"{self.page} {self.what}"


def link_of(key: str) -> Link | None:
    """Return the page behind a row's key, or None if the panel has no row."""
    page, _, what = key.partition(" ")
    return Link(cast(Page, page), what) if page in get_args(Page) else None


class PanelRows(NamedTuple):
    """The content of a panel: its title, its rows, and the text that an empty panel shows."""

    title: Line
    rows: list[Row]
    empty: str


def heading(words: str, key: str) -> Row:
    """Return a row that is the heading of the rows below it. It opens the page of all of them."""
    return key, (Cell(words, "header"),)
