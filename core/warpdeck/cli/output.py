"""Tables and JSON for the terminal: aligned columns, cut to the width of a terminal, whole in a pipe."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any


def print_json(value: Any) -> None:
    """One JSON document."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def print_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()
) -> None:
    """Columns as wide as their content; the last one is cut at the terminal's edge."""
    table = [list(head), *[list(row) for row in rows]]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    edge = os.get_terminal_size().columns if sys.stdout.isatty() else 0
    for row in table:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(cells).rstrip()
        print(line[: edge - 1] + "…" if edge and len(line) > edge else line)


def note(text: str) -> None:
    """A remark beside the result."""
    print(text, file=sys.stderr)
