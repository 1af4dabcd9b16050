"""The heat map: the cursor on a GPU, and output of changed tiles only."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from tests.tui.widgets.widget_pilot import STYLES, WidgetPilot, run_widget
from warpdeck_tui.widgets.cell_grid import CellGrid, GridLine
from warpdeck_tui.widgets.meter import heat_step
from warpdeck_tui.widgets.tile import GridCell

SIZES = [(80, 24), (120, 40), (200, 60), (50, 10)]


def grid() -> CellGrid:
    return CellGrid(STYLES, legend="* a job holds it")


def cell(node: str, index: int, percent: float | None) -> GridCell:
    text = "?" if percent is None else f"{percent:>3.0f}%*"
    return GridCell((node, index), text, heat_step(percent), percent)


def lines(nodes: int = 8, *, gpus: int = 8, shift: int = 0) -> list[GridLine]:
    return [
        GridLine(
            f"gpu{node:02d} mixed",
            tuple(
                cell(f"gpu{node:02d}", index, (node * 13 + index * 7 + shift) % 101) for index in range(gpus)
            ),
        )
        for node in range(nodes)
    ]


def bracketed(ui: WidgetPilot[CellGrid]) -> str:
    """Return the text in the brackets of the cursor."""
    (line,) = [row for row in ui.rows() if "[" in row]
    return line.partition("[")[2].partition("]")[0].strip()


async def test_the_cursor_stays_on_its_gpu_when_nodes_move() -> None:
    async with run_widget(grid()) as ui:
        ui.widget.show(lines())
        await ui.press("j", "l", "l")
        assert ui.widget.cursor == ("gpu01", 2)
        assert bracketed(ui) == "27%*"
        moved = lines()
        ui.widget.show([moved[5], moved[1], moved[0]])
        await ui.pilot.pause()
        assert ui.widget.cursor == ("gpu01", 2)
        assert bracketed(ui) == "27%*"
        ui.widget.show(moved[:1])
        assert ui.widget.cursor == ("gpu00", 2)


async def test_an_empty_grid_and_a_node_without_gpus_accept_every_key() -> None:
    async with run_widget(grid()) as ui:
        for shown in ([], [GridLine("cpu01 idle", ())]):
            ui.widget.show(shown)
            for key in ("j", "k", "l", "h", "g", "G", "ctrl+d", "ctrl+u", "enter"):
                await ui.press(key)
        assert ui.widget.cursor == ("cpu01", -1)
        await ui.shows("no data")


async def test_an_update_without_changes_writes_nothing() -> None:
    async with run_widget(grid()) as ui:
        ui.widget.show(lines())
        await ui.settle()
        ui.widget.show(lines())
        await ui.pilot.pause()
        assert ui.take_written() == ""


async def test_an_update_writes_only_changed_tiles() -> None:
    async with run_widget(grid()) as ui:
        before = lines()
        ui.widget.show(before)
        await ui.settle()
        label, cells, _ = before[3]
        before[3] = GridLine(label, (*cells[:4], cell("gpu03", 4, 99), *cells[5:]))
        ui.widget.show(before)
        await ui.pilot.pause()
        written = ui.take_written()
        # Textual writes a line from its beginning to the last column that changed.
        assert "99%*" in written and "gpu02" not in written
        assert len(written) < 700


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_an_update_of_64_gpus_stays_within_its_byte_limit(size: tuple[int, int]) -> None:
    async with run_widget(grid(), size=size) as ui:
        ui.widget.show(lines())
        await ui.settle()
        ui.widget.show(lines(shift=31))
        await ui.pilot.pause()
        assert 0 < len(ui.take_written().encode()) <= 9_000


@pytest.mark.parametrize("size", SIZES)
async def test_every_line_is_as_wide_as_the_grid_at_every_size(size: tuple[int, int]) -> None:
    async with run_widget(grid(), size=(100, 30)) as ui:
        ui.widget.show(
            [
                *lines(20, gpus=8),
                GridLine("a-node-with-a-very-long-name.example.org down*", (cell("x", 0, None),)),
            ]
        )
        await ui.press("G")
        await ui.pilot.resize_terminal(*size)
        await ui.until(lambda: ui.widget.size.height == size[1], "the new size")
        await ui.settle()
        assert {cell_len(row) for row in ui.rows()} == {ui.widget.line_width}


async def test_a_node_with_sixteen_gpus_is_wrapped_at_80_columns() -> None:
    async with run_widget(grid()) as ui:
        ui.widget.show(lines(2, gpus=16))
        await ui.press(*["l"] * 15)
        assert ui.widget.cursor == ("gpu00", 15)
        assert bracketed(ui) == f"{105 % 101}%*"
        await ui.pilot.click(ui.widget, offset=(ui.widget._layout.label_width + 1, 1))
        assert ui.widget.cursor == ("gpu00", 0)


async def test_a_thousand_nodes_scroll_with_the_cursor() -> None:
    async with run_widget(grid()) as ui:
        ui.widget.show(lines(1000))
        await ui.press("G")
        assert ui.widget.cursor == ("gpu999", 0)
        assert any("gpu999" in row for row in ui.rows())
        await ui.press("g")
        assert any("gpu00" in row for row in ui.rows())


@pytest.mark.parametrize("color_system", ["standard", None])
async def test_each_tile_shows_its_color_in_characters_too(color_system: str | None) -> None:
    async with run_widget(grid(), color_system=color_system) as ui:  # type: ignore[arg-type]
        ui.widget.show(
            [
                GridLine(
                    "gpu00 down*",
                    (cell("gpu00", 0, 50), cell("gpu00", 1, None), GridCell(("gpu00", 2), "!", -1)),
                )
            ]
        )
        await ui.pilot.pause()
        row = "\n".join(ui.rows()[1:3])
        assert "50%*" in row and "?" in row and "!" in row and "down*" in row and "[" in row
