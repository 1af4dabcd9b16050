"""The controller goes away and comes back while the app is open."""

from __future__ import annotations

from pathlib import Path

from tests.tui.app.stage import on_stage

from warpdeck.protocol.results import Delta
from warpdeck_tui.screens.history import HistoryScreen
from warpdeck_tui.screens.nodes import NodesScreen


async def test_a_lost_controller_is_said_and_what_was_known_stays(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("steady")
        await stage.shows("● R")
        await stage.cluster.stop()
        await stage.shows("reconnecting", "steady")
        await stage.press("c", "y")
        await stage.told("The controller is not reachable")
        await stage.cluster.start()
        await stage.hides("reconnecting")
        await stage.shows("steady", "● R")


async def test_the_log_reads_on_when_the_controller_is_back(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("steady")
        await stage.shows("● R")
        await stage.press("enter")
        await stage.shows("job 1", "step")
        await stage.cluster.stop()
        await stage.shows("reconnecting")
        await stage.cluster.start()
        await stage.hides("reconnecting")
        await stage.shows("job 1", "step")


async def test_what_is_gone_after_an_outage_goes_from_the_screen(folder: Path) -> None:
    async with on_stage(folder) as stage:
        stage.cluster.ends["over"] = (0.0, 0)
        await stage.cluster.submit("over")
        await stage.shows("✓ CD")
        await stage.cluster.stop()
        await stage.shows("reconnecting")
        stage.cluster.store._jobs.clear()
        await stage.cluster.start()
        await stage.shows("No jobs. Press n to submit one")
        await stage.press("2")
        await stage.shows("gpu01")


async def test_news_may_come_before_a_screens_widgets_are_there(folder: Path) -> None:
    async with on_stage(folder) as stage:
        for place in (NodesScreen, HistoryScreen):
            stage.app.push_screen(place())
            stage.app.updates.told(Delta())
            stage.app.refresher.redraw()
        await stage.shows("history:")
