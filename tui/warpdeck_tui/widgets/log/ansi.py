"""Parses colors in a log, and drops all other escape and control sequences.

Colors are ECMA-48 SGR sequences, as written by ls, pytest and rich. A log is the output of any program. It
must not move the cursor, set the title or write the clipboard. Blinking and concealed text are ignored, too,
because they hide content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from warpdeck.base.escapes import SEQUENCE
from warpdeck_agent.client.visible import CONTROL_CODES
from warpdeck_tui.table.palette import PLAIN, Palette

TAB_COLUMNS = 8
MAX_SGR_BYTES = 128
"""Largest length of a color sequence in bytes. Real ones have under forty, so a longer one is noise."""
_SGR = re.compile(rb"\x1b\[([0-9;:]{0,%d})m" % MAX_SGR_BYTES)
_SPLIT = re.compile(rb"(" + SEQUENCE + rb")")
_DROPPED = dict.fromkeys(CONTROL_CODES - {ord("\t")})
_ATTRIBUTES = {
    1: Style(bold=True),
    2: Style(dim=True),
    3: Style(italic=True),
    4: Style(underline=True),
    7: Style(reverse=True),
    9: Style(strike=True),
    22: Style(bold=False, dim=False),
    23: Style(italic=False),
    24: Style(underline=False),
    27: Style(reverse=False),
    29: Style(strike=False),
}


def segments(line: bytes) -> list[Segment]:
    """Return a line of a log as styled text. Tabs are expanded, and bytes that are not UTF-8 are replaced."""
    if b"\x1b" not in line:
        return [Segment(_tabbed(_text(line), 0), PLAIN)] if line else []
    found: list[Segment] = []
    style, column = PLAIN, 0
    for piece in _SPLIT.split(line):
        if piece.startswith(b"\x1b"):
            sgr = _SGR.fullmatch(piece)
            if sgr:
                style = apply_sgr(style, sgr.group(1))
        elif text := _tabbed(_text(piece), column):
            column += len(text)
            found.append(Segment(text, style))
    return found


def themed(style: Style, styles: Palette) -> Style:
    """Replace the terminal's 16 colors by those of the theme, except in text that has a background color."""
    colour = style.color
    if colour is None or colour.number is None or colour.number > 15 or style.bgcolor is not None:
        return style
    return style + styles.get(f"ansi{colour.number}", PLAIN)


def _text(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return text if text.isprintable() else text.translate(_DROPPED)


def _tabbed(text: str, column: int) -> str:
    if "\t" not in text:
        return text
    offset = column % TAB_COLUMNS
    return (" " * offset + text).expandtabs(TAB_COLUMNS)[offset:]


@lru_cache(4096)
def apply_sgr(style: Style, parameters: bytes) -> Style:
    """Return the style after an SGR sequence with these parameters.

    `parameters` consists of digits, `;` and `:`, and has at most MAX_SGR_BYTES bytes.
    """
    groups = iter(parameters.split(b";"))
    for group in groups:
        first, *parts = [int(each or b"0") for each in group.split(b":")]
        if first in (38, 48, 58):
            colour = _in_group(parts) if parts else _in_list(groups)
            style = _coloured(style, first, colour)
        elif first == 4 and parts:
            style += _ATTRIBUTES[4 if parts[0] else 24]
        else:
            style = _simple(style, first)
    return style


def _simple(style: Style, code: int) -> Style:
    """Return the style after a code without parameters."""
    if code in _ATTRIBUTES:
        return style + _ATTRIBUTES[code]
    base, number = divmod(code, 10)
    if code == 0:
        return PLAIN
    if code == 39:
        return style.without_color + Style(bgcolor=style.bgcolor)
    if code == 49:
        return style.without_color + Style(color=style.color)
    if number < 8 and base in (3, 4, 9, 10):
        return _coloured(style, 48 if base in (4, 10) else 38, number + 8 * (base >= 9))
    return style


def _coloured(style: Style, code: int, colour: int | tuple[int, int, int] | None) -> Style:
    """Return the style with this color, which is a number of the 256 or a tuple (red, green, blue).

    The color of underlines (code 58) is not shown.
    """
    if colour is None or code == 58:
        return style
    found = Color.from_ansi(colour) if isinstance(colour, int) else Color.from_rgb(*colour)
    return style + (Style(bgcolor=found) if code == 48 else Style(color=found))


def _in_list(groups: Iterator[bytes]) -> int | tuple[int, int, int] | None:
    """Return the color of `38;5;N` or `38;2;R;G;B`. The values after 38 are consumed from `groups`."""
    values = (_byte(int(each)) if each.isdigit() else 0 for each in groups)
    kind = next(values, -1)
    if kind == 5:
        return next(values, 0)
    return (next(values, 0), next(values, 0), next(values, 0)) if kind == 2 else None


def _in_group(parts: list[int]) -> int | tuple[int, int, int] | None:
    """Return the color of `38:5:N`, `38:2:R:G:B` or, as in ITU T.416, `38:2:SPACE:R:G:B`."""
    if parts[0] == 5 and len(parts) > 1:
        return _byte(parts[1])
    if parts[0] == 2 and len(parts) > 3:
        red, green, blue = parts[2:5] if len(parts) > 4 else parts[1:4]
        return _byte(red), _byte(green), _byte(blue)
    return None


def _byte(value: int) -> int:
    return min(255, value)
