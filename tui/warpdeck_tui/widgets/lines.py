"""Functions that complete a line of a line widget.

Textual applies neither a background nor a foreground color to the lines of these widgets. Text without a
style would have the terminal's own colors, for example black on black under a light theme. So every line is
combined with the widget's base style.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip


def finished(segments: Iterable[Segment], width: int, *, base: Style, tail: Style | None = None) -> Strip:
    """Return the segments over `base`, in exactly `width` columns.

    Adjacent segments of one style are joined to save bytes. `tail` is the style of the padding at the right,
    if it is not `base`.
    """
    strip = Strip(segments).apply_style(base).simplify()
    return strip.adjust_cell_length(width, base if tail is None else base + tail)


def blank(width: int, *, base: Style) -> Strip:
    """Return an empty line."""
    return Strip.blank(width, base)
