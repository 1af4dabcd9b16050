"""The terminal's own cursor, hidden, is where screen readers and braille lines look: on the row that is selected."""

from __future__ import annotations

from pathlib import Path

from tests.tui.app.stage import Stage, on_stage
from textual.widgets import Input


def parked_on(stage: Stage, words: str) -> bool:
    """Whether the cursor's line shows them."""
    return words in stage.line(stage.app.cursor_position.y)


async def test_it_goes_with_the_row_under_ours(folder: Path) -> None:
    async with on_stage(folder) as stage:
        for name in ("alpha", "beta", "gamma"):
            await stage.cluster.submit(name, hold=True)
        await stage.shows("alpha", "gamma")
        await stage.until(lambda: parked_on(stage, "alpha"), "the first row")
        await stage.press("j", "j")
        await stage.until(lambda: parked_on(stage, "gamma"), "the third row")
        await stage.press("2")
        await stage.shows("gpu02")
        await stage.until(lambda: parked_on(stage, "gpu01"), "the first node")
        await stage.press("j")
        await stage.until(lambda: parked_on(stage, "gpu02"), "the second node")


async def test_it_comes_back_from_a_dialog_and_from_the_filter(folder: Path) -> None:
    async with on_stage(folder) as stage:
        for name in ("alpha", "beta"):
            await stage.cluster.submit(name, hold=True)
        await stage.shows("alpha", "beta")
        await stage.press("j", "W")
        await stage.until(lambda: isinstance(stage.app.focused, Input), "a line of text")
        await stage.type("mine")
        await stage.until(lambda: parked_on(stage, "mine"), "where one writes")
        await stage.settle()
        assert stage.line(stage.app.cursor_position.y)[: stage.app.cursor_position.x].endswith("mine")
        await stage.press("left")
        await stage.until(
            lambda: stage.line(stage.app.cursor_position.y)[stage.app.cursor_position.x] == "e", "on the e"
        )
        await stage.press("escape")
        await stage.until(lambda: parked_on(stage, "beta"), "the row again")
        await stage.press("slash", "b")
        await stage.shows("match b")
        await stage.until(lambda: stage.line(stage.app.cursor_position.y).strip() == "b", "the filter")
        await stage.press("enter")
        await stage.until(lambda: parked_on(stage, "beta"), "the row again")


async def test_it_follows_a_row_that_moves(folder: Path) -> None:
    async with on_stage(folder) as stage:
        stage.cluster.ends["beta"] = (0.0, 0)
        for name in ("alpha", "omega"):
            await stage.cluster.submit(name, hold=True)
        await stage.shows("omega")
        await stage.press("G")
        await stage.until(lambda: parked_on(stage, "omega"), "the last row")
        await stage.cluster.submit("runs")
        await stage.shows("● R")
        await stage.until(lambda: parked_on(stage, "omega"), "the row where it is now")
