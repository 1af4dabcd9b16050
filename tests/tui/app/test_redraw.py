"""Output of the idle app and its timers: only visible changes are drawn, and only while the app has the focus."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.tui.app.app_pilot import AppPilot, run_app
from textual import events
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, TextArea

from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck.protocol.results import Delta
from warpdeck_tui.app.refresher import Refresher
from warpdeck_tui.app.updates import has_readings_only
from warpdeck_tui.data.client_state import ClientState
from warpdeck_tui.screens.shared.deck_screen import DeckScreen
from warpdeck_tui.terminal.terminal_app import LIVE, LOW_BANDWIDTH, UNWATCHED
from warpdeck_tui.widgets.cell_grid import CellGrid

OFTEN_S = 0.01
ENOUGH = 10


class TickCounter:
    """Counts the ticks of a screen's timer."""

    def __init__(self, ui: AppPilot) -> None:
        assert isinstance(ui.app.screen, DeckScreen)
        self.count = 0
        ui.app.screen.every(OFTEN_S, self._tick)

    def _tick(self) -> None:
        self.count += 1


async def ticks(ui: AppPilot, counter: TickCounter) -> None:
    before = counter.count
    await ui.until(lambda: counter.count > before, "the screen ticks")


async def wait_for_ticks(ui: AppPilot) -> None:
    """Wait for the duration of many ticks."""
    turns: list[int] = []
    timer = ui.app.set_interval(OFTEN_S, lambda: turns.append(1))
    await ui.until(lambda: len(turns) > ENOUGH, "time passes")
    timer.stop()


async def test_a_tick_writes_only_changed_digits(folder: Path) -> None:
    async with run_app(folder, writes=True) as ui:
        await ui.cluster.submit("steady")
        await ui.shows(
            "1 running", "● R", "0:0", "Cancel"
        )  # header, row and key line appear one after the other
        await ui.pilot.pause()
        for _ in range(3):
            before = len(ui.app.frame._lines)
            ui.written()
            await ui.until(lambda: ui.app._driver.written, "the next second")  # type: ignore[union-attr]
            assert len(ui.written()) < 400, "times, bars, the GPU's utilization, and sometimes its curve"
            assert len(ui.app.frame._lines) == before


async def test_an_unchanged_screen_is_not_written(folder: Path) -> None:
    async with run_app(folder, writes=True) as ui:
        await ui.cluster.submit("waits", hold=True)
        await ui.shows("waits", "held")
        await ui.pilot.pause()
        ui.written()
        for _ in range(3):
            ui.app.refresher.redraw()
            ui.app.screen.refresh()
            await ui.pilot.pause()
        assert ui.written() == ""
        await ui.press("ctrl+l")
        await ui.until(lambda: "waits" in ui.written(), "the whole screen")


async def test_a_new_screen_is_drawn_only_after_its_size_is_known(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths: set[int] = set()
    render_line = CellGrid.render_line

    def recording(grid: CellGrid, y: int) -> Strip:
        widths.add(grid.size.width)
        return render_line(grid, y)

    monkeypatch.setattr(CellGrid, "render_line", recording)
    async with run_app(folder, size=(200, 60)) as ui:
        await ui.press("2")
        await ui.shows("gpu01", "GPU 0")
        assert widths == {ui.app.screen.query_one(CellGrid).size.width}, (
            "the grid was first drawn for a narrow window"
        )


async def test_hidden_screens_and_screens_below_a_dialog_do_not_tick(folder: Path) -> None:
    async with run_app(folder) as ui:
        counter = TickCounter(ui)
        await ticks(ui, counter)
        for key in ("2", "question_mark"):
            await ui.press(key)
            await ui.until(lambda: ui.app.front is None or ui.app.front.place != "queue", "another screen")
            await ui.pilot.pause()
            count = counter.count
            await wait_for_ticks(ui)
            assert counter.count == count
            await ui.press("escape")
            await ticks(ui, counter)


async def test_timers_stop_without_the_focus_and_resume_with_a_key(folder: Path) -> None:
    async with run_app(folder) as ui:
        counter = TickCounter(ui)
        await ticks(ui, counter)
        for back in (lambda: ui.app.post_message(events.AppFocus()), lambda: ui.app.simulate_key("j")):
            ui.app.post_message(events.AppBlur())
            await ui.until(lambda: not ui.app.app_focus, "the focus is lost")
            count = counter.count
            await wait_for_ticks(ui)
            assert counter.count == count
            assert ui.app.pace == UNWATCHED
            back()
            await ticks(ui, counter)
            assert ui.app.pace == LIVE


async def test_a_screen_opened_without_the_focus_ticks_once_focused(folder: Path) -> None:
    async with run_app(folder) as ui:
        ui.app.post_message(events.AppBlur())
        await ui.until(lambda: not ui.app.app_focus, "the focus is lost")
        ui.app.action_show_nodes()
        await ui.shows("gpu01")
        counter = TickCounter(ui)
        ui.app.post_message(events.AppFocus())
        await ticks(ui, counter)


async def test_low_bandwidth_mode_draws_less_often(folder: Path) -> None:
    async with run_app(folder, low_bandwidth=True) as ui:
        assert ui.app.pace == LOW_BANDWIDTH
        assert LOW_BANDWIDTH.news_s > LIVE.news_s and LOW_BANDWIDTH.clock > LIVE.clock


async def test_key_latency_is_shown_on_request(folder: Path) -> None:
    async with run_app(folder, writes=True) as ui:
        await ui.press("2", "ctrl+t", "1", "2")
        await ui.shows("─ key ")
        milliseconds = int(ui.text().partition("key ")[2].partition(" ms")[0])
        assert milliseconds < 10_000
        await ui.press("ctrl+t")
        await ui.hides("key ")


async def test_no_text_cursor_blinks(folder: Path) -> None:
    async with run_app(folder) as ui:
        for keys in (("slash",), ("escape", "n"), ("escape", "colon")):
            await ui.press(*keys)
            await ui.until(lambda: isinstance(ui.app.focused, Input), "a line of text")
            await ui.until(lambda: not ui.app.focused.cursor_blink, "a steady cursor")  # type: ignore[union-attr]
        await ui.press("escape", "n")
        await ui.until(lambda: ui.app.screen.query(TextArea), "the form")
        ui.app.screen.query_one(TextArea).focus()
        await ui.until(lambda: isinstance(ui.app.focused, TextArea), "the script")
        await ui.until(lambda: not ui.app.focused.cursor_blink, "a steady cursor")  # type: ignore[union-attr]


async def test_a_closed_pages_drawing_cache_is_released(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("question_mark")
        await ui.shows("Help", "Run again")
        drawn = [widget._styles_cache for widget in ui.app.screen.walk_children(Widget)]
        await ui.until(lambda: any(cache._cache for cache in drawn), "the lines of the page")
        await ui.press("escape")
        await ui.until(lambda: not any(cache._cache for cache in drawn), "no lines of the page")


SCREENS = {
    "overview": ("0",),
    "queue": (),
    "nodes": ("2",),
    "job": ("enter",),
    "metrics": ("enter", "m"),
    "help": ("question_mark",),
    "form": ("n",),
}


@pytest.mark.parametrize("name", SCREENS)
async def test_ascii_mode_draws_only_ascii(folder: Path, name: str) -> None:
    async with run_app(folder, plain_signs=True, size=(140, 40)) as ui:
        await ui.cluster.submit("naïve-世")
        await ui.shows("* R")
        await ui.press(*SCREENS[name])
        await ui.until(lambda: ui.text().isascii(), "only ASCII")
        assert all(len(line) == 140 for line in ui.text().splitlines())


def test_only_measurements_are_drawn_with_the_next_clock() -> None:
    board = ClientState()
    gpu = GpuRow(index=0, uuid="GPU-1", name="H100", type="h100", mem_bytes=80 << 30, job="1", util_pct=5)
    node = NodeRow(name="gpu01", state="mixed", jobs=["1"], gpus=[gpu], cpu_pct=3.0)
    job = JobRow(id=1, label="1", array_job_id=1, state="RUNNING", gpu_util_pct=5)
    first = Delta(jobs=[job], nodes=[node], ready=True)
    assert not has_readings_only(first, board)
    board.restart()
    board.apply(first)
    busy = msgspec.structs.replace(job, gpu_util_pct=90, gpu_mem_bytes=1 << 30)
    hot = msgspec.structs.replace(node, gpus=[msgspec.structs.replace(gpu, util_pct=90)], cpu_pct=50.0)
    assert has_readings_only(Delta(jobs=[busy], nodes=[hot]), board)
    for news in (
        Delta(jobs=[msgspec.structs.replace(job, state="COMPLETED")]),
        Delta(jobs=[msgspec.structs.replace(job, id=2)]),
        Delta(nodes=[msgspec.structs.replace(node, state="down")]),
        Delta(nodes=[msgspec.structs.replace(node, gpus=[msgspec.structs.replace(gpu, job="")])]),
        Delta(gone_jobs=[1]),
        Delta(gone_nodes=["gpu01"]),
    ):
        assert not has_readings_only(news, board)


def test_news_are_drawn_before_a_planned_redraw_of_readings() -> None:
    drawn: list[str] = []
    plans: list[tuple[float, Callable[[], None]]] = []
    refresher = Refresher(
        lambda: drawn.append("now"), set_timer=lambda s, call: plans.append((s, call)), least_s=lambda: 0.0
    )
    refresher.redraw()
    refresher.redraw_later(within_s=60.0)
    assert drawn == ["now"] and len(plans) == 1 and plans[0][0] > 59
    refresher.redraw_later(within_s=60.0)
    assert len(plans) == 1
    refresher.redraw_later()
    while len(drawn) < 2:  # drawing takes a moment, and at most a share of a core
        plans[-1][1]()
    assert not refresher.is_planned
    plans[0][1]()
    assert len(drawn) == 2, "the timer of the first plan draws nothing"


def to_lay_out(screen: DeckScreen) -> list[str]:
    """Return the widgets that have requested a layout of the screen."""
    return [str(widget) for widget in screen.query(Widget) if widget._layout_required]


@pytest.mark.parametrize(
    ("keys", "text"),
    [((), "1 running"), (("2",), "GPU 0"), (("5",), "No sessions"), (("enter",), "[Log]")],
)
async def test_drawing_again_does_not_lay_the_screen_out(
    folder: Path, keys: tuple[str, ...], text: str
) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("steady")
        await ui.shows("1 running", "steady")
        for key in keys:
            await ui.press(key)
        await ui.shows(text)
        screen = ui.app.screen
        assert isinstance(screen, DeckScreen)
        screen.draw()
        await ui.until(lambda: not to_lay_out(screen), "the screen is laid out")
        screen.draw()
        assert not to_lay_out(screen)
