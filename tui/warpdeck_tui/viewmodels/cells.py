"""A cell, and the small forms that all screens share: glyphs, ages, sizes."""

from __future__ import annotations

import re
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

from warpdeck.notation.values.memory_sizes import format_memory

GLYPHS = {
    "PENDING": "◌",
    "CONFIGURING": "◔",
    "RUNNING": "●",
    "COMPLETING": "◕",
    "COMPLETED": "✓",
    "CANCELLED": "⊘",
    "FAILED": "✗",
    "TIMEOUT": "◷",
    "NODE_FAIL": "⚠",
    "OUT_OF_MEMORY": "✗",
    "SUSPENDED": "◫",
    "PREEMPTED": "↩",
    "DEADLINE": "◷",
    "BOOT_FAIL": "⚠",
}
"""A glyph beside Slurm's letters: colour never carries the meaning alone."""


class Cell(NamedTuple):
    """Text with the name of its style ("" is plain): state names, muted, accent, warn, header."""

    text: str
    style: str = ""


Line = tuple[Cell, ...]


TITLE_WIDTH = 9
LEAST_ROOM = 8
"""A line whose title leaves less than this is cut by the terminal instead of folded."""


def fact(title: str, words: str, style: str = "") -> Line:
    """A line of facts: the title at the right of its column, then the words."""
    return Cell(f"{title:>{TITLE_WIDTH}} ", "muted"), Cell(words, style)


def folded(line: Line, width: int) -> list[Line]:
    """The line in as many as it takes; what goes on stands under the first word after the title."""
    room = width - len(line[0].text) if line else 0
    if room < LEAST_ROOM or sum(cell_len(cell.text) for cell in line) <= width:
        return [line]
    lines: list[Line] = []
    now, used = [line[0]], 0
    for cell in line[1:]:
        for word in _words(cell.text):
            if used + cell_len(word.rstrip()) > room and used:
                lines.append(tuple(now))
                now, used, word = [Cell(" " * len(line[0].text))], 0, word.lstrip()
            *pieces, word = chop_cells(word, room) or [""]  # a path: there is no better place to break it
            for piece in pieces:
                now.append(Cell(piece, cell.style))
                lines.append(tuple(now))
                now = [Cell(" " * len(line[0].text))]
            now.append(Cell(word, cell.style))
            used += cell_len(word)
    return [*lines, tuple(now)]


def _words(text: str) -> list[str]:
    """Words with the blanks behind them."""
    return re.findall(r"\s*\S+\s*|\s+", text)


def glyph(state: str) -> str:
    return GLYPHS.get(state, "?")


def age(seconds: float) -> str:
    """A duration in two units at most: 8s, 12m, 3h05, 2d4h. For what is only roughly known."""
    total = max(0, round(seconds))
    if total < 60:
        return f"{total}s"
    if total < 3600:
        return f"{total // 60}m"
    if total < 86_400:
        return f"{total // 3600}h{total % 3600 // 60:02d}"
    return f"{total // 86_400}d{total % 86_400 // 3600}h"


def left(at_unix: float, now: float) -> str:
    """How long it is until then, "" if it is overdue."""
    return age(at_unix - now) if at_unix - now >= 1.0 else ""


def due(at_unix: float, now: float) -> str:
    """When something is expected: "in about 3h05"; "soon" if it is overdue, as where others run longer than they used to."""
    return f"in about {left(at_unix, now)}" if left(at_unix, now) else "soon"


def memory(used: int | None, total: int = 0) -> str:
    """ "12G of 80G", "? of 80G", "12G"."""
    known = format_memory(used) or "?"
    return f"{known} of {format_memory(total)}" if total else known


def known(value: float | None, unit: str) -> str:
    """A reading with its unit; "?" where the driver did not say."""
    return "?" if value is None else f"{value:.0f}{unit}"


def plural(count: int, noun: str) -> str:
    """ "1 GPU", "2 GPUs"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
