"""How the app starts: quickly, and before a controller has answered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from warpdeck.paths import Paths
from warpdeck_tui.app import DeckApp

HEAVY = ("asyncssh", "uvloop", "aiosqlite", "pynvml", "warpdeck.fleet", "warpdeck.store", "warpdeck.sim")
"""What the core needs and the app does not: the first paint would wait for it."""


async def test_the_first_paint_waits_for_nobody(folder: Path) -> None:
    (folder / "home").mkdir()
    app = DeckApp(Paths(str(folder / "home")))
    app._watch = lambda: None  # type: ignore[method-assign,assignment]  # no controller ever answers
    async with app.run_test() as pilot:
        await pilot.pause()
        strips = app.screen._compositor.render_strips()
        text = "\n".join("".join(segment.text for segment in strip) for strip in strips)
        assert "warpdeck" in text and "connecting ..." in text and "q Quit" in text


def test_the_app_imports_nothing_that_it_does_not_show() -> None:
    program = f"import sys, warpdeck_tui.app; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
