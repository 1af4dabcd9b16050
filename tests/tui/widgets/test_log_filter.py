"""Filters of a log: matching lines, other lines, or lines of one rank; live, and in files of any size."""

from __future__ import annotations

import asyncio

import pytest

from tests.tui.widgets.test_log_view import TWO_GB, RemoteLog, feed, numbered, open_log
from tests.tui.widgets.widget_pilot import run_widget
from warpdeck_tui.widgets.log.filter import FilteredText, kept, of_rank, only
from warpdeck_tui.widgets.log.text import LogText
from warpdeck_tui.widgets.log.view import LogView

LOG = b"step 1 loss 2\nsaved\n\x1b[31mLOSS is nan\x1b[0m\n 5%|#\r 9%|## loss 1\nend\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("loss", [b"step 1 loss 2", b"\x1b[31mLOSS is nan\x1b[0m", b" 9%|## loss 1"]),
        ("LOSS", [b"\x1b[31mLOSS is nan\x1b[0m"]),
        ("LOSS is", [b"\x1b[31mLOSS is nan\x1b[0m"]),
        ("!loss", [b"saved", b"end"]),
        ("5%", []),
        ("(", []),
    ],
)
def test_a_filter_keeps_lines_with_or_without_a_text(text: str, lines: list[bytes]) -> None:
    assert kept(LOG, only(text)).splitlines() == lines
    assert kept(b"", only(text)) == b""


def test_the_lines_of_a_rank_have_its_prefix() -> None:
    log = b"[rank3]: a\n3: b\n[default3]:c\n  3: d\n[3] e\nrank 3 f\n[rank31]: no\n13: no\nstep 3: no\n[rank: 3] g\n"
    three = of_rank("3")
    assert three is not None
    assert [line[-1:] for line in kept(log, three).splitlines()] == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]
    assert of_rank("x") is None
    assert of_rank("9" * 20) is None


async def test_matching_lines_are_shown_as_they_are_written() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, numbered(500))
        await ui.press("ampersand", *"line 49", "enter")
        await ui.shows("&line 49: 11")
        assert [row.rstrip() for row in ui.rows()[:2]] == ["line 49", "line 490"]
        await feed(ui, b"line 49 again\nother\nline 49 un")
        assert ui.rows()[11].startswith("line 49 again")
        assert ui.rows()[12].rstrip() == "line 49 un"
        await feed(ui, b"finished\n")
        assert ui.rows()[12].startswith("line 49 unfinished")
        await ui.press("slash", *"again", "enter")
        await ui.shows("/again: line 12 of 13")
        assert ui.widget.end_search()
        assert ui.widget.end_search()
        await ui.shows("other")
        assert not ui.widget.end_search()
        assert ui.rows()[-1].startswith("line 49 unfinished")


async def test_a_progress_bar_matches_in_its_current_state_only() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, b"begun\nother\n  1%| | loss=3.0")
        await ui.press("ampersand", *"loss=", "enter")
        await ui.shows("&loss=: 1")
        assert ui.rows()[0].rstrip() == "  1%| | loss=3.0"
        await feed(ui, b"\r 40%|#| loss=2.0")
        assert ui.rows()[0].rstrip() == " 40%|#| loss=2.0"
        await ui.press("slash", *"40%", "enter")
        await ui.shows("/40%: line 1 of 1")
        await feed(ui, b"\rsaving")
        assert not ui.rows()[0].strip()
        await feed(ui, b"\r100%|#| loss=1.0\nend\n")
        assert [row.rstrip() for row in ui.rows()[:2]] == ["100%|#| loss=1.0", ""]
        assert ui.widget.unseen == 1  # the search stopped following
        await ui.press("ampersand", *"!loss", "enter")
        await ui.shows("&!loss: 3")
        await feed(ui, b"  0%|")
        assert ui.rows()[3].rstrip() == "  0%|"
        await feed(ui, b" loss=9")
        assert not ui.rows()[3].strip()


async def test_a_line_that_grows_during_filtering_is_complete() -> None:
    file = bytearray(b"step 1 loss 2\n" + b"filler\n" * 100_000 + b"bar lo")

    async def read(at_bytes: int, size_bytes: int, /) -> bytes:
        return bytes(file[at_bytes : at_bytes + size_bytes])

    def filtered(grown: bytes) -> FilteredText:
        whole = LogText()
        whole.clear(at_bytes=len(file), read=read)
        whole.to_start()
        text = FilteredText(whole, only("loss"))
        file.extend(grown)
        text.feed(grown)
        return text

    for grown in (b"", b"ss 3", b" again\nloss 4\nloss"):
        text = filtered(grown)
        while await text.read_before():
            pass
        text.feed(b" 5\n")
        file.extend(b" 5\n")
        expected = [line for line in bytes(file).split(b"\n") if b"loss" in line]
        assert text.lines.text().splitlines() == expected


async def test_an_empty_filter_is_removed_as_in_less() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, numbered(50))
        await ui.press("ampersand", *"nothing", "enter")
        await ui.shows("&nothing: 0")
        assert not ui.rows()[0].strip()
        await ui.press("ampersand", "enter")
        await ui.shows("line 49")
        await ui.press("r", *"7x", "enter")
        assert ui.rows()[-1].startswith("line 49")


async def test_a_filter_of_a_remote_log_reads_backwards_as_far_as_visible() -> None:
    marks = dict.fromkeys((10, 100_000, 200_000, 300_000), b"needle")
    far = RemoteLog(20_000_000, marks=marks)
    async with run_widget(LogView(), size=(80, 3)) as ui:
        await open_log(ui, far)
        await ui.press("ampersand", *"needle", "enter")
        await ui.shows("&needle: 4")
        assert [int(row.split()[2]) for row in ui.rows()[:2]] == [100_000, 200_000]
        await ui.press("k", "k")
        await feed(ui, b"a new needle\n")
        assert ui.widget.unseen == 1


async def test_a_filter_with_many_matches_reads_few_pages_of_two_gigabytes() -> None:
    far = RemoteLog(TWO_GB)
    async with run_widget(LogView()) as ui:
        await open_log(ui, far)
        await ui.press("ampersand", *"far", "enter")
        await ui.shows("&far:")
        await ui.until(lambda: not ui.widget._reading, "what is near was read")
        assert "or more" in ui.rows()[-1]
        assert far.reads < 5


async def test_a_filter_can_be_canceled_while_it_reads() -> None:
    async def forever(at_bytes: int, size_bytes: int, /) -> bytes:
        await asyncio.Event().wait()
        return b""

    async with run_widget(LogView()) as ui:
        ui.widget.clear(at_bytes=TWO_GB, read=forever)
        await feed(ui, b"torn\n" + numbered(50))
        await ui.press("ampersand", *"needle", "enter")
        await ui.shows("&needle …")
        assert ui.widget.end_filter()
        await ui.shows("line 49")
        await ui.until(lambda: not ui.widget.workers, "nothing reads any more")


async def test_a_read_failure_ends_the_filter_at_its_position() -> None:
    async def nothing(at_bytes: int, size_bytes: int, /) -> bytes:
        return b""

    whole = LogText()
    whole.clear(at_bytes=1000, read=nothing)
    whole.feed(b"torn\nloss 1\nother\n")
    text = FilteredText(whole, only("loss"))
    while await text.read_before():
        pass
    assert text.at_start
    assert text.lines.text() == b"loss 1\n"


async def test_removing_a_filter_keeps_the_current_line_in_view() -> None:
    marks = dict.fromkeys((10, 100_000, 200_000, 300_000), b"needle")
    far = RemoteLog(20_000_000, marks=marks)
    async with run_widget(LogView(), size=(80, 3)) as ui:
        await open_log(ui, far)
        await ui.press("ampersand", *"needle", "enter")
        await ui.shows("&needle: 4")
        await ui.press("k")
        assert int(ui.rows()[0].split()[2]) == 10
        await ui.press("j")
        assert int(ui.rows()[0].split()[2]) == 100_000
        await ui.press("k")
        assert ui.widget.end_search()
        await ui.shows("far line 9 ")
        assert not ui.widget.following


async def test_removing_a_filter_returns_to_the_selected_one_of_equal_lines() -> None:
    log = b"".join(b"before %d\n\x1b[31msame\x1b[0m\nafter %d\n" % (each, each) for each in range(9))
    async with run_widget(LogView(), size=(80, 5)) as ui:
        await feed(ui, log + numbered(20))
        await ui.press("ampersand", *"same", "enter")
        await ui.shows("&same: 9")
        await ui.press("g", "j", "j")
        assert ui.widget.end_search()
        await ui.shows("before 2")
        assert [row.rstrip() for row in ui.rows()[2:5]] == ["before 2", "same", "after 2"]


def test_pages_without_matches_are_filtered_correctly() -> None:
    assert kept(b"a\n\nb\n", only("x")) == b""
    assert kept(b"\n", only("!x")) == b"\n"
    assert kept(b"a\n\nb", only("!x")) == b"a\n\nb\n"


async def test_a_filter_reports_its_progress() -> None:
    whole = LogText()
    whole.clear(at_bytes=1000, read=None)
    whole.feed(b"torn\nother\n")
    text = FilteredText(whole, only("loss"))
    assert text.looked_through_pct == 1
