"""Draws the app's screen as a PNG or SVG, as a terminal with RGB, 256 or 16 colors would show it.

A PNG shows what a terminal shows: colors are reduced as they are when they are written. The characters of blocks and
braille are drawn as shapes, because fonts leave gaps between them or lack them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from rich.cells import cell_len
from rich.color import Color, ColorSystem
from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from textual.strip import Strip

from warpdeck_tui.app import DeckApp

FONT_PX, CELL_WIDTH, CELL_HEIGHT = 15, 9, 18
FONTS = ("DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf")
Rgb = tuple[int, int, int]
NORMAL = [
    *[(0, 0, 0), (205, 49, 49), (13, 188, 121), (229, 229, 16)],
    *[(36, 114, 200), (188, 63, 188), (17, 168, 205), (204, 204, 204)],
]
BRIGHT = [
    *[(102, 102, 102), (241, 76, 76), (35, 209, 139), (245, 245, 67)],
    *[(59, 142, 234), (214, 112, 214), (41, 184, 219), (255, 255, 255)],
]
TERMINALS = {
    "dark": TerminalTheme((30, 30, 30), (204, 204, 204), NORMAL, BRIGHT),
    "light": TerminalTheme((255, 255, 255), (30, 30, 30), NORMAL, BRIGHT),
}
"""A terminal's own colors, on a dark and on a light background. The screens in 16 colors use only these."""
EIGHTHS_UP, EIGHTHS_RIGHT = "▁▂▃▄▅▆▇█", "▏▎▍▌▋▊▉█"
SHADES = {"░": 0.25, "▒": 0.5, "▓": 0.75}
BRAILLE, BRAILLE_END = 0x2800, 0x28FF
BRAILLE_DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of the dot of each bit."""
WINDOW = {
    "dark": {},
    "light": {"#292929": "#dfe3ee", "#c5c8c6": "#2b3047", "rgba(255,255,255,0.35)": "rgba(0,0,0,0.25)"},
}
"""For each kind of page, the replacements for the colors of the window frame, which Rich always draws dark."""
WEB_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""The font definitions, which are removed because browsers load no web fonts for a picture in a page."""
LOCAL_FONTS = "'Fira Code', 'JetBrains Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def svg_of(app: DeckApp, *, ground: str) -> str:
    """Return the screen as an SVG in a window frame for "dark" or "light" pages."""
    width, height = app.size
    console = Console(
        width=width,
        height=height,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        record=True,
        legacy_windows=False,
        safe_box=False,
    )
    pieces: list[Segment] = []
    for strip in lines_of(app):
        pieces += [*Segment.simplify(_without_notes(strip)), Segment.line()]
    console.print(Segments(pieces[:-1]))
    drawing = console.export_svg(title=app.title, theme=TERMINALS[ground], unique_id="warpdeck")
    drawing = WEB_FONTS.sub("", drawing).replace("Fira Code, monospace", LOCAL_FONTS)
    for old, new in WINDOW[ground].items():
        drawing = drawing.replace(old, new)
    return drawing


def _without_notes(strip: Strip) -> Iterator[Segment]:
    """Yield the pieces of a line without Textual's notes in their styles, so that more of them are alike."""
    for text, style, control in strip:
        if not control:
            yield Segment(text, style.clear_meta_and_links() if style else None)


def save_png(app: DeckApp, path: Path, *, ground: str) -> None:
    """Write the screen as a PNG, as a terminal with a dark or light background of its own shows it."""
    system = ColorSystem[
        {"256": "EIGHT_BIT", "standard": "STANDARD"}.get(app.console.color_system or "", "TRUECOLOR")
    ]
    picture = draw(lines_of(app), system=system, terminal=TERMINALS[ground])
    picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def lines_of(app: DeckApp) -> list[Strip]:
    """Return the lines of the screen."""
    return list(app.screen._compositor.render_strips())


def draw(strips: Sequence[Strip], *, system: ColorSystem, terminal: TerminalTheme) -> Image.Image:
    """Return the lines as a picture."""
    width = max((strip.cell_length for strip in strips), default=1)
    ground = tuple(terminal.background_color)
    picture = Image.new("RGB", (width * CELL_WIDTH, len(strips) * CELL_HEIGHT), ground)
    pen = ImageDraw.Draw(picture)
    for row, strip in enumerate(strips):
        column = 0
        for text, style, control in strip:
            if not control:
                column = _draw_text(
                    pen, column, row, text, style or Style.null(), system=system, terminal=terminal
                )
    return picture


def _draw_text(
    pen: ImageDraw.ImageDraw,
    column: int,
    row: int,
    text: str,
    style: Style,
    *,
    system: ColorSystem,
    terminal: TerminalTheme,
) -> int:
    """Draw text of one style, and return the column behind it."""
    ink = _rgb(style.color, system=system, terminal=terminal, is_text=True)
    ground = _rgb(style.bgcolor, system=system, terminal=terminal, is_text=False)
    if style.reverse:
        ink, ground = ground, ink
    if style.dim:
        ink = _mixed(ground, ink, 0.6)
    for char in text:
        width = cell_len(char)
        x, y = column * CELL_WIDTH, row * CELL_HEIGHT
        if width:
            pen.rectangle((x, y, x + width * CELL_WIDTH - 1, y + CELL_HEIGHT - 1), fill=ground)
        if char != " " and not _draw_shape(pen, x, y, char, ink=ink, ground=ground):
            pen.text((x, y), char, font=_font(bold=bool(style.bold)), fill=ink)
        if style.underline:
            pen.line((x, y + CELL_HEIGHT - 2, x + width * CELL_WIDTH - 1, y + CELL_HEIGHT - 2), fill=ink)
        column += width
    return column


def _rgb(color: Color | None, *, system: ColorSystem, terminal: TerminalTheme, is_text: bool) -> Rgb:
    known = (color or Color.default()).downgrade(system)
    red, green, blue = known.get_truecolor(terminal, foreground=is_text)
    return red, green, blue


def _mixed(ground: Rgb, ink: Rgb, share: float) -> Rgb:
    red, green, blue = (round(one + (other - one) * share) for one, other in zip(ground, ink, strict=True))
    return red, green, blue


@cache
def _font(*, bold: bool) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(FONTS[bold], FONT_PX)


def _draw_shape(pen: ImageDraw.ImageDraw, x: int, y: int, char: str, *, ink: Rgb, ground: Rgb) -> bool:
    """Draw a character of blocks or braille as a shape, and return whether it is one."""
    right, bottom = x + CELL_WIDTH - 1, y + CELL_HEIGHT - 1
    if char in EIGHTHS_UP:
        filled = round(CELL_HEIGHT * (EIGHTHS_UP.index(char) + 1) / 8)
        pen.rectangle((x, bottom + 1 - filled, right, bottom), fill=ink)
    elif char in EIGHTHS_RIGHT:
        filled = round(CELL_WIDTH * (EIGHTHS_RIGHT.index(char) + 1) / 8)
        pen.rectangle((x, y, x + filled - 1, bottom), fill=ink)
    elif char == "▀":
        pen.rectangle((x, y, right, y + CELL_HEIGHT // 2 - 1), fill=ink)
    elif char == "▐":
        pen.rectangle((x + CELL_WIDTH // 2, y, right, bottom), fill=ink)
    elif char in SHADES:
        pen.rectangle((x, y, right, bottom), fill=_mixed(ground, ink, SHADES[char]))
    elif BRAILLE <= ord(char) <= BRAILLE_END:
        for bit, (column, line) in enumerate(BRAILLE_DOTS):
            if ord(char) - BRAILLE >> bit & 1:
                left, top = x + 1 + column * 4, y + 1 + line * 4
                pen.rectangle((left, top, left + 2, top + 2), fill=ink)
    else:
        return False
    return True
