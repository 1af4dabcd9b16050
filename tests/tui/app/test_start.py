"""The start of the app is fast and does not wait for a controller."""

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
from warpdeck.protocol.results import Delta, Welcome
from warpdeck_tui.app import DeckApp
from warpdeck_tui.terminal.preload import LATER

HEAVY = (
    *("asyncssh", "uvloop", "aiosqlite", "sqlite3", "pynvml", "numpy", "markdown_it", "pygments"),
    *("hashlib", "gzip", "csv", "textual.document"),
    *("warpdeck.fleet", "warpdeck.store", "warpdeck.sim", "warpdeck.cli", "warpdeck.snapshots"),
    *("warpdeck.policy", "warpdeck.controller", "warpdeck.config", "warpdeck.notation.request.job_request"),
    *LATER,
)
"""Modules that the first frame does not need. Their import would delay it."""
MOST_MODULES = 520
"""There were 511 when this was written, which take 0.2 s; 90 are our own. If there are more, use -X importtime."""
NOT_PRELOADED = {
    f"warpdeck_tui.{name}"
    for name in (
        "terminal.ascii_fallback",
        "entry",
        "terminal.terminal_guard",
        "plain",
        "plain_overview",
        "viewmodels.nodes.gpu_words",
        "serve",
    )
}
"""Modules that are never preloaded: they start the app, or belong to separate programs such as the plain screens."""


async def test_the_first_frame_does_not_wait_for_the_controller(folder: Path) -> None:
    async with waiting_app(folder) as (app, _):
        strips = app.screen._compositor.render_strips()
        text = "\n".join("".join(segment.text for segment in strip) for strip in strips)
        assert "warpdeck" in text and "Connecting..." in text and "q Quit" in text


async def test_the_first_frame_reads_one_theme_and_each_style_sheet_once(
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


async def test_the_first_rows_are_drawn_without_the_refresh_delay(folder: Path) -> None:
    async with waiting_app(folder) as (app, _):
        app.updates.linked(Welcome(user="ada"))
        app.updates.told(Delta(ready=True))
        assert not app.refresher.is_planned
        app.updates.told(Delta())
        assert app.refresher.is_planned


@asynccontextmanager
async def waiting_app(folder: Path) -> AsyncIterator[tuple[DeckApp, Pilot[None]]]:
    """Run the app without any answer from a controller."""
    (folder / "home").mkdir()
    app = DeckApp(Paths(str(folder / "home")))
    app._watch = lambda: None  # type: ignore[method-assign,assignment]
    async with app.run_test() as pilot:
        await pilot.pause()
        yield app, pilot


def python(program: str) -> str:
    """Return the output of a program in a new interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_the_app_imports_few_modules_for_the_first_frame() -> None:
    counted = "sum(not (name.startswith('warpdeck') and hasattr(each, '__path__')) for name, each in sys.modules.items())"
    heavy = f"print([name for name in {HEAVY!r} if name in sys.modules], {counted})"
    found, _, modules = python(f"import sys, warpdeck_tui.app; {heavy}").rpartition(" ")
    assert found == "[]" and int(modules) <= MOST_MODULES


def test_all_other_modules_are_preloaded_after_the_first_rows(folder: Path) -> None:
    left = set(python(PRELOAD_PROGRAM).split())
    assert left == NOT_PRELOADED


PRELOAD_PROGRAM = """
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
