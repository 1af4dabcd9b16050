"""The table as somebody uses it: the cursor and the marks stay on their rows, and only what differs is written."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.events import MouseScrollDown

from tests.tui.widgets.stage import STYLES, Player, stage
from warpdeck_tui.widgets.cells import Cell
from warpdeck_tui.widgets.columns import Column, gap, layout
from warpdeck_tui.widgets.virtual_table import RowList, VirtualTable

COLUMNS = (
    Column("JOB", 6, align="right"),
    Column("STATE", 9),
    Column("USER", 8, 1),
    Column("NODELIST(REASON)", 0, key="where"),
)
SIZES = [(80, 24), (120, 40), (200, 60), (30, 8)]


def table() -> VirtualTable:
    return VirtualTable(COLUMNS, STYLES, empty="No jobs. Press n to submit one", marks=True)


def row(number: int, *, state: str = "RUNNING") -> tuple[str, Sequence[Cell]]:
    return str(number), (str(number), (state, state), "alice", f"gpu{number:02d}")


def rows(*numbers: int) -> list[tuple[str, Sequence[Cell]]]:
    return [row(number) for number in numbers]


class Endless:
    """Rows that are made when they are looked at; counts the looks."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.looks = 0

    def __len__(self) -> int:
        return self.count

    def row(self, index: int) -> Sequence[Cell]:
        self.looks += 1
        return row(index)[1]

    def key(self, index: int) -> str:
        return str(index)


def under_cursor(player: Player[VirtualTable]) -> list[str]:
    return [each for each in player.rows() if each.startswith("▌")]


async def test_the_cursor_stays_on_its_row_when_rows_come_go_and_move() -> None:
    async with stage(table()) as player:
        player.widget.show(rows(1, 2, 3, 4, 5))
        await player.press("j", "j")
        assert player.widget.cursor_key == "3"
        for numbers in ((0, 9, 1, 2, 3, 4), (4, 3, 2, 1), (3,), tuple(range(100, 0, -1))):
            player.widget.show(rows(*numbers))
            await player.pilot.pause()
            assert player.widget.cursor_key == "3"
            (line,) = under_cursor(player)
            assert line.split()[1] == "3"


async def test_what_is_in_view_stays_in_view_when_rows_come_above() -> None:
    async with stage(table()) as player:
        player.widget.show(rows(*range(100, 200)))
        player.widget.go_to("150")
        await player.pilot.pause()
        place = [line.startswith("▌") for line in player.rows()].index(True)
        player.widget.show(rows(*range(200)))
        await player.pilot.pause()
        assert [line.startswith("▌") for line in player.rows()].index(True) == place


async def test_a_row_in_view_stays_in_view_when_it_moves_far_down() -> None:
    async with stage(table()) as player:
        player.widget.show(rows(*range(100)))
        await player.settle()
        player.widget.show(rows(*range(100, 200), *range(100)))
        await player.settle()
        (line,) = under_cursor(player)
        assert line.split()[1] == "0"


async def test_where_the_row_is_gone_the_cursor_keeps_its_place() -> None:
    async with stage(table()) as player:
        player.widget.show(rows(1, 2, 3, 4))
        await player.press("j")
        player.widget.show(rows(1, 3, 4))
        assert player.widget.cursor_key == "3"
        player.widget.show(rows(1))
        assert player.widget.cursor_key == "1"
        player.widget.show([])
        assert player.widget.cursor_key == ""


async def test_the_cursor_goes_to_a_row_that_is_yet_to_come_unless_it_was_moved_meanwhile() -> None:
    async with stage(table()) as player:
        player.widget.show(rows(1, 2, 3))
        assert not player.widget.go_to("9")
        player.widget.show(rows(1, 2, 3, 9))
        assert player.widget.cursor_key == "9"
        assert not player.widget.go_to("10")
        await player.press("g")
        player.widget.show(rows(1, 2, 3, 9, 10))
        assert player.widget.cursor_key == "1"


async def test_marks_stay_on_their_rows_and_go_with_them() -> None:
    async with stage(table()) as player:
        player.widget.show(rows(1, 2, 3, 4))
        player.widget.mark()
        await player.press("j")
        player.widget.mark()
        assert player.widget.marked == ("1", "3")
        player.widget.show(rows(4, 3, 2, 1))
        assert player.widget.marked == ("3", "1")
        assert sum("◆" in line for line in player.rows()) == 2
        player.widget.show(rows(4, 1))
        assert player.widget.marked == ("1",)
        assert player.widget.clear_marks() and not player.widget.clear_marks()
        assert player.widget.marked == ()


async def test_an_empty_table_says_so_and_takes_every_key() -> None:
    async with stage(table()) as player:
        player.widget.show([])
        await player.shows("No jobs. Press n to submit one")
        for key in ("j", "k", "g", "G", "pageup", "pagedown", "ctrl+d", "ctrl+u", "enter"):
            await player.press(key)
        player.widget.show([], empty="No jobs match")
        await player.shows("No jobs match")


async def test_one_row() -> None:
    async with stage(table()) as player:
        player.widget.show(rows(7))
        for key in ("j", "G", "pagedown", "k", "g"):
            await player.press(key)
            assert player.widget.cursor_key == "7"


async def test_a_hundred_thousand_rows_look_at_the_visible_ones_only() -> None:
    async with stage(table()) as player:
        source = Endless(100_000)
        player.widget.update(source)
        await player.settle()
        assert source.looks <= 3 * 24
        source.looks = 0
        await player.press("G")
        assert player.widget.cursor_key == "99999"
        assert source.looks <= 3 * 24
        await player.press("pageup", "ctrl+u")
        assert under_cursor(player)[0].split()[1] == str(99999 - 22 - 11)


@pytest.mark.parametrize("size", SIZES)
async def test_every_line_is_as_wide_as_the_table_at_every_size(size: tuple[int, int]) -> None:
    async with stage(table(), size=(100, 30)) as player:
        player.widget.show(
            [("1", ("1", "漢字漢字漢字漢字", "e\u0301" * 30, "x\x1b[31my\nz" * 90)), *rows(*range(2, 90))]
        )
        await player.press("G")
        await player.pilot.resize_terminal(*size)
        await player.until(lambda: player.widget.size.height == size[1], "the new size")
        await player.settle()
        assert {cell_len(line) for line in player.rows()} == {player.widget.line_width}
        assert under_cursor(player)[0].split()[1] == "89"
        assert "\x1b" not in "".join(player.rows())


async def test_an_update_that_changes_nothing_writes_nothing() -> None:
    async with stage(table()) as player:
        player.widget.show(rows(*range(50)))
        await player.settle()
        player.widget.show(rows(*range(50)))
        player.widget.update(RowList(rows(*range(50))), changed_keys=())
        await player.pilot.pause()
        assert player.take_written() == ""


async def test_an_update_writes_the_line_that_changed_only() -> None:
    async with stage(table()) as player:
        before = rows(*range(50))
        player.widget.show(before)
        await player.settle()
        after = [*before]
        after[4] = row(4, state="FAILED")
        after[40] = row(40, state="FAILED")
        player.widget.update(RowList(after), changed_keys={"4", "40"})
        await player.pilot.pause()
        written = player.take_written()
        assert "FAILED" in written and "RUNNING" not in written
        assert len(written) < 500


async def test_rows_that_come_below_the_view_write_nothing_of_it() -> None:
    async with stage(table()) as player:
        player.widget.show(rows(*range(1000)))
        await player.settle()
        player.widget.show(rows(*range(1001)))
        await player.pilot.pause()
        assert player.take_written() == ""


async def test_the_sign_of_the_order_has_room_over_a_column_as_wide_as_its_title() -> None:
    narrow = VirtualTable((Column("STATE", 5), Column("USER", 8)), STYLES, empty="")
    async with stage(narrow) as player:
        player.widget.show(rows(1))
        player.widget.show_sort("STATE", descending=False)
        await player.shows("STAT▲")


async def test_the_sort_and_the_words_of_a_filter_are_pointed_out() -> None:
    async with stage(table()) as player:
        player.widget.show(rows(1, 2))
        player.widget.show_sort("where", descending=True)
        player.widget.highlight("ALI gpu02")
        await player.pilot.pause()
        assert "NODELIST(REASON)▼" in player.rows()[0]
        match = STYLES["match"].bgcolor
        lit = [
            segment.text
            for segment in player.widget.render_line(2)
            if segment.style and segment.style.bgcolor == match
        ]
        assert lit == ["ali", "gpu02"]


async def test_a_click_on_a_title_names_the_column_and_one_on_a_row_goes_there() -> None:
    async with stage(table()) as player:
        player.widget.show(rows(*range(10)))
        await player.pilot.pause()
        await player.pilot.click(player.widget, offset=(30, 0))
        heard = [each for each in player.app.heard if isinstance(each, VirtualTable.HeaderSelected)]
        assert [each.key for each in heard] == ["where"]
        await player.pilot.click(player.widget, offset=(10, 4))
        assert player.widget.cursor_key == "3"
        await player.pilot.click(player.widget, offset=(10, 6), times=2)
        chosen = [each for each in player.app.heard if isinstance(each, VirtualTable.Selected)]
        assert [each.key for each in chosen] == ["5"]


async def test_the_wheel_moves_the_view_not_the_cursor() -> None:
    async with stage(table()) as player:
        player.widget.show(rows(*range(100)))
        await player.pilot._post_mouse_events([MouseScrollDown], player.widget)
        await player.until(lambda: player.rows()[1].split()[0] == "3", "three rows further")
        assert player.widget.cursor_key == "0"


@pytest.mark.parametrize("colours", ["standard", None])
async def test_the_cursor_and_marks_are_signs_without_colour(colours: str | None) -> None:
    async with stage(table(), colours=colours) as player:  # type: ignore[arg-type]
        player.widget.show(rows(1, 2))
        player.widget.mark()
        await player.pilot.pause()
        assert player.rows()[1].startswith(" ◆") and player.rows()[2].startswith("▌ ")


@given(
    st.lists(
        st.builds(
            Column,
            st.text("ABC", max_size=12),
            st.integers(0, 40),
            st.integers(0, 4),
            flex=st.integers(0, 3),
        ),
        min_size=1,
        max_size=9,
    ),
    st.integers(1, 250),
)
def test_columns_stand_side_by_side_in_their_order(columns: list[Column], width: int) -> None:
    placed = layout(columns, width)
    assert placed
    assert [each.column for each in placed] == sorted(each.column for each in placed)
    for left, right in pairwise(placed):
        assert right.start >= left.start + left.width + gap(width) or left.start + left.width >= width
    if all(column.rank for column in columns):
        assert placed[-1].start + placed[-1].width <= width or len(placed) == 1


@given(st.integers(20, 250))
def test_the_queues_columns_fill_the_line_exactly(width: int) -> None:
    placed = layout(COLUMNS, width)
    assert placed[-1].start + placed[-1].width == width
