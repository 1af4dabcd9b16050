"""The controller stops and restarts while the app is open."""

from __future__ import annotations

from pathlib import Path

from tests.tui.app.app_pilot import run_app

from warpdeck.protocol.results import Delta
from warpdeck.store import MemoryStore
from warpdeck_tui.screens.history import HistoryScreen
from warpdeck_tui.screens.nodes import NodesScreen


async def test_a_lost_controller_is_reported_and_known_rows_stay(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("steady")
        await ui.shows("● R")
        await ui.cluster.stop()
        await ui.shows("reconnecting", "steady")
        await ui.press("c", "y")
        await ui.shows_notification("The server is not reachable")
        await ui.cluster.start()
        await ui.hides("reconnecting")
        await ui.shows("steady", "● R")


async def test_the_log_continues_when_the_controller_is_back(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("steady")
        await ui.shows("● R")
        await ui.press("enter")
        await ui.shows("job 1", "step")
        await ui.cluster.stop()
        await ui.shows("reconnecting")
        await ui.cluster.start()
        await ui.hides("reconnecting")
        await ui.shows("job 1", "step")


async def test_rows_removed_during_an_outage_disappear(folder: Path) -> None:
    async with run_app(folder) as ui:
        ui.cluster.ends["over"] = (0.0, 0)
        await ui.cluster.submit("over")
        await ui.shows("✓ CD")
        await ui.cluster.stop()
        await ui.shows("reconnecting")
        assert isinstance(ui.cluster.store, MemoryStore)
        ui.cluster.store._jobs.clear()
        await ui.cluster.start()
        await ui.shows("No jobs. Press n to submit one")
        await ui.press("2")
        await ui.shows("gpu01")


async def test_updates_may_arrive_before_a_screens_widgets_exist(folder: Path) -> None:
    async with run_app(folder) as ui:
        for place in (NodesScreen, HistoryScreen):
            ui.app.push_screen(place())
            ui.app.updates.told(Delta())
            ui.app.refresher.redraw()
        await ui.shows("history:")
