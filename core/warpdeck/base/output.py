"""Tables and JSON for the terminal: aligned columns, cut to the width of a terminal, and complete in a pipe.

Control characters in text of users (names, reasons, commands) are replaced, because they would control the
terminal of the reader.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from warpdeck_agent.client.visible import visible_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def print_json(value: Any) -> None:
    """Print one JSON document."""
    import json  # takes 3 ms to import, and few calls print JSON

    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def print_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()
) -> None:
    """Print columns as wide as their content. On a terminal, lines are cut at its edge. An empty head is not
    printed.
    """
    print_columns(list(zip(*([head] if head else []), *rows, strict=True)), right=right)


def print_columns(table: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()) -> None:
    """Print a table that is given as columns, each with its title if it has one."""
    columns = [_cleaned(column) for column in table]
    form = "  ".join(
        f"%{'' if index in right else '-'}{max(map(len, column), default=0)}s"
        for index, column in enumerate(columns)
    )
    lines = [(form % row).rstrip() for row in zip(*columns, strict=True)]
    edge = os.get_terminal_size().columns if sys.stdout.isatty() else 0
    if edge:
        lines = [line[: edge - 1] + "…" if len(line) > edge else line for line in lines]
    sys.stdout.write("".join(line + "\n" for line in lines))


def _cleaned(column: Sequence[str]) -> Sequence[str]:
    """Return a column without control characters. One check covers all cells, because nearly all are
    printable.
    """
    return column if "".join(column).isprintable() else [clean(cell) for cell in column]


def clean(text: str) -> str:
    """Return the text with control characters shown as "?"."""
    return visible_word(text)


def format_time(at_unix: float | None) -> str:
    """Return the local date and time, or "" for None."""
    return "" if not at_unix else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at_unix))


def format_count(count: float | None) -> str:
    """Return a number with up to three decimals, or "" for None."""
    if count is None:
        return ""
    return f"{count:.0f}" if count == int(count) else f"{count:.3f}"


def print_note(text: str) -> None:
    """Print a remark to standard error. On a terminal, control characters are replaced."""
    print(clean(text) if sys.stderr.isatty() else text, file=sys.stderr)
