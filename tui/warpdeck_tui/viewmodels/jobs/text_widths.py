"""The width that the texts of a list of jobs need in each column.

The widths cover all listed jobs, not only those in view, so that the columns do not move while the user scrolls. They
only grow while jobs come and go. Otherwise the columns would move with every job that ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from rich.cells import cell_len

from warpdeck.protocol.job_rows import JobRow

from .arrays import Fold
from .queue import full_name

INDENT = 2
"""Number of blanks before the label of a task below the row of its array."""
_TEXTS: Mapping[str, Callable[[JobRow], str]] = {
    "job": lambda row: row.label,
    "name": full_name,
    "user": lambda row: row.user,
    "account": lambda row: row.account,
    "partition": lambda row: row.partition,
    "qos": lambda row: row.qos,
}
"""The columns that are fitted, and their texts. The other columns have the same width for all jobs."""


class TextWidths:
    """The largest width of a text in each fitted column."""

    def __init__(self) -> None:
        self._widths: dict[str, int] = {}

    @property
    def widths(self) -> Mapping[str, int]:
        return MappingProxyType(self._widths)

    def clear(self) -> None:
        self._widths = {}

    def add_jobs(self, rows: Iterable[JobRow]) -> None:
        """Measure jobs that have a row of their own."""
        chosen = list(rows)
        for key, text in _TEXTS.items():
            self._grow(key, map(text, chosen))

    def add_array(self, array: Fold, *, is_open: bool) -> None:
        """Measure the row of an array and, if the array is open, the rows of its tasks.

        The row of the array has its name without the values of a sweep, and the rows of its tasks have only the values.
        """
        head = array.head
        own = {"job": array.label, "name": head.name}
        for key, text in _TEXTS.items():
            self._grow(key, [own.get(key) or text(head)])
        if is_open:
            self._grow("job", (" " * INDENT + row.label for row in array.rows()))
            self._grow("name", (row.sweep or row.name for row in array.rows()))

    def _grow(self, key: str, texts: Iterable[str]) -> None:
        widest = max(map(_width, texts), default=0)
        if widest > self._widths.get(key, 0):
            self._widths[key] = widest


def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)
