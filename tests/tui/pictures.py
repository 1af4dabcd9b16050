"""Pictures of the screens for comparison. `python -m tests.tui.pictures [FOLDER]` takes the stored pictures again.

A stored picture contains the text of a screen at one size. For each theme it also contains the number of cells of
each style, and a checksum of their positions. A diff therefore shows changed text and changed colors. The key line
is left out, because it follows from the table of actions and has its own tests. With FOLDER, the pictures are also
written there as SVG files.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from rich.color import Color
from rich.style import Style
from textual.pilot import Pilot
from textual.strip import Strip

from tests.support.waiting import WAIT_S, eventually_async
from tests.tui.static_cluster import static_app
from tests.tui.static_site import NOW
from warpdeck_tui.app import DeckApp

KEPT = Path(__file__).parent / "kept"
SIZES = ((80, 24), (120, 40), (200, 60))
THEMES = ("deck-dark", "deck-light", "deck-contrast")


class Scene(NamedTuple):
    """The keys that open a screen from the queue, and texts that a complete screen shows."""

    keys: tuple[str, ...]
    shows: tuple[str, ...]


SCENES = {
    "queue": Scene((), ("llama-70b", "104_[0-19]")),
    "overview": Scene(("0",), ("Jobs of all users", "now")),
    "gpus": Scene(("2", "u"), ("gpu08", "idle")),
    "owners": Scene(("2", "o"), ("free:",)),
    "past": Scene(("2", "u", "less_than_sign"), ("ago,", "averages over")),
    "node": Scene(("2", "p"), ("node gpu01", "GPU 0", "100%┤")),
    "job": Scene(("enter",), ("[Log]", "clipped")),
    "metrics": Scene(("enter", "m"), ("[Metrics]", "loss")),
    "history": Scene(("4",), ("1 of 5", "exit 1")),
    "usage": Scene(("4", "b"), ("Usage:", "BY USER")),
    "sessions": Scene(("5",), ("jupyter", "8888", "device_count")),
    "partitions": Scene(("6",), ("[Partitions]", "short", "5 allocated")),
    "shares": Scene(("6", "tab", "tab", "tab"), ("[Shares]", "carol", "has a share of")),
    "form": Scene(
        (
            "n",
            "up",
            "/",
            *("down",) * 2,
            *"python train.py",
            *("down",) * 2,
            *"h100:4",
            *("down",) * 7,
            *"64G",
        ),
        ("New job", "--mem=64G", "starts now on gpu04"),
    ),
    "cancel": Scene(("g", *("space",) * 12, "c"), ("Cancel 8 jobs?", "y Yes")),
    "palette": Scene(("colon", *"gpu03"), ("Node gpu03", "allocated")),
    "priorities": Scene(("6", "tab", "tab", "tab", "tab"), ("[Priorities]", "5210", "= ")),
}
Taken = dict[str, str]
PAUSES, PAUSE_S = 2, 0.03


def freeze(set_attribute: Callable[[object, str, object], None], environ: Callable[[str, str], None]) -> None:
    """Fix the time, the time zone and the number of colors."""
    environ("TZ", "UTC")
    environ("COLORTERM", "truecolor")
    time.tzset()
    set_attribute(time, "time", lambda: NOW)


async def take(name: str, *, svg: Path | None = None) -> Taken:
    """Return the pictures of one scene in all themes, by size ("80x24")."""
    scene, found = SCENES[name], Taken()
    app = static_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await shows(pilot, app, SCENES["queue"].shows[:1])
        await pilot.press(*scene.keys)
        await shows(pilot, app, scene.shows)
        for width, height in SIZES:
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            await shows(pilot, app, scene.shows)
            sections: list[str] = []
            for theme in THEMES:
                await _apply_theme(pilot, app, theme)
                strips = await wait_until_unchanged(pilot, app)
                if not sections:
                    sections.append("\n".join(strip.text.rstrip() for strip in strips))
                sections.append(f"--- {theme}\n" + "\n".join(color_counts(strips)))
                if svg is not None:
                    app.save_screenshot(str(svg / f"{name}-{width}x{height}-{theme}.svg"))
            found[f"{width}x{height}"] = "\n".join(sections) + "\n"
            await _apply_theme(pilot, app, THEMES[0])
        app.workers.cancel_all()
    return found


async def _apply_theme(pilot: Pilot[None], app: DeckApp, theme: str) -> None:
    app.looks.use(theme)
    for screen in app.screen_stack:
        if hasattr(screen, "recolour"):
            screen.recolour()
    app.refresher.redraw()
    await pilot.pause()


async def wait_until_unchanged(pilot: Pilot[None], app: DeckApp) -> list[Strip]:
    """Return the lines of the screen without the key line, once they are unchanged for some pauses."""
    before: list[Strip] = []
    same = 0
    while same < PAUSES:
        await pilot.pause(PAUSE_S)
        strips = app.screen._compositor.render_strips()[:-1]
        same = same + 1 if strips == before else 0
        before = strips
    return before


async def shows(pilot: Pilot[None], app: DeckApp, words: Iterable[str], *, timeout_s: float = WAIT_S) -> None:
    """Wait until the screen shows all of these texts."""

    def text() -> str:
        return "\n".join(strip.text for strip in app.screen._compositor.render_strips())

    def are_shown() -> bool:
        shown = text()
        return all(word in shown for word in words)

    await eventually_async(
        are_shown, what=lambda: f"{words} in\n{text()}", timeout_s=timeout_s, pause_s=PAUSE_S
    )
    await pilot.pause()


def color_counts(strips: Iterable[Strip]) -> list[str]:
    """Return a line for each style with its number of cells, most frequent first, and a checksum of positions."""
    cells: Counter[str] = Counter()
    where = 0
    for strip in strips:
        for segment in strip:
            words = _words(segment.style or Style.null())
            cells[words] += segment.cell_length
            where = zlib.crc32(f"{words} {segment.cell_length}".encode(), where)
    lines = [
        f"{words:<34} {count:>6}"
        for words, count in sorted(cells.items(), key=lambda item: (-item[1], item[0]))
    ]
    return [*lines, f"{'where':<34} {where:08x}"]


def _words(style: Style) -> str:
    signs = [
        name for name in ("bold", "dim", "italic", "underline", "reverse", "strike") if getattr(style, name)
    ]
    return " ".join([_hex(style.color), "on", _hex(style.bgcolor), *signs])


def _hex(colour: Color | None) -> str:
    return "default" if colour is None else colour.get_truecolor().hex if colour.triplet else colour.name


def path_of(name: str, size: str) -> Path:
    """Return the path of a stored picture."""
    return KEPT / f"{name}-{size}.txt"


def main(words: list[str]) -> int:
    """Take all pictures again."""
    svg = Path(words[0]) if words else None
    KEPT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wd") as home:
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "HOME"):
            os.environ[name] = home
        os.chdir(home)
        freeze(setattr, os.environ.__setitem__)
        for name in SCENES:
            for size, picture in asyncio.run(take(name, svg=svg)).items():
                path_of(name, size).write_text(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main([str(Path(word).absolute()) for word in sys.argv[1:]]))
