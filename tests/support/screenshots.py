"""Take the README's pictures of the app over the demo's cluster: python -m tests.support.screenshots FOLDER.

The pictures are SVG files, each once for dark and once for light pages.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.support.drawing import svg_of
from tests.support.waiting import eventually_async
from textual.pilot import Pilot

from warpdeck.base.controller_daemon import wait_for_start
from warpdeck.base.paths import Paths
from warpdeck_tui.app import DeckApp

SIZE, HALF = (120, 30), (92, 24)
"""Columns and rows of the terminal for a picture of full and of half the page's width."""
BUSY = "llama-8b-dpo"
"""Name of a job that is always in the demo's queue."""
IDLE = 2
"""Maximum number of jobs shown as idle: the demo's shell, and one with GPUs that are not sampled yet."""
PREVIEW = ("°C", "loss")
"""Texts of the queue's preview after the job's GPUs were sampled and its log was read."""
SETTLED = "allocated, 1 blocked"
"""Text of the GPU screen after every GPU has been sampled."""

PAGES = {
    "dark": ("catppuccin-mocha", "gruvbox-dark", "nord", "tokyo-night"),
    "light": ("rose-pine-dawn", "solarized-light"),
}
"""For each kind of page, the themes that get a picture of the queue."""


async def take(paths: Paths, folder: Path, *, page: str) -> None:
    """Write all pictures for one kind of page, "dark" or "light"."""
    app = DeckApp(paths, everybody=True, theme=f"deck-{page}")

    def save(name: str) -> None:
        (folder / f"{name}.svg").write_text(svg_of(app, ground=page))

    async with app.run_test(size=SIZE) as pilot:
        await _until(
            pilot,
            app,
            lambda: (
                BUSY in _text(app)
                and _text(app).count("idle") <= IDLE
                and all(word in _text(app) for word in PREVIEW)
            ),
        )
        save(f"queue-{page}")
        await pilot.resize_terminal(*HALF)
        for theme in PAGES[page]:
            app.looks.use(theme)
            await pilot.pause()
            await _until(pilot, app, lambda: BUSY in _text(app))
            save(f"theme-{theme}")
        app.looks.use(f"deck-{page}")
        await pilot.press("2")
        await _until(pilot, app, lambda: SETTLED in _text(app) and _text(app).count("100%") > 1)
        save(f"gpus-{page}")
        await pilot.press("1", "enter", "m")
        await _until(pilot, app, lambda: "min" in _text(app) and "GPU" in _text(app).split("min")[1])
        save(f"metrics-{page}")
        app.workers.cancel_all()


async def _until(pilot: Pilot[None], app: DeckApp, condition: Callable[[], bool]) -> None:
    await eventually_async(condition, what=lambda: f"the screen for the picture in\n{_text(app)}")
    await pilot.pause()


def _text(app: DeckApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def main() -> int:
    """Run the demo and take the pictures in both themes."""
    os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
    folder = Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="wd") as home:
        os.environ["XDG_CONFIG_HOME"] = home  # ignores the user's own settings
        argv = [sys.executable, "-m", "warpdeck.sim.demo", "--home", home]
        with subprocess.Popen(argv, stdin=subprocess.PIPE) as child:
            wait_for_start(Paths(home), child)
            for page in PAGES:
                asyncio.run(take(Paths(home), folder, page=page))
            assert child.stdin is not None
            child.stdin.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
