"""The preview of the job under the cursor, beside the queue and the history."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest
from tests.tui.app.app_pilot import run_app
from tests.tui.static_cluster import LOG, StaticCore, jobs, nodes, past, static_app
from tests.tui.static_site import NOW
from textual.pilot import Pilot

from warpdeck.base.errors import UserError
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.site_rows import AheadRow, ForecastRow
from warpdeck_tui.app import DeckApp
from warpdeck_tui.screens.shared.preview import Preview
from warpdeck_tui.viewmodels import Line
from warpdeck_tui.viewmodels.jobs.arrays import Fold
from warpdeck_tui.viewmodels.jobs.preview import (
    About,
    array_lines,
    gpus_of,
    preview_lines,
)
from warpdeck_tui.widgets.virtual_table import VirtualTable

ROWS = {row.id: row for row in (*jobs(), *past())}
NODES = {node.name: node for node in nodes()}


def text(lines: list[Line]) -> str:
    return "\n".join("".join(cell.text for cell in line) for line in lines)


def shown(row: JobRow, about: About | None = None, width: int = 60) -> str:
    return text(preview_lines(row, about or About(), now=NOW, width=width))


def test_a_running_job_shows_its_time_its_gpus_and_its_metrics() -> None:
    row = ROWS[102]
    words = shown(row, About(gpus_of(row, NODES), tail=LOG[-8000:]))
    for part in (
        "running",
        "4:18:50 of 1-00:00:00",
        "18%, 19h41 left",
        "gpu03:0",
        "gpu03:7",
        "66/80G",
        "loss",
    ):
        assert part in words
    assert "lr" not in words.split("loss")[1], "a metric that does not change is left out"


def test_a_large_job_has_a_line_for_each_node() -> None:
    words = shown(ROWS[101], About(gpus_of(ROWS[101], NODES)))
    assert "gpu01 " in words and "gpu02 " in words and "508/640G" in words and "gpu01:0" not in words


def test_gpus_without_readings_show_no_question_marks_of_memory() -> None:
    row = msgspec.structs.replace(ROWS[101], gpu_util_pct=None)
    assert "no readings" in shown(row)
    assert "64%" in shown(msgspec.structs.replace(row, gpu_util_pct=64))


def test_a_waiting_job_shows_the_whole_reason_and_the_jobs_ahead() -> None:
    row = ROWS[130]
    assert row.why is not None
    forecast = ForecastRow(
        ahead=2, leaders=[AheadRow(label="101", user="alice")], changes=["with 2 GPUs it starts now"]
    )
    words = shown(row, About(forecast=forecast))
    assert row.why.sentence in words
    assert "2 jobs: 101 (alice)" in words and "with 2 GPUs it starts now" in words and "12:20" in words


def test_an_ended_job_shows_how_and_why_it_ended_and_what_it_used() -> None:
    words = shown(ROWS[91], About(died_of="out of memory at 61G of 128G"))
    for part in (
        "42m ago",
        "signal 9 (oom) on gpu02",
        "out of memory at 61G",
        "53%",
        "61G of 128G at the peak",
    ):
        assert part in words


def test_an_array_shows_the_number_of_tasks_in_each_state_and_the_tasks() -> None:
    array = Fold(104)
    for row in jobs():
        if row.array_job_id == 104:
            array.put(row)
    words = text(array_lines(array, now=NOW, width=60))
    for part in ("running", "4 of 20", "failed", "15 of 20", "104_3", "lr=3e-4 seed=3", "exit 1 on gpu02"):
        assert part in words


class CountingCore(StaticCore):
    """Counts the logs that are followed now and were followed ever."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.all: list[str] = []

    async def follow_log(
        self, job: str, *, channel: str, node: str = "", on_opened: object = None, tail_bytes: int = 0
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        assert 0 < tail_bytes <= 64 * 1024
        self.open.append(job)
        self.all.append(job)
        try:
            async for item in super().follow_log(job, channel=channel):
                yield item
        finally:
            self.open.remove(job)


def counting_app() -> tuple[DeckApp, CountingCore]:
    app, core = static_app(readonly=True), CountingCore()
    app.core = core  # type: ignore[assignment]
    return app, core


async def until(pilot: Pilot[None], holds: object) -> None:
    assert callable(holds)
    for _ in range(1000):
        if holds():
            return
        await pilot.pause(0.01)
    raise AssertionError(screen_text(pilot.app))


def screen_text(app: object) -> str:
    assert isinstance(app, DeckApp)
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def test_one_log_is_followed_at_a_time_and_only_after_the_cursor_rests() -> None:
    app, core = counting_app()
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, lambda: core.open == ["101"])
        await until(pilot, lambda: "clipped" in screen_text(app))
        table = app.screen.query_one(VirtualTable)
        for _ in range(2):
            table.action_move(1)
        await until(pilot, lambda: core.open == ["103"])
        assert "102" not in core.all, "the cursor only passed by"
        await pilot.press("j", "j", "j")
        await until(pilot, lambda: "1 job: 101 (alice)" in screen_text(app))
        assert core.open == []
        app.workers.cancel_all()


async def test_the_log_is_not_followed_while_another_screen_is_in_front() -> None:
    app, core = counting_app()
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, lambda: core.open == ["101"])
        await pilot.press("2")
        await until(pilot, lambda: core.open == [])
        await pilot.press("1")
        await until(pilot, lambda: core.open == ["101"])
        app.workers.cancel_all()


async def test_the_preview_has_no_place_on_a_narrow_terminal() -> None:
    app, core = counting_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "101 llama-70b-pretrain  on gpu[01-02]" in screen_text(app))
        assert not app.screen.query_one(Preview).display
        assert core.all == []
        await pilot.resize_terminal(160, 50)
        await until(pilot, lambda: core.open == ["101"])
        await pilot.resize_terminal(100, 30)
        await until(pilot, lambda: core.open == [])
        app.workers.cancel_all()


async def test_an_unchanged_preview_is_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    app, core = counting_app()
    monkeypatch.setattr("time.time", lambda: NOW)
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, lambda: core.open and "loss" in screen_text(app))
        await pilot.pause(0.05)
        pane = app.screen.query_one(Preview)
        drawn: list[object] = []
        monkeypatch.setattr(pane.query_one("#facts"), "update", lambda *each, **options: drawn.append(each))
        for _ in range(3):
            app.refresher.redraw()
        assert not drawn
        app.workers.cancel_all()


async def test_the_choice_to_hide_the_preview_is_kept(folder: Path) -> None:
    async with run_app(folder, size=(140, 30)) as ui:
        await ui.cluster.submit("vit")
        await ui.shows("● R", "running for", "loss")
        await ui.press("p")
        await ui.hides("running for")
        await ui.press("4")
        await ui.shows("history")
        assert not ui.app.screen.query_one(Preview).display
        await ui.press("p")
        await ui.until(lambda: ui.app.screen.query_one(Preview).display, "the preview of the history")
        await ui.press("1")
        await ui.shows("running for")
        await ui.press("p")
        await ui.hides("running for")
    async with run_app(folder, size=(140, 30)) as ui:
        await ui.shows("GPU")
        assert not ui.app.screen.query_one(Preview).display


async def test_an_unreadable_log_is_reported_in_the_preview() -> None:
    class Unreadable(CountingCore):
        async def log_tail(self, job: str, *, channel: str, size_bytes: int, node: str = "") -> bytes:
            raise UserError("The log was removed", "")

    app = static_app()
    app.core = Unreadable()  # type: ignore[assignment]
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.press("G")
        await until(pilot, lambda: "The log was removed" in screen_text(app))
        app.workers.cancel_all()
