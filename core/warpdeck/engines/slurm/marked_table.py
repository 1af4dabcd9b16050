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


def read_table(text: str, columns: Sequence[Column], mark: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each record by our names, without padding; "" for a field without a value.

    Raises MalformedTable.
    """
    cells, count = text.split(mark), len(columns)
    if len(cells) % count != 1 or cells[-1].strip():
        raise MalformedTable(
            f"{len(cells) - 1} fields are no multiple of {count}; it ends with {cells[-1][-80:]!r}"
        )
    names = [column.name for column in columns]
    for start in range(0, len(cells) - 1, count):
        values = [cell.strip() for cell in cells[start : start + count]]
        yield {name: "" if value in EMPTY else value for name, value in zip(names, values, strict=True)}
