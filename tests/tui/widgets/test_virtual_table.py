"""The table: cursor and marks stay on their rows, and only changes are written."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.events import MouseScrollDown

from tests.tui.widgets.widget_pilot import STYLES, WidgetPilot, run_widget
from warpdeck_tui.widgets.cells import Cell, fit, with_both_ends
from warpdeck_tui.widgets.columns import Column, gap, layout
from warpdeck_tui.widgets.rows import KnownRows
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


class GeneratedRows(KnownRows):
    """Rows that are generated when they are read. Counts the reads."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.reads = 0

    def __len__(self) -> int:
        return self.count

    def row(self, index: int) -> Sequence[Cell]:
        self.reads += 1
        return row(index)[1]

    def key(self, index: int) -> str:
        return str(index)


def under_cursor(ui: WidgetPilot[VirtualTable]) -> list[str]:
    return [each for each in ui.rows() if each.startswith("▌")]


async def test_the_cursor_stays_on_its_row_when_rows_change() -> None:
    async with run_widget(table()) as ui:
        ui.widget.show(rows(1, 2, 3, 4, 5))
        await ui.press("j", "j")
        assert ui.widget.cursor_key == "3"
        for numbers in ((0, 9, 1, 2, 3, 4), (4, 3, 2, 1), (3,), tuple(range(100, 0, -1))):
            ui.widget.show(rows(*numbers))
            await ui.pilot.pause()
            assert ui.widget.cursor_key == "3"
            (line,) = under_cursor(ui)
            assert line.split()[1] == "3"


async def test_visible_rows_stay_in_place_when_rows_are_added_above() -> None:
    async with run_widget(table()) as ui:
        ui.widget.show(rows(*range(100, 200)))
        ui.widget.go_to("150")
        await ui.pilot.pause()
        place = [line.startswith("▌") for line in ui.rows()].index(True)
        ui.widget.show(rows(*range(200)))
        await ui.pilot.pause()
        assert [line.startswith("▌") for line in ui.rows()].index(True) == place


async def test_the_cursors_row_stays_visible_when_it_moves_far_down() -> None:
    async with run_widget(table()) as ui:
        ui.widget.show(rows(*range(100)))
        await ui.settle()
        ui.widget.show(rows(*range(100, 200), *range(100)))
        await ui.settle()
        (line,) = under_cursor(ui)
        assert line.split()[1] == "0"


async def test_the_cursor_keeps_its_position_when_its_row_is_removed() -> None:
    async with run_widget(table()) as ui:
        ui.widget.show(rows(1, 2, 3, 4))
        await ui.press("j")
        ui.widget.show(rows(1, 3, 4))
        assert ui.widget.cursor_key == "3"
        ui.widget.show(rows(1))
        assert ui.widget.cursor_key == "1"
        ui.widget.show([])
        assert ui.widget.cursor_key == ""


async def test_the_cursor_goes_to_a_future_row_unless_it_was_moved() -> None:
    async with run_widget(table()) as ui:
        ui.widget.show(rows(1, 2, 3))
        assert not ui.widget.go_to("9")
        ui.widget.show(rows(1, 2, 3, 9))
        assert ui.widget.cursor_key == "9"
        assert not ui.widget.go_to("10")
        await ui.press("g")
        ui.widget.show(rows(1, 2, 3, 9, 10))
        assert ui.widget.cursor_key == "1"


async def test_marks_stay_on_their_rows_and_are_removed_with_them() -> None:
    async with run_widget(table()) as ui:
        ui.widget.show(rows(1, 2, 3, 4))
        ui.widget.mark()
        await ui.press("j")
        ui.widget.mark()
        assert ui.widget.marked == ("1", "3")
        ui.widget.show(rows(4, 3, 2, 1))
        assert ui.widget.marked == ("3", "1")
        assert sum("◆" in line for line in ui.rows()) == 2
        ui.widget.show(rows(4, 1))
        assert list(ui.widget.marked) == ["1"]
        assert ui.widget.clear_marks() and not ui.widget.clear_marks()
        assert list(ui.widget.marked) == []


async def test_an_empty_table_shows_a_message_and_accepts_every_key() -> None:
    async with run_widget(table()) as ui:
        ui.widget.show([])
        await ui.shows("No jobs. Press n to submit one")
        for key in ("j", "k", "g", "G", "pageup", "pagedown", "ctrl+d", "ctrl+u", "enter"):
            await ui.press(key)
        ui.widget.show([], empty="No jobs match")
        await ui.shows("No jobs match")


async def test_a_table_of_one_row_accepts_every_key() -> None:
    async with run_widget(table()) as ui:
        ui.widget.show(rows(7))
        for key in ("j", "G", "pagedown", "k", "g"):
            await ui.press(key)
            assert ui.widget.cursor_key == "7"


async def test_only_visible_rows_of_a_hundred_thousand_are_read() -> None:
    async with run_widget(table()) as ui:
        source = GeneratedRows(100_000)
        ui.widget.update(source)
        await ui.settle()
        assert source.reads <= 3 * 24
        source.reads = 0
        await ui.press("G")
        assert ui.widget.cursor_key == "99999"
        assert source.reads <= 3 * 24
        await ui.press("pageup", "ctrl+u")
        assert under_cursor(ui)[0].split()[1] == str(99999 - 22 - 11)


@pytest.mark.parametrize("size", SIZES)
async def test_every_line_is_as_wide_as_the_table_at_every_size(size: tuple[int, int]) -> None:
    async with run_widget(table(), size=(100, 30)) as ui:
        ui.widget.show(
            [("1", ("1", "漢字漢字漢字漢字", "e\u0301" * 30, "x\x1b[31my\nz" * 90)), *rows(*range(2, 90))]
        )
        await ui.press("G")
        await ui.pilot.resize_terminal(*size)
        await ui.until(lambda: ui.widget.size.height == size[1], "the new size")
        await ui.settle()
        assert {cell_len(line) for line in ui.rows()} == {ui.widget.line_width}
        assert under_cursor(ui)[0].split()[1] == "89"
        assert "\x1b" not in "".join(ui.rows())


async def test_an_update_without_changes_writes_nothing() -> None:
    async with run_widget(table()) as ui:
        ui.widget.show(rows(*range(50)))
        await ui.settle()
        ui.widget.show(rows(*range(50)))
        ui.widget.update(RowList(rows(*range(50))), changed_keys=())
        await ui.pilot.pause()
        assert ui.take_written() == ""


async def test_an_update_writes_only_changed_lines() -> None:
    async with run_widget(table()) as ui:
        before = rows(*range(50))
        ui.widget.show(before)
        await ui.settle()
        after = [*before]
        after[4] = row(4, state="FAILED")
        after[40] = row(40, state="FAILED")
        ui.widget.update(RowList(after), changed_keys={"4", "40"})
        await ui.pilot.pause()
        written = ui.take_written()
        assert "FAILED" in written and "RUNNING" not in written
        assert len(written) < 500


async def test_rows_added_below_the_view_write_nothing() -> None:
    async with run_widget(table()) as ui:
        ui.widget.show(rows(*range(1000)))
        await ui.settle()
        ui.widget.show(rows(*range(1001)))
        await ui.pilot.pause()
        assert ui.take_written() == ""


async def test_the_sort_symbol_fits_above_a_narrow_column() -> None:
    narrow = VirtualTable((Column("STATE", 5), Column("USER", 8)), STYLES, empty="")
    async with run_widget(narrow) as ui:
        ui.widget.show(rows(1))
        ui.widget.show_sort("STATE", descending=False)
        await ui.shows("STAT▲")


async def test_the_sorted_column_and_filter_matches_are_highlighted() -> None:
    async with run_widget(table()) as ui:
        ui.widget.show(rows(1, 2))
        ui.widget.show_sort("where", descending=True)
        ui.widget.highlight("ALI gpu02")
        await ui.pilot.pause()
        assert "NODELIST(REASON)▼" in ui.rows()[0]
        match = STYLES["match"].bgcolor
        lit = [
            segment.text
            for segment in ui.widget.render_line(2)
            if segment.style and segment.style.bgcolor == match
        ]
        assert lit == ["ali", "gpu02"]


async def test_a_click_selects_a_column_title_or_a_row() -> None:
    async with run_widget(table()) as ui:
        ui.widget.show(rows(*range(10)))
        await ui.pilot.pause()
        await ui.pilot.click(ui.widget, offset=(30, 0))
        selected = [each for each in ui.app.messages if isinstance(each, VirtualTable.HeaderSelected)]
        assert [each.key for each in selected] == ["where"]
        await ui.pilot.click(ui.widget, offset=(10, 4))
        assert ui.widget.cursor_key == "3"
        await ui.pilot.click(ui.widget, offset=(10, 6), times=2)
        chosen = [each for each in ui.app.messages if isinstance(each, VirtualTable.Selected)]
        assert [each.key for each in chosen] == ["5"]


async def test_the_wheel_moves_the_view_but_not_the_cursor() -> None:
    async with run_widget(table()) as ui:
        ui.widget.show(rows(*range(100)))
        await ui.pilot._post_mouse_events([MouseScrollDown], ui.widget)
        await ui.until(lambda: ui.rows()[1].split()[0] == "3", "the view three rows further down")
        assert ui.widget.cursor_key == "0"


@pytest.mark.parametrize("color_system", ["standard", None])
async def test_cursor_and_marks_are_visible_without_color(color_system: str | None) -> None:
    async with run_widget(table(), color_system=color_system) as ui:  # type: ignore[arg-type]
        ui.widget.show(rows(1, 2))
        ui.widget.mark()
        await ui.pilot.pause()
        assert ui.rows()[1].startswith(" ◆") and ui.rows()[2].startswith("▌ ")


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
def test_columns_are_placed_side_by_side_in_order(columns: list[Column], width: int) -> None:
    placed = layout(columns, width)
    assert placed
    assert [each.column for each in placed] == sorted(each.column for each in placed)
    for left, right in pairwise(placed):
        assert right.start >= left.start + left.width + gap(width) or left.start + left.width >= width
    if all(column.rank for column in columns):
        assert placed[-1].start + placed[-1].width <= width or len(placed) == 1


@given(st.integers(20, 250))
def test_the_columns_of_the_queue_fill_the_line_exactly(width: int) -> None:
    placed = layout(COLUMNS, width)
    assert placed[-1].start + placed[-1].width == width


def test_a_column_reaches_its_comfort_before_others_grow() -> None:
    bar = Column("LIMIT", 7, flex=1, most=14)
    reason = Column("WHY", 10, flex=8, comfort=38)
    assert [each.width for each in layout((bar, reason), 46)] == [7, 38]
    assert [each.width for each in layout((bar, reason), 40)] == [7, 32]
    assert layout((bar, reason), 60)[0].width > 7


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("vit-l-pretrain-seed-3", 14, "vit-l-p…seed-3"),
        ("vit-l-pretrain-seed-3", 21, "vit-l-pretrain-seed-3"),
        ("vit-l-pretrain-seed-3", 7, "vit-l-…"),
        ("日本語日本語日本語", 10, "日本 …本語"),
    ],
)
def test_a_long_name_shows_both_ends(text: str, width: int, shown: str) -> None:
    assert fit(with_both_ends(text, width), width) == shown
