"""The hidden cursor of the terminal is on the selected row, where screen readers and braille displays read."""

from __future__ import annotations

from pathlib import Path

from tests.tui.app.app_pilot import AppPilot, run_app
from textual.widgets import Input


def cursor_is_on(ui: AppPilot, words: str) -> bool:
    """Return whether the line of the cursor contains this text."""
    return words in ui.line(ui.app.cursor_position.y)


async def test_the_terminal_cursor_follows_the_selected_row(folder: Path) -> None:
    async with run_app(folder) as ui:
        for name in ("alpha", "beta", "gamma"):
            await ui.cluster.submit(name, hold=True)
        await ui.shows("alpha", "gamma")
        await ui.until(lambda: cursor_is_on(ui, "alpha"), "the first row")
        await ui.press("j", "j")
        await ui.until(lambda: cursor_is_on(ui, "gamma"), "the third row")
        await ui.press("2")
        await ui.shows("gpu02")
        await ui.until(lambda: cursor_is_on(ui, "gpu01"), "the first node")
        await ui.press("j")
        await ui.until(lambda: cursor_is_on(ui, "gpu02"), "the second node")


async def test_the_terminal_cursor_returns_from_a_dialog_and_the_filter(folder: Path) -> None:
    async with run_app(folder) as ui:
        for name in ("alpha", "beta"):
            await ui.cluster.submit(name, hold=True)
        await ui.shows("alpha", "beta")
        await ui.press("j", "W")
        await ui.until(lambda: isinstance(ui.app.focused, Input), "a line of text")
        await ui.type("mine")
        await ui.until(lambda: cursor_is_on(ui, "mine"), "the input line")
        await ui.settle()
        assert ui.line(ui.app.cursor_position.y)[: ui.app.cursor_position.x].endswith("mine")
        await ui.press("left")
        await ui.until(lambda: ui.line(ui.app.cursor_position.y)[ui.app.cursor_position.x] == "e", "on the e")
        await ui.press("escape")
        await ui.until(lambda: cursor_is_on(ui, "beta"), "the row again")
        await ui.press("slash", "b")
        await ui.shows("match b")
        await ui.until(lambda: ui.line(ui.app.cursor_position.y).strip() == "b", "the filter")
        await ui.press("enter")
        await ui.until(lambda: cursor_is_on(ui, "beta"), "the row again")


async def test_the_terminal_cursor_follows_a_row_that_moves(folder: Path) -> None:
    async with run_app(folder) as ui:
        ui.cluster.ends["beta"] = (0.0, 0)
        for name in ("alpha", "omega"):
            await ui.cluster.submit(name, hold=True)
        await ui.shows("omega")
        await ui.press("G")
        await ui.until(lambda: cursor_is_on(ui, "omega"), "the last row")
        await ui.cluster.submit("runs")
        await ui.shows("● R")
        await ui.until(lambda: cursor_is_on(ui, "omega"), "the new position of the row")
