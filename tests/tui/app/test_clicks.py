"""Mouse clicks on the names of panes and tables, and on the keys in the last line of a dialog."""

from __future__ import annotations

from pathlib import Path

from tests.tui.app.app_pilot import run_app

from warpdeck_tui.screens.shared.key_line import DialogKeys
from warpdeck_tui.screens.shared.tab_line import TabLine
from warpdeck_tui.widgets.virtual_table import VirtualTable


async def test_a_click_on_a_panes_name_opens_the_pane(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        await ui.press("enter")
        await ui.shows("[Log] Metrics")
        await ui.pilot.click(TabLine, offset=(8, 0))
        await ui.shows("[Metrics]")
        await ui.pilot.click(TabLine, offset=(2, 0))
        await ui.shows("[Log]")
        await ui.press("6")
        await ui.shows("[Partitions]")
        await ui.pilot.click(TabLine, offset=(27, 0))
        await ui.shows("[QoS]")


async def test_a_click_on_a_title_sorts_and_a_second_one_reverses(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.cluster.submit("alpha")
        await ui.shows("llama", "alpha")
        table = ui.app.screen.query_one(VirtualTable)
        at = ui.line(3).index("NAME") - 1  # the frame takes a column
        await ui.pilot.click(VirtualTable, offset=(at, 0))
        await ui.shows("NAME▲")
        assert ui.text().index("alpha") < ui.text().index("llama")
        await ui.pilot.click(VirtualTable, offset=(at, 0))
        await ui.shows("NAME▼")
        assert ui.text().index("llama") < ui.text().index("alpha")
        assert table.cursor_key


async def test_a_click_on_a_key_in_a_dialog_has_the_keys_effect(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        await ui.press("c")
        await ui.shows("y Yes   n No")
        await ui.pilot.click(DialogKeys, offset=(9, 0))
        await ui.hides("y Yes   n No")
        await ui.press("c")
        await ui.shows("y Yes   n No")
        await ui.pilot.click(DialogKeys, offset=(1, 0))
        await ui.shows_notification("Canceled job 1")
