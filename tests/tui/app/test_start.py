"""How the app starts: quickly, and before a controller has answered."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.css import stylesheet
from textual.css.model import RuleSet
from textual.css.parse import parse
from textual.css.types import CSSLocation
from textual.pilot import Pilot
from textual.theme import BUILTIN_THEMES

from warpdeck.base.paths import Paths
from warpdeck.protocol.results import Delta
from warpdeck_tui.app import DeckApp
from warpdeck_tui.terminal.preload import LATER

HEAVY = (
    *("asyncssh", "uvloop", "aiosqlite", "sqlite3", "pynvml", "numpy", "markdown_it", "pygments"),
    *("hashlib", "gzip", "csv", "textual.document"),
    *("warpdeck.fleet", "warpdeck.store", "warpdeck.sim", "warpdeck.cli", "warpdeck.snapshots"),
    *("warpdeck.policy", "warpdeck.controller", "warpdeck.config", "warpdeck.notation.request.job_request"),
    *LATER,
)
"""What the core needs, or the app later, and the first frame does not: it would wait for it."""
MOST_MODULES = 500
"""490 when this was written, a fifth of a second; 80 are our own. More is a reason to look at -X importtime."""
APART = {
    f"warpdeck_tui.{name}"
    for name in ("terminal.ascii_fallback", "entry", "terminal.terminal_guard", "plain", "serve")
}
"""What starts the app is there before it; the others are programs of their own."""


async def test_the_first_paint_waits_for_nobody(folder: Path) -> None:
    async with waiting_app(folder) as (app, _):
        strips = app.screen._compositor.render_strips()
        text = "\n".join("".join(segment.text for segment in strip) for strip in strips)
        assert "warpdeck" in text and "Connecting..." in text and "q Quit" in text


async def test_the_first_paint_reads_one_theme_and_each_style_sheet_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counting(
        scope: str, css: str, read_from: CSSLocation, *args: object, **more: object
    ) -> Iterable[RuleSet]:
        read.append(Path(str(read_from[0])).name)
        return parse(scope, css, read_from, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(stylesheet, "parse", counting)
    async with waiting_app(folder) as (app, _):
        assert len(app.available_themes) == len(BUILTIN_THEMES) + 1
        assert read.count("app.tcss") == 1


async def test_the_first_rows_do_not_wait_for_the_pace_of_news(folder: Path) -> None:
    async with waiting_app(folder) as (app, _):
        app.updates.linked("ada")
        app.updates.told(Delta(ready=True))
        assert not app.refresher.is_planned
        app.updates.told(Delta())
        assert app.refresher.is_planned


@asynccontextmanager
async def waiting_app(folder: Path) -> AsyncIterator[tuple[DeckApp, Pilot[None]]]:
    """No controller ever answers it."""
    (folder / "home").mkdir()
    app = DeckApp(Paths(str(folder / "home")))
    app._watch = lambda: None  # type: ignore[method-assign,assignment]
    async with app.run_test() as pilot:
        await pilot.pause()
        yield app, pilot


def python(program: str) -> str:
    """What it prints, in a process that has imported nothing."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_the_app_imports_little_and_nothing_that_it_does_not_show() -> None:
    counted = "sum(not (name.startswith('warpdeck') and hasattr(each, '__path__')) for name, each in sys.modules.items())"
    heavy = f"print([name for name in {HEAVY!r} if name in sys.modules], {counted})"
    found, _, modules = python(f"import sys, warpdeck_tui.app; {heavy}").rpartition(" ")
    assert found == "[]" and int(modules) <= MOST_MODULES


def test_when_the_rows_are_there_all_that_a_key_may_open_is_imported(folder: Path) -> None:
    left = set(python(WARMED).split())
    assert left == APART


WARMED = """
import asyncio, pkgutil, sys
import warpdeck_tui
from warpdeck.protocol.results import Delta
from warpdeck.base.paths import Paths
from warpdeck_tui.app import DeckApp
from warpdeck_tui.terminal.preload import LATER

async def main():
    app = DeckApp(Paths("nowhere"))
    app._watch = lambda: None
    async with app.run_test() as pilot:
        await pilot.pause()
        assert not set(LATER) & set(sys.modules)
        app.updates.told(Delta(ready=True))
        while app.workers or LATER[-1] not in sys.modules:
            await pilot.pause(0.01)

asyncio.run(main())
names = [each.name for each in pkgutil.walk_packages(warpdeck_tui.__path__, "warpdeck_tui.")]
print(*(name for name in names if name not in sys.modules))
"""
