"""A finished line of a line-API widget.

Textual gives such a widget neither its background nor its foreground: what a line does not say shows in the terminal's own
colours, black on black under a light theme. So every line is laid over the widget's base style.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip


def finished(segments: Iterable[Segment], width: int, *, base: Style, tail: Style | None = None) -> Strip:
    """The segments over `base`, in exactly `width` columns; neighbours of one style are joined to save bytes.

    `tail`: the style of what is filled up at the right, where it is not `base`.
    """
    strip = Strip(segments).apply_style(base).simplify()
    return strip.adjust_cell_length(width, base if tail is None else base + tail)


def blank(width: int, *, base: Style) -> Strip:
    """An empty line."""
    return Strip.blank(width, base)
