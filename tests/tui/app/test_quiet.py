"""What is written while nobody does anything, and who ticks: only what can be seen, and only while somebody looks."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.stage import Stage, on_stage
from textual import events
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, TextArea

from warpdeck_tui.screens.shared.deck_screen import DeckScreen
from warpdeck_tui.terminal.terminal_app import LIVE, LOW_BANDWIDTH, UNWATCHED
from warpdeck_tui.widgets.cell_grid import CellGrid

OFTEN_S = 0.01
ENOUGH = 10


class Beat:
    """Counts a screen's ticks."""

    def __init__(self, stage: Stage) -> None:
        assert isinstance(stage.app.screen, DeckScreen)
        self.count = 0
        stage.app.screen.every(OFTEN_S, self._tick)

    def _tick(self) -> None:
        self.count += 1


async def beats(stage: Stage, beat: Beat) -> None:
    before = beat.count
    await stage.until(lambda: beat.count > before, "the screen ticks")


async def passes(stage: Stage) -> None:
    """As long as many ticks take."""
    turns: list[int] = []
    timer = stage.app.set_interval(OFTEN_S, lambda: turns.append(1))
    await stage.until(lambda: len(turns) > ENOUGH, "time passes")
    timer.stop()


async def test_a_tick_writes_only_the_digits_that_differ(folder: Path) -> None:
    async with on_stage(folder, writes=True) as stage:
        await stage.cluster.submit("steady")
        await stage.shows(
            "1 running", "● R", "0:0", "Cancel"
        )  # the head, the row and the keys come one by one
        await stage.pilot.pause()
        for _ in range(3):
            before = len(stage.app.frame._lines)
            stage.written()
            await stage.until(lambda: stage.app._driver.written, "the next second")  # type: ignore[union-attr]
            assert len(stage.written()) < 240, "a time in two places, a bar, and what its GPU does"
            assert len(stage.app.frame._lines) == before


async def test_what_looks_the_same_is_not_written(folder: Path) -> None:
    async with on_stage(folder, writes=True) as stage:
        await stage.cluster.submit("waits", hold=True)
        await stage.shows("waits", "held")
        await stage.pilot.pause()
        stage.written()
        for _ in range(3):
            stage.app.refresher.redraw()
            stage.app.screen.refresh()
            await stage.pilot.pause()
        assert stage.written() == ""
        await stage.press("ctrl+l")
        await stage.until(lambda: "waits" in stage.written(), "everything anew")


async def test_a_screen_that_comes_is_not_painted_before_it_knows_its_size(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths: set[int] = set()
    render_line = CellGrid.render_line

    def noting(grid: CellGrid, y: int) -> Strip:
        widths.add(grid.size.width)
        return render_line(grid, y)

    monkeypatch.setattr(CellGrid, "render_line", noting)
    async with on_stage(folder, size=(200, 60)) as stage:
        await stage.press("2")
        await stage.shows("gpu01", "GPU 0")
        assert widths == {stage.app.screen.query_one(CellGrid).size.width}, "not as on a narrow window first"


async def test_hidden_screens_and_those_below_a_dialog_do_not_tick(folder: Path) -> None:
    async with on_stage(folder) as stage:
        beat = Beat(stage)
        await beats(stage, beat)
        for key in ("2", "question_mark"):
            await stage.press(key)
            await stage.until(
                lambda: stage.app.front is None or stage.app.front.place != "queue", "another screen"
            )
            await stage.pilot.pause()
            count = beat.count
            await passes(stage)
            assert beat.count == count
            await stage.press("escape")
            await beats(stage, beat)


async def test_without_the_focus_clocks_stand_and_a_key_or_the_focus_makes_them_go(folder: Path) -> None:
    async with on_stage(folder) as stage:
        beat = Beat(stage)
        await beats(stage, beat)
        for back in (lambda: stage.app.post_message(events.AppFocus()), lambda: stage.app.simulate_key("j")):
            stage.app.post_message(events.AppBlur())
            await stage.until(lambda: not stage.app.app_focus, "the focus is lost")
            count = beat.count
            await passes(stage)
            assert beat.count == count
            assert stage.app.pace == UNWATCHED
            back()
            await beats(stage, beat)
            assert stage.app.pace == LIVE


async def test_a_screen_that_opens_without_the_focus_begins_to_tick_with_it(folder: Path) -> None:
    async with on_stage(folder) as stage:
        stage.app.post_message(events.AppBlur())
        await stage.until(lambda: not stage.app.app_focus, "the focus is lost")
        stage.app.action_show_nodes()
        await stage.shows("gpu01")
        beat = Beat(stage)
        stage.app.post_message(events.AppFocus())
        await beats(stage, beat)


async def test_low_bandwidth_draws_seldom(folder: Path) -> None:
    async with on_stage(folder, low_bandwidth=True) as stage:
        assert stage.app.pace == LOW_BANDWIDTH
        assert LOW_BANDWIDTH.news_s > LIVE.news_s and LOW_BANDWIDTH.clock > LIVE.clock


async def test_how_long_keys_take_is_said_by_choice(folder: Path) -> None:
    async with on_stage(folder, writes=True) as stage:
        await stage.press("2", "ctrl+t", "1", "2")
        await stage.shows("warpdeck  key ")
        milliseconds = int(stage.text().partition("key ")[2].partition(" ms")[0])
        assert milliseconds < 10_000
        await stage.press("ctrl+t")
        await stage.hides("key ")


async def test_no_cursor_blinks(folder: Path) -> None:
    async with on_stage(folder) as stage:
        for keys in (("slash",), ("escape", "n"), ("escape", "colon")):
            await stage.press(*keys)
            await stage.until(lambda: isinstance(stage.app.focused, Input), "a line of text")
            await stage.until(lambda: not stage.app.focused.cursor_blink, "a steady cursor")  # type: ignore[union-attr]
        await stage.press("escape", "n")
        await stage.until(lambda: stage.app.screen.query(TextArea), "the form")
        stage.app.screen.query_one(TextArea).focus()
        await stage.until(lambda: isinstance(stage.app.focused, TextArea), "the script")
        await stage.until(lambda: not stage.app.focused.cursor_blink, "a steady cursor")  # type: ignore[union-attr]


async def test_what_a_page_has_drawn_is_given_back_when_it_goes(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("question_mark")
        await stage.shows("Help", "Copy to form")
        drawn = [widget._styles_cache for widget in stage.app.screen.walk_children(Widget)]
        await stage.until(lambda: any(cache._cache for cache in drawn), "the lines of the page")
        await stage.press("escape")
        await stage.until(lambda: not any(cache._cache for cache in drawn), "no lines of the page")


SIGHTS = {
    "queue": (),
    "nodes": ("2",),
    "job": ("enter",),
    "metrics": ("enter", "m"),
    "help": ("question_mark",),
    "form": ("n",),
}


@pytest.mark.parametrize("sight", SIGHTS)
async def test_in_ascii_every_sign_is_ascii(folder: Path, sight: str) -> None:
    async with on_stage(folder, plain_signs=True, size=(140, 40)) as stage:
        await stage.cluster.submit("naïve-世")
        await stage.shows("* R")
        await stage.press(*SIGHTS[sight])
        await stage.until(lambda: stage.text().isascii(), "only ASCII")
        assert all(len(line) == 140 for line in stage.text().splitlines())
