"""Highlights the matches of a pattern in a drawn line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.segment import Segment
from rich.style import Style


def spans(text: str, pattern: re.Pattern[str]) -> list[tuple[int, int]]:
    """Return the matches as (start, end) in characters, in order. Empty matches are omitted."""
    return [found.span() for found in pattern.finditer(text) if found.end() > found.start()]


def pointed_out(segments: Iterable[Segment], where: Iterable[tuple[int, int]], style: Style) -> list[Segment]:
    """Return the segments with `style` applied to the characters of the spans.

    The spans are in order and do not overlap.
    """
    rest = list(where)
    drawn: list[Segment] = []
    offset = 0
    for text, own, control in segments:
        at = 0
        while rest and rest[0][0] < offset + len(text):
            start, end = max(at, rest[0][0] - offset), min(len(text), rest[0][1] - offset)
            drawn.append(Segment(text[at:start], own, control))
            drawn.append(Segment(text[start:end], own + style if own else style, control))
            at = end
            if rest[0][1] > offset + len(text):
                break
            rest.pop(0)
        drawn.append(Segment(text[at:], own, control))
        offset += len(text)
    return [segment for segment in drawn if segment.text]
