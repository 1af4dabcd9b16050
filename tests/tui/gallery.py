"""Pictures of all screens for comparison by eye: python -m tests.tui.gallery FOLDER [options].

Each scene of `pictures` is drawn as a terminal with RGB, 256 and 16 colors shows it, on dark and light, in three sizes.
FOLDER gets a PNG and an SVG of each picture, and index.html, which shows the pictures beside each other. With --before,
each picture stands beside the picture with the same name in another such folder.

    python -m tests.tui.gallery build/after --before build/before --scene queue --size 120x40
"""

from __future__ import annotations

import argparse
import asyncio
import html
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.drawing import save_png, svg_of
from tests.tui.pictures import SCENES, freeze, shows, wait_until_unchanged
from tests.tui.static_cluster import static_app

SIZES = ("80x24", "120x40", "200x50")
BUILD = "build/pictures"
COMPLETE_S = 10.0
"""Seconds to wait until a screen shows the texts of its scene. Then the picture is taken as it is."""


class Look(NamedTuple):
    """The number of colors of a terminal, with the variables that tell it, and a theme."""

    colors: str
    environ: dict[str, str]
    ground: str
    theme: str

    @property
    def name(self) -> str:
        return f"{self.colors}-{self.ground}"


RGB, MANY, FEW = (
    {"TERM": "xterm-256color", "COLORTERM": "truecolor"},
    {"TERM": "xterm-256color", "COLORTERM": ""},
    {"TERM": "xterm", "COLORTERM": ""},
)
LOOKS = (
    Look("rgb", RGB, "dark", "deck-dark"),
    Look("rgb", RGB, "light", "deck-light"),
    Look("256", MANY, "dark", "deck-dark"),
    Look("256", MANY, "light", "deck-light"),
    Look("16", FEW, "dark", "deck-ansi"),
    Look("16", FEW, "light", "deck-ansi-light"),
)


async def take(name: str, look: Look, sizes: Iterable[str], folder: Path) -> None:
    """Write the pictures of one scene in all sizes."""
    scene = SCENES[name]
    os.environ.update(look.environ)
    app = static_app(theme=look.theme)
    async with app.run_test(size=_cells(SIZES[0])) as pilot:
        await shows(pilot, app, SCENES["queue"].shows[:1])
        await pilot.press(*scene.keys)
        await pilot.pause()
        for size in sizes:
            await pilot.resize_terminal(*_cells(size))
            await pilot.pause()
            try:
                await shows(pilot, app, scene.shows, timeout_s=COMPLETE_S)
            except AssertionError:
                print(f"{picture_name(name, size, look)} does not show all of {scene.shows}", flush=True)
            await wait_until_unchanged(pilot, app)
            path = folder / picture_name(name, size, look)
            save_png(app, path.with_suffix(".png"), ground=look.ground)
            path.with_suffix(".svg").write_text(svg_of(app, ground=look.ground))
        app.workers.cancel_all()


def _cells(size: str) -> tuple[int, int]:
    width, _, height = size.partition("x")
    return int(width), int(height)


def picture_name(scene: str, size: str, look: Look) -> str:
    """Return the name of a picture's files, without suffix."""
    return f"{scene}-{size}-{look.name}"


PAGE = """<!doctype html>
<meta charset="utf-8">
<title>Pictures of warpdeck</title>
<style>
body {{ font: 14px system-ui, sans-serif; margin: 2em; background: #888; }}
figure {{ display: inline-block; margin: 0 1em 1em 0; vertical-align: top; max-width: 48%; }}
img {{ max-width: 100%; border: 1px solid #000; }}
nav a {{ margin-right: 1em; }}
</style>
<h1>Pictures of warpdeck</h1>
<nav>{links}</nav>
{sections}
"""


def index(
    folder: Path, scenes: Sequence[str], sizes: Sequence[str], looks: Sequence[Look], *, before: Path | None
) -> str:
    """Return the page that shows the pictures beside each other."""
    sections: list[str] = []
    for scene in scenes:
        sections.append(f'<h2 id="{scene}">{scene}</h2>')
        for size in sizes:
            figures: list[str] = []
            for look in looks:
                name = f"{picture_name(scene, size, look)}.png"
                if before is not None and (before / name).exists():
                    figures.append(
                        _figure(os.path.relpath(before / name, folder), f"{size} {look.name}, before")
                    )
                figures.append(_figure(name, f"{size} {look.name}"))
            sections.append("\n".join(figures))
    links = " ".join(f'<a href="#{scene}">{scene}</a>' for scene in scenes)
    return PAGE.format(links=links, sections="\n".join(sections))


def _figure(path: str, caption: str) -> str:
    png, svg = html.escape(path), html.escape(str(Path(path).with_suffix(".svg")))
    return (
        f'<figure><a href="{png}"><img src="{png}" loading="lazy"></a>'
        f'<figcaption>{html.escape(caption)} <a href="{svg}">SVG</a></figcaption></figure>'
    )


def main(argv: Sequence[str]) -> int:
    """Take the pictures and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.tui.gallery", description="Pictures of all screens."
    )
    parser.add_argument("folder", type=Path, nargs="?", default=Path(BUILD), help=f"default: {BUILD}")
    parser.add_argument(
        "--before", type=Path, help="a folder with earlier pictures to show beside the new ones"
    )
    parser.add_argument(
        "--scene", action="append", choices=list(SCENES), help="only this scene; can be repeated"
    )
    parser.add_argument("--size", action="append", choices=SIZES, help="only this size; can be repeated")
    parser.add_argument(
        "--colors", action="append", choices=["rgb", "256", "16"], help="only this number of colors"
    )
    given = parser.parse_args(argv)
    folder, before = given.folder.absolute(), given.before.absolute() if given.before else None
    scenes, sizes = given.scene or list(SCENES), given.size or list(SIZES)
    looks = [look for look in LOOKS if not given.colors or look.colors in given.colors]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wd") as home:
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "HOME"):
            os.environ[name] = home
        os.environ.pop("NO_COLOR", None)
        os.chdir(home)
        freeze(setattr, os.environ.__setitem__)
        for scene in scenes:
            print(scene, flush=True)
            for look in looks:
                asyncio.run(take(scene, look, sizes, folder))
    (folder / "index.html").write_text(index(folder, scenes, sizes, looks, before=before))
    print(folder / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
