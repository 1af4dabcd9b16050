"""Tables that are described by their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from warpdeck.base.output import print_columns

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes longer than answering a verb
    from typing import Any

    Columns = Mapping[str, Callable[[dict[str, Any]], object]]

RIGHT = ">"


def print_rows(rows: Iterable[dict[str, Any]], columns: Columns, *, titles: bool = True) -> None:
    """Print a line for each row. `columns` maps each title to the cell of a row. A title after ">" is aligned to the right."""
    found = list(rows)
    cells = [[str(cell(row)) for row in found] for cell in columns.values()]
    heads = [[title.removeprefix(RIGHT)] if titles else [] for title in columns]
    right = frozenset(place for place, title in enumerate(columns) if title.startswith(RIGHT))
    print_columns([head + column for head, column in zip(heads, cells, strict=True)], right=right)
