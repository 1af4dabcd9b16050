"""Reads tables that squeue prints with a format of ours, and that no user of the cluster can forge.

A job's name or comment may contain any text, also line breaks and the separators of other formats. Each field
therefore ends with a mark that is drawn at random for each call, and that no user can know in advance. The option
-O of squeue accepts such a suffix since Slurm 20.02.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

EMPTY = frozenset({"", "(null)", "N/A", "n/a", "None", "NONE", "Unknown", "NOT_SET"})
"""Texts that Slurm prints for a field without a value."""


class Column(NamedTuple):
    """A column: our name, the name of the field for -O, and the number of bytes after which the text is cut."""

    name: str
    field: str
    width_bytes: int


class MalformedTable(ValueError):
    """The output is not a table of the requested format. The text says how it differs."""


def format_argument(columns: Sequence[Column], mark: str) -> str:
    """Return the argument of -O. `mark` contains letters and digits only."""
    assert mark.isalnum() and not mark[0].isdigit(), mark
    return ",".join(f"{column.field}:{column.width_bytes}{mark}" for column in columns)


class TableReader:
    """Reads a table that arrives in pieces, so that a queue of 50,000 jobs is never one text of 80 MB."""

    def __init__(self, columns: Sequence[Column], mark: str) -> None:
        self._names = [column.name for column in columns]
        self._mark = mark
        self._rest = ""
        """Text behind the last complete record."""
        self._cells: list[str] = []
        """Complete fields of a record that is not complete yet."""
        self._pool: dict[str, str] = {}
        """Values that occurred before. Most jobs share their user, folder and command with others."""

    def feed(self, text: str) -> Iterator[dict[str, str]]:
        """Yield the records that are complete now: fields by our names, without padding; "" for no value."""
        *cells, self._rest = (self._rest + text).split(self._mark)
        self._cells += cells
        count = len(self._names)
        whole = len(self._cells) // count * count
        for start in range(0, whole, count):
            yield dict(zip(self._names, map(self._value, self._cells[start : start + count]), strict=True))
        del self._cells[:whole]

    def close(self) -> None:
        """Check that the table is complete. Raises MalformedTable."""
        if self._cells or self._rest.strip():
            text = self._rest.strip()[-200:]
            raise MalformedTable(
                f"the output ends within a record, with {len(self._cells)} fields and {text!r}"
            )

    def _value(self, cell: str) -> str:
        value = cell.strip()
        return "" if value in EMPTY else self._pool.setdefault(value, value)


def read_table(text: str, columns: Sequence[Column], mark: str) -> Iterator[dict[str, str]]:
    """Yield the records of a complete table. Raises MalformedTable at its end."""
    reader = TableReader(columns, mark)
    yield from reader.feed(text)
    reader.close()
