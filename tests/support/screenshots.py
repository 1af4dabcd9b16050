"""python -m tests.support.screenshots FOLDER: pictures (SVG) of the app over the demo's cluster, for the README."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from textual.pilot import Pilot

from warpdeck.base.controller_daemon import wait_for_start
from warpdeck.base.paths import Paths
from warpdeck_tui.app import DeckApp

from .waiting import comes

SIZE = (120, 34)
BUSY = "llama-8b-dpo"
"""A kind of job that the demo always has."""
IDLE = 2
"""The demo's shell does nothing; all others seem to, until their GPUs have been read once."""

SETTLED = "held, 1 blocked"
"""Of the demo's GPUs, once all have been read since its past was over."""


async def take(paths: Paths, folder: Path) -> None:
    """All pictures."""
    app = DeckApp(paths, everybody=True)
    async with app.run_test(size=SIZE) as pilot:
        await _until(pilot, lambda: BUSY in _text(app) and _text(app).count("idle") <= IDLE)
        app.save_screenshot(str(folder / "queue.svg"))
        await pilot.press("2")
        await _until(pilot, lambda: SETTLED in _text(app))
        app.save_screenshot(str(folder / "gpus.svg"))
        await pilot.press("1", "enter", "m")
        await _until(pilot, lambda: "least" in _text(app) and "GPU" in _text(app).split("least")[1])
        app.save_screenshot(str(folder / "metrics.svg"))
        app.workers.cancel_all()


async def _until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    await comes(condition, what="the screen to be taken")
    await pilot.pause()


def _text(app: DeckApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def main() -> int:
    """Runs the demo for as long as it takes."""
    os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
    folder = Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="wd") as home:
        os.environ["XDG_CONFIG_HOME"] = home  # nobody's own theme and keys
        argv = [sys.executable, "-m", "warpdeck.sim.demo", "--home", home]
        with subprocess.Popen(argv, stdin=subprocess.PIPE) as child:
            wait_for_start(Paths(home), child)
            asyncio.run(take(Paths(home), folder))
            assert child.stdin is not None
            child.stdin.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
