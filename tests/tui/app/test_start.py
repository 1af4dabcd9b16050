"""How the app starts: quickly, and before a controller has answered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from warpdeck.paths import Paths
from warpdeck_tui.app import DeckApp

HEAVY = (
    *("asyncssh", "uvloop", "aiosqlite", "sqlite3", "pynvml", "numpy", "markdown_it", "pygments"),
    *("warpdeck.fleet", "warpdeck.store", "warpdeck.sim", "warpdeck.cli"),
    *("warpdeck.policy", "warpdeck.controller", "warpdeck.config"),
)
"""What the core needs and the app does not: the first paint would wait for it."""
MOST_MODULES = 640
"""580 when this was written, a quarter of a second; 100 are our own. More is a reason to look at -X importtime."""


async def test_the_first_paint_waits_for_nobody(folder: Path) -> None:
    (folder / "home").mkdir()
    app = DeckApp(Paths(str(folder / "home")))
    app._watch = lambda: None  # type: ignore[method-assign,assignment]  # no controller ever answers
    async with app.run_test() as pilot:
        await pilot.pause()
        strips = app.screen._compositor.render_strips()
        text = "\n".join("".join(segment.text for segment in strip) for strip in strips)
        assert "warpdeck" in text and "connecting ..." in text and "q Quit" in text


def test_the_app_imports_little_and_nothing_that_it_does_not_show() -> None:
    heavy = f"print([name for name in {HEAVY!r} if name in sys.modules], len(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, warpdeck_tui.app; {heavy}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found, _, modules = done.stdout.rpartition(" ")
    assert found == "[]" and int(modules) <= MOST_MODULES
