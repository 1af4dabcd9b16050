"""Measure the time from a key in the submission form to its verdict, with many pending jobs in the queue.

`python -m tests.bench.verdict FOLDER` runs the controller over simulated nodes. The benchmark starts it as a process of its
own, as in real use, and presses the keys in the app with Textual's Pilot.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from textual import events
from textual.widgets import Input

from tests.support.waiting import eventually, eventually_async
from tests.tui.app.app_pilot import Cluster
from warpdeck.base.paths import Paths
from warpdeck.model import GpuRequest, Resources
from warpdeck_tui.app import DeckApp
from warpdeck_tui.screens.forms.submit import NewJob

from .table import Line, Measured, Table

NODES, PENDING = 8, 300
VERDICT = Line(f"app: key in the form to its verdict, {PENDING} pending, p90", "ms", budget=50)
ROUNDS = 12
TEXTS = ("2", "", "4", "", "1", "16", "1", "")
"""Texts of the field of GPUs. One key leads from each text to the next one."""
POLL_S = 0.001


def measure(table: Table) -> None:
    times = sorted(verdict_ms())
    table.add(VERDICT, Measured([times[int(len(times) * 0.9)]]))


def verdict_ms() -> list[float]:
    """Return the milliseconds of each key, without the first ones, which load modules."""
    with TemporaryDirectory(prefix="wdb", dir="/tmp") as folder, _cluster(Path(folder)) as home:
        return asyncio.run(_keys(home))[len(TEXTS) :]


@contextmanager
def _cluster(folder: Path) -> Iterator[Path]:
    ready = folder / "ready"
    server = subprocess.Popen([sys.executable, "-m", __spec__.name, str(folder)])
    try:
        eventually(ready.exists, what="the queue of the simulated cluster", timeout_s=60.0)
        yield folder / "home"
    finally:
        server.terminate()
        server.wait()


async def _keys(home: Path) -> list[float]:
    app, found = DeckApp(Paths(str(home)), everybody=True), list[float]()
    async with app.run_test(size=(120, 40)) as pilot:
        await eventually_async(lambda: app.board.ready, what="all rows")
        await pilot.press("n")
        await eventually_async(lambda: isinstance(app.screen, NewJob), what="the form")
        form = app.screen
        assert isinstance(form, NewJob)
        for field, text in (("wrap", "python train.py"), ("time", "1:00:00")):
            form.query_one(f"#{field}", Input).value = text
        form.query_one("#gpus").focus()
        await pilot.pause()
        for text in TEXTS * ROUNDS:
            await eventually_async(lambda: form.is_answered, what="the last verdict")
            begun = time.perf_counter()
            key = text[-1] if len(text) > len(form.value("gpus")) else "backspace"
            app.post_message(events.Key(key, key if len(key) == 1 else "\x7f"))
            while form.value("gpus") != text or not form.is_answered:
                await asyncio.sleep(POLL_S)
            found.append((time.perf_counter() - begun) * 1e3)
        app.workers.cancel_all()
    return found


async def serve(folder: Path) -> None:
    """Run a cluster with full nodes and a long queue, until the process is killed."""
    cluster = Cluster(folder / "home", nodes=NODES)
    await cluster.start()
    for number in range(NODES * 4 + PENDING):
        await cluster.submit(
            f"job-{number}",
            user=f"user{number % 7}",
            resources=Resources(gpus=GpuRequest(per_node=1 + number % 4 if number >= NODES * 4 else 1)),
            time_limit_s=3600 + 60 * (number % 50),
        )
    (folder / "ready").touch()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
