"""Measure CPU milliseconds and terminal bytes of the widgets: `python -m tests.bench.tui_widgets`.

The widgets run in a real app at 160x48 in true color, the most expensive case. The CPU time is that of the whole
process, including app and event loop, as the median of RUNS. Wall time would mostly be the wait for the next frame.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

from tests.support.waiting import eventually_async
from tests.tui.widgets.test_cell_grid import grid, lines
from tests.tui.widgets.test_log_view import TWO_GB, RemoteLog
from tests.tui.widgets.test_virtual_table import GeneratedRows, table
from tests.tui.widgets.widget_pilot import WidgetPilot, run_widget
from warpdeck_tui.widgets.log.search import TROUBLE, matching_lines, words
from warpdeck_tui.widgets.log.view import LogView

SIZE = (160, 48)
RUNS = 15
ROWS = 100_000
IDLE_S = 2.0
TICK_S = 0.25
MIB = 1024 * 1024


class Cost(NamedTuple):
    """Medians over the runs."""

    cpu_ms: float
    written: int


async def cost(
    ui: WidgetPilot[Any], actions: Sequence[Callable[[], object]], *, between: Callable[[], object]
) -> Cost:
    """Return the cost of each action until it is painted. `between` prepares the next one."""
    cpu_ms, written = [], []
    for action in actions:
        between()
        await ui.settle()
        begun = time.process_time()
        action()
        text = await ui.painted()
        cpu_ms.append(1e3 * (time.process_time() - begun))
        await ui.pilot.pause()
        written.append(len((text + ui.take_written()).encode()))
    return Cost(statistics.median(cpu_ms), int(statistics.median(written)))


def nothing() -> None: ...


def line(what: str, value: str, budget: str = "") -> str:
    return f"{what:<44} {value:>22}  {budget}"


def costs(what: str, found: Cost, budget: str) -> str:
    return line(what, f"{found.cpu_ms:.1f} ms CPU {found.written:>6} B", budget)


async def measure_table() -> AsyncIterator[str]:
    async with run_widget(table(), size=SIZE) as ui:
        shown = await cost(
            ui,
            [lambda: ui.widget.update(GeneratedRows(ROWS))] * RUNS,
            between=lambda: ui.widget.show([]),
        )
        yield costs(f"table of {ROWS:,} rows: show", shown, "50 ms")
        paged = await cost(ui, [lambda: ui.widget.action_page(1.0)] * RUNS, between=nothing)
        yield costs("table: page", paged, "15 ms")
        moved = await cost(ui, [lambda: ui.widget.action_move(1)] * RUNS, between=ui.widget.action_first)
        yield costs("table: one row down", moved, "")


async def measure_grid() -> AsyncIterator[str]:
    async with run_widget(grid(), size=SIZE) as ui:
        ticks = [lambda each=each: ui.widget.show(lines(shift=31 * each)) for each in range(1, RUNS + 1)]
        yield costs("64 GPUs: a tick that changes all", await cost(ui, ticks, between=nothing), "5 ms, 9 kB")
        some = lines()
        ticks = [
            lambda each=each: ui.widget.show([*some[:3], lines(shift=each)[3], *some[4:]])
            for each in range(1, RUNS + 1)
        ]
        yield costs("64 GPUs: a tick that changes 8", await cost(ui, ticks, between=nothing), "")
        await ui.settle()
        begun, ticked = time.process_time(), 0
        ui.widget.show(some)
        await ui.settle()

        def tick() -> None:
            nonlocal ticked
            ui.widget.show(lines())
            ticked += 1

        ticking = ui.app.set_interval(TICK_S, tick)
        await eventually_async(lambda: ticked >= IDLE_S / TICK_S, what="the last tick")
        ticking.stop()
        idle = len(ui.take_written().encode()) / IDLE_S
        yield line(
            "unchanged ticks at 4 Hz",
            f"{idle:.0f} B/s",
            f"1 kB/s ({50 * (time.process_time() - begun):.1f} % CPU)",
        )


async def measure_log() -> AsyncIterator[str]:
    remote_log = RemoteLog(TWO_GB)
    async with run_widget(LogView(), size=SIZE) as ui:
        tail = await remote_log.read(TWO_GB - MIB, MIB)

        def open_end() -> None:
            ui.widget.clear(at_bytes=TWO_GB - MIB, read=remote_log.read)
            ui.widget.feed(tail)

        yield costs("log of 2 GiB: open its last MiB", await cost(ui, [open_end] * RUNS, between=nothing), "")
        flushes = await cost(ui, [lambda: ui.widget.feed(remote_log.line(1) * 100)] * RUNS, between=nothing)
        yield costs("log: 100 new lines while following", flushes, "")
        yield costs(
            "log: page up",
            await cost(ui, [lambda: ui.widget.action_page(-1.0)] * RUNS, between=nothing),
            "",
        )
        begun = time.process_time()
        for _ in range(64):
            ui.widget.feed(tail)
        ui.widget._flush()
        yield line("log: 64 MiB in one piece", f"{64 / (time.process_time() - begun):.0f} MiB/s of CPU")
    for name, pattern in (("a word", words("needle").data), ("errors", TROUBLE.data)):
        begun = time.process_time()
        matching_lines(tail * 8, pattern)
        yield line(f"log: search for {name}", f"{8 / (time.process_time() - begun):.0f} MiB/s of CPU")


def main() -> int:
    for measure in (measure_table, measure_grid, measure_log):
        # Textual captures printed output while an app runs.
        print("\n".join(asyncio.run(_all(measure()))), flush=True)
    return 0


async def _all(measured: AsyncIterator[str]) -> list[str]:
    return [each async for each in measured]


if __name__ == "__main__":
    sys.exit(main())
