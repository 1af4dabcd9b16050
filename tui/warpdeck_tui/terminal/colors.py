"""Line filter for terminals with 256 colors."""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color as RichColor
from rich.color import ColorType
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from warpdeck_tui.table.xterm_colors import nearest


class Colors256(LineFilter):
    """Replaces RGB colors by the nearest of xterm's 256 colors. Every drawn line passes through it.

    A theme's own colors are already among these, so only mixed colors change, such as the background behind a dialog,
    and RGB colors in a log.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment
            if segment.style is None
            else Segment(segment.text, _in_256_colors(segment.style), segment.control)
            for segment in segments
        ]


def _in_256_colors(style: Style) -> Style:
    instead = _replacement(style.color, style.bgcolor)
    return style + instead if instead else style


@lru_cache(maxsize=4096)
def _replacement(color: RichColor | None, background: RichColor | None) -> Style | None:
    """Return a style with the replaced colors, or None if neither is an RGB color."""
    if not any(each is not None and each.type is ColorType.TRUECOLOR for each in (color, background)):
        return None
    return Style.from_color(_replaced(color), _replaced(background))


def _replaced(color: RichColor | None) -> RichColor | None:
    if color is None or color.triplet is None or color.type is not ColorType.TRUECOLOR:
        return color
    return RichColor.from_ansi(nearest(tuple(color.triplet)))
