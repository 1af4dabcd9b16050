"""The type of a cell, and formats that all screens share: state symbols, ages, sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck_tui.widgets.glyphs import UNKNOWN
from warpdeck_tui.widgets.meter import thin

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
"""A symbol for each state, shown beside Slurm's letters, so that no information depends on color alone."""


class Cell(NamedTuple):
    """Text with the name of its style: a state name, muted, accent, warn or header. "" is plain."""

    text: str
    style: str = ""


Line = tuple[Cell, ...]


TITLE_WIDTH = 9
LEAST_ROOM = 8
"""If a title leaves fewer columns than this, its line is cut off by the terminal instead of folded."""


def fact(title: str, words: str, style: str = "") -> Line:
    """Return a line with a fact: the right-aligned title, then the text."""
    return Cell(f"{title:>{TITLE_WIDTH}} ", "muted"), Cell(words, style)


def folded(line: Line, width: int) -> list[Line]:
    """Return the line folded to `width` columns.

    Continuation lines are indented to the first word after the title.
    """
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
            # a long word such as a path, which has no better place to break
            *pieces, word = chop_cells(word, room) or [""]
            for piece in pieces:
                now.append(Cell(piece, cell.style))
                lines.append(tuple(now))
                now = [Cell(" " * len(line[0].text))]
            now.append(Cell(word, cell.style))
            used += cell_len(word)
    return [*lines, tuple(now)]


def height(lines: Iterable[Line], width: int) -> int:
    """Return the number of lines that these lines take if they are folded to `width` columns."""
    return sum(len(folded(line, width)) for line in lines)


def _words(text: str) -> list[str]:
    """Return the words of the text, each with the blanks that follow it."""
    return re.findall(r"\s*\S+\s*|\s+", text)


def glyph(state: str) -> str:
    return GLYPHS.get(state, "?")


def age(seconds: float) -> str:
    """Return a duration in at most two units: 8s, 12m, 3h05, 2d4h. Used for values that are only
    approximate.
    """
    total = max(0, round(seconds))
    if total < 60:
        return f"{total}s"
    if total < 3600:
        return f"{total // 60}m"
    if total < 86_400:
        return f"{total // 3600}h{total % 3600 // 60:02d}"
    return f"{total // 86_400}d{total % 86_400 // 3600}h"


def left(at_unix: float, now: float) -> str:
    """Return the time left until `at_unix`, or "" if it is past."""
    return age(at_unix - now) if at_unix - now >= 1.0 else ""


def due(at_unix: float, now: float) -> str:
    """Return when an event is expected, such as "in about 3h05", or "soon" if the time is past.

    Expected times pass, for example, if other jobs run longer than usual.
    """
    return f"in about {left(at_unix, now)}" if left(at_unix, now) else "soon"


def memory(used: int | None, total: int = 0) -> str:
    """Return an amount of memory, such as "12G of 80G", "? of 80G" or "12G"."""
    known = format_memory(used) or "?"
    return f"{known} of {format_memory(total)}" if total else known


def known(value: float | None, unit: str) -> str:
    """Return a measured value with its unit, or "?" if the driver did not report it."""
    return "?" if value is None else f"{value:.0f}{unit}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 GPU" or "2 GPUs"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def thin_bar(percent: float | None, width: int, style: str = "accent") -> tuple[Cell, ...]:
    """Return a bar of exactly `width` characters as a thick line on a thin one, in halves of a character.

    Bars of neighboring rows do not touch each other, unlike those of full blocks. Dots mean an unknown value. The
    caller writes the number beside it.
    """
    if percent is None:
        return (Cell(UNKNOWN * width, "track"),)
    full, rest = thin(percent, width)
    return Cell(full, style), Cell(rest, "track")
