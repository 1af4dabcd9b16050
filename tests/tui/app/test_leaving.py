"""A screen that is left, or an app that is quit, before its widgets stand: at every turn of the loop in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tui.app.stage import on_stage

from warpdeck_tui.app import DeckApp
from warpdeck_tui.screens.shared.dialogs import Ask, TextPage
from warpdeck_tui.viewmodels.jobs.form import Sheet

TURNS = 60
"""By then every screen stood in all tries; most stand within twenty."""

OPENS: dict[str, Callable[[DeckApp], object]] = {
    "job": lambda app: app.navigation.open_job("1"),
    "nodes": lambda app: app.action_show_nodes(),
    "history": lambda app: app.action_show_history(),
    "help": lambda app: app.action_help(),
    "text": lambda app: app.push_screen(TextPage("a title", "a text")),
    "question": lambda app: app.push_screen(Ask("Reason for draining", required="an answer")),
    "form": lambda app: app.forms.open(Sheet()),
}


async def _turn(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


@pytest.mark.parametrize("screen", OPENS)
async def test_a_screen_may_be_left_before_it_stands(folder: Path, screen: str) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        for turns in range(TURNS):
            OPENS[screen](stage.app)
            await _turn(turns)
            stage.app.pop_screen()
        await stage.shows("● R")


@pytest.mark.parametrize("turns", range(5))
async def test_the_app_may_be_quit_before_a_screen_stands(folder: Path, turns: int) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        stage.app.navigation.open_job("1")
        await _turn(turns)
        stage.app.exit()
    assert stage.app.return_code == 0


@pytest.mark.parametrize("turns", range(0, 30, 3))
async def test_the_app_may_be_quit_while_keys_are_on_their_way(folder: Path, turns: int) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        for key in ("slash", "l", "l", "enter", "j", "enter", "d", "n", "x", "escape", "q"):
            stage.app.simulate_key(key)
        await _turn(turns)
        stage.app.exit()
    assert stage.app.return_code == 0
