"""Leaving a screen or quitting the app before all widgets exist, after each number of event loop iterations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tui.app.app_pilot import run_app

from warpdeck_tui.app import DeckApp
from warpdeck_tui.screens.shared.dialogs import Ask, TextPage
from warpdeck_tui.viewmodels.job_form.form import Sheet

ITERATIONS = 60
"""Number of iterations after which every screen was complete; most need less than twenty."""

OPENS: dict[str, Callable[[DeckApp], object]] = {
    "job": lambda app: app.navigation.open_job("1"),
    "nodes": lambda app: app.action_show_nodes(),
    "history": lambda app: app.action_show_history(),
    "help": lambda app: app.action_help(),
    "text": lambda app: app.push_screen(TextPage("a title", "a text")),
    "question": lambda app: app.push_screen(Ask("Reason for draining", required="an answer")),
    "form": lambda app: app.forms.open(Sheet()),
}


async def _iterate(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


@pytest.mark.parametrize("screen", OPENS)
async def test_a_screen_may_be_left_before_it_is_complete(folder: Path, screen: str) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        for iterations in range(ITERATIONS):
            OPENS[screen](ui.app)
            await _iterate(iterations)
            ui.app.pop_screen()
        await ui.shows("● R")


@pytest.mark.parametrize("iterations", range(5))
async def test_the_app_may_be_quit_before_a_screen_is_complete(folder: Path, iterations: int) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        ui.app.navigation.open_job("1")
        await _iterate(iterations)
        ui.app.exit()
    assert ui.app.return_code == 0


@pytest.mark.parametrize("iterations", range(0, 30, 3))
async def test_the_app_may_be_quit_while_keys_are_pending(folder: Path, iterations: int) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        for key in ("slash", "l", "l", "enter", "j", "enter", "d", "n", "x", "escape", "q"):
            ui.app.simulate_key(key)
        await _iterate(iterations)
        ui.app.exit()
    assert ui.app.return_code == 0
