"""The heat map as somebody uses it: the cursor on a GPU, and only the tiles that changed are written."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from tests.tui.widgets.stage import STYLES, Player, stage
from warpdeck_tui.widgets.cell_grid import CellGrid, GridCell, GridLine
from warpdeck_tui.widgets.meter import heat_step

SIZES = [(80, 24), (120, 40), (200, 60), (50, 10)]


def grid() -> CellGrid:
    return CellGrid(STYLES, legend="* a job holds it")


def cell(node: str, index: int, percent: float | None) -> GridCell:
    text = "?" if percent is None else f"{percent:>3.0f}%*"
    return (node, index), text, heat_step(percent), percent


def lines(nodes: int = 8, *, gpus: int = 8, shift: int = 0) -> list[GridLine]:
    return [
        (
            f"gpu{node:02d} mixed",
            tuple(
                cell(f"gpu{node:02d}", index, (node * 13 + index * 7 + shift) % 101) for index in range(gpus)
            ),
        )
        for node in range(nodes)
    ]


def bracketed(player: Player[CellGrid]) -> str:
    """What stands in the cursor's brackets."""
    (line,) = [row for row in player.rows() if "[" in row]
    return line.partition("[")[2].partition("]")[0].strip()


async def test_the_cursor_moves_over_gpus_and_stays_on_its_gpu_when_nodes_move() -> None:
    async with stage(grid()) as player:
        player.widget.show(lines())
        await player.press("j", "l", "l")
        assert player.widget.cursor == ("gpu01", 2)
        assert bracketed(player) == "27%*"
        moved = lines()
        player.widget.show([moved[5], moved[1], moved[0]])
        await player.pilot.pause()
        assert player.widget.cursor == ("gpu01", 2)
        assert bracketed(player) == "27%*"
        player.widget.show(moved[:1])
        assert player.widget.cursor == ("gpu00", 2)


async def test_an_empty_grid_and_a_node_without_gpus_take_every_key() -> None:
    async with stage(grid()) as player:
        for shown in ([], [("cpu01 idle", ())]):
            player.widget.show(shown)
            for key in ("j", "k", "l", "h", "g", "G", "ctrl+d", "ctrl+u", "enter"):
                await player.press(key)
        assert player.widget.cursor == ("cpu01", -1)
        await player.shows("no GPU")


async def test_a_tick_that_changes_nothing_writes_nothing() -> None:
    async with stage(grid()) as player:
        player.widget.show(lines())
        await player.settle()
        player.widget.show(lines())
        await player.pilot.pause()
        assert player.take_written() == ""


async def test_a_tick_writes_the_tiles_that_changed_only() -> None:
    async with stage(grid()) as player:
        before = lines()
        player.widget.show(before)
        await player.settle()
        label, cells = before[3]
        before[3] = (label, (*cells[:4], cell("gpu03", 4, 99), *cells[5:]))
        player.widget.show(before)
        await player.pilot.pause()
        written = player.take_written()
        # Textual writes a line from its beginning to the last column that changed.
        assert "99%*" in written and "gpu02" not in written
        assert len(written) < 700


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_a_tick_of_all_64_gpus_keeps_to_its_bytes(size: tuple[int, int]) -> None:
    async with stage(grid(), size=size) as player:
        player.widget.show(lines())
        await player.settle()
        player.widget.show(lines(shift=31))
        await player.pilot.pause()
        assert 0 < len(player.take_written().encode()) <= 9_000


@pytest.mark.parametrize("size", SIZES)
async def test_every_line_is_as_wide_as_the_grid_at_every_size(size: tuple[int, int]) -> None:
    async with stage(grid(), size=(100, 30)) as player:
        player.widget.show(
            [*lines(20, gpus=8), ("a-node-with-a-very-long-name.example.org down*", (cell("x", 0, None),))]
        )
        await player.press("G")
        await player.pilot.resize_terminal(*size)
        await player.until(lambda: player.widget.size.height == size[1], "the new size")
        await player.settle()
        assert {cell_len(row) for row in player.rows()} == {player.widget.line_width}


async def test_a_node_with_sixteen_gpus_goes_on_below_at_80_columns() -> None:
    async with stage(grid()) as player:
        player.widget.show(lines(2, gpus=16))
        await player.press(*["l"] * 15)
        assert player.widget.cursor == ("gpu00", 15)
        assert bracketed(player) == f"{105 % 101}%*"
        await player.pilot.click(player.widget, offset=(player.widget._label_width + 1, 1))
        assert player.widget.cursor == ("gpu00", 0)


async def test_a_thousand_nodes_scroll_with_the_cursor() -> None:
    async with stage(grid()) as player:
        player.widget.show(lines(1000))
        await player.press("G")
        assert player.widget.cursor == ("gpu999", 0)
        assert any("gpu999" in row for row in player.rows())
        await player.press("g")
        assert any("gpu00" in row for row in player.rows())


@pytest.mark.parametrize("colours", ["standard", None])
async def test_each_tile_says_in_characters_what_its_colour_says(colours: str | None) -> None:
    async with stage(grid(), colours=colours) as player:  # type: ignore[arg-type]
        player.widget.show(
            [("gpu00 down*", (cell("gpu00", 0, 50), cell("gpu00", 1, None), (("gpu00", 2), "!", -1)))]
        )
        await player.pilot.pause()
        row = player.rows()[1]
        assert "50%*" in row and "?" in row and "!" in row and "down*" in row and "[" in row
