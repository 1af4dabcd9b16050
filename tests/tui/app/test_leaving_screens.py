"""Leaving a screen or quitting the app before all widgets exist, after each number of event loop iterations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tui.app.app_pilot import run_app
from textual.app import ComposeResult
from textual.command import SimpleCommand
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Static

from warpdeck_tui.app import DeckApp
from warpdeck_tui.screens.shared.deck_screen import Arrives
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
    "list of commands": lambda app: app.search_commands([SimpleCommand("a command", lambda: None)]),
}


class Leaf(Static):
    """A widget that tells when it is removed."""

    def __init__(self) -> None:
        super().__init__("", id="leaf")
        self.is_gone = asyncio.Event()

    def on_unmount(self) -> None:
        self.is_gone.set()


class Nest(Vertical):
    """A widget that is removed after the leaf, since its own child is removed first."""

    def compose(self) -> ComposeResult:
        yield Vertical(Vertical(Widget()))


class Page(Arrives[None]):
    """A screen on which a worker of one widget updates another widget."""

    def compose(self) -> ComposeResult:
        yield Leaf()
        yield Nest()

    def arrive(self) -> None:
        self.query_one(Nest).run_worker(self.update_leaf(self.query_one(Leaf).is_gone))

    async def update_leaf(self, awaited: asyncio.Event) -> None:
        await awaited.wait()
        self.query_one("#leaf", Static).update("found")


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


async def test_no_worker_of_a_closed_screen_finds_its_widgets_missing(folder: Path) -> None:
    async with run_app(folder) as ui:
        page = Page()
        await ui.app.push_screen(page)
        leaf = page.query_one(Leaf)
        await ui.app.pop_screen()
        assert leaf.is_gone.is_set()
        ui.app.exit()
    assert ui.app.return_code == 0


@pytest.mark.parametrize("screen", sorted(OPENS.keys() - {"list of commands"}))  # Textual's own screen
async def test_no_key_reaches_a_screen_that_is_being_closed(folder: Path, screen: str) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        OPENS[screen](ui.app)
        await ui.until(lambda: getattr(ui.app.screen, "has_arrived", False), "the screen is complete")
        closed = ui.app.screen
        bound = [each.binding.action for each in closed.active_bindings.values() if each.node is closed]
        await ui.app.pop_screen()
        for action in bound:
            await ui.app.run_action(action, closed)
        await ui.shows("● R")
