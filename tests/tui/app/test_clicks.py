"""What can be clicked: the names of panes and tables, and the keys in the last line of a dialog."""

from __future__ import annotations

from pathlib import Path

from tests.tui.app.stage import on_stage

from warpdeck_tui.screens.shared.key_line import DialogKeys
from warpdeck_tui.screens.shared.tab_line import TabLine


async def test_a_click_on_a_panes_name_goes_there(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        await stage.press("enter")
        await stage.shows("[Log] Metrics")
        await stage.pilot.click(TabLine, offset=(8, 0))
        await stage.shows("[Metrics]")
        await stage.pilot.click(TabLine, offset=(2, 0))
        await stage.shows("[Log]")
        await stage.press("6")
        await stage.shows("[Partitions]")
        await stage.pilot.click(TabLine, offset=(27, 0))
        await stage.shows("[QoS]")


async def test_a_click_on_a_dialogs_key_does_what_the_key_does(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        await stage.press("c")
        await stage.shows("y Yes   n No")
        await stage.pilot.click(DialogKeys, offset=(9, 0))
        await stage.hides("y Yes   n No")
        await stage.press("c")
        await stage.shows("y Yes   n No")
        await stage.pilot.click(DialogKeys, offset=(1, 0))
        await stage.told("Canceled job 1")
