"""Only some lines of a log: those that match, those that do not, those of one rank; live, and of a file of any size."""

from __future__ import annotations

import asyncio

import pytest

from tests.tui.widgets.stage import stage
from tests.tui.widgets.test_log_view import TWO_GB, Far, fed, numbered, opened
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
def test_lines_with_the_words_are_kept_or_those_without(text: str, lines: list[bytes]) -> None:
    assert kept(LOG, only(text)).splitlines() == lines
    assert kept(b"", only(text)) == b""


def test_the_lines_of_a_rank_are_those_that_say_so() -> None:
    log = b"[rank3]: a\n3: b\n[default3]:c\n  3: d\n[3] e\nrank 3 f\n[rank31]: no\n13: no\nstep 3: no\n[rank: 3] g\n"
    three = of_rank("3")
    assert three is not None
    assert [line[-1:] for line in kept(log, three).splitlines()] == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]
    assert of_rank("x") is None
    assert of_rank("9" * 20) is None


async def test_only_matching_lines_are_shown_and_more_come_as_they_are_written() -> None:
    async with stage(LogView()) as player:
        await fed(player, numbered(500))
        await player.press("ampersand", *"line 49", "enter")
        await player.shows("&line 49: 11")
        assert [row.rstrip() for row in player.rows()[:2]] == ["line 49", "line 490"]
        await fed(player, b"line 49 again\nother\nline 49 un")
        assert player.rows()[11].startswith("line 49 again")
        assert player.rows()[12].rstrip() == "line 49 un"
        await fed(player, b"finished\n")
        assert player.rows()[12].startswith("line 49 unfinished")
        await player.press("slash", *"again", "enter")
        await player.shows("/again: line 12 of 13")
        assert player.widget.end_search()
        assert player.widget.end_search()
        await player.shows("other")
        assert not player.widget.end_search()
        assert player.rows()[-1].startswith("line 49 unfinished")


async def test_a_progress_bar_passes_while_it_moves_and_only_as_it_stands() -> None:
    async with stage(LogView()) as player:
        await fed(player, b"begun\nother\n  1%| | loss=3.0")
        await player.press("ampersand", *"loss=", "enter")
        await player.shows("&loss=: 1")
        assert player.rows()[0].rstrip() == "  1%| | loss=3.0"
        await fed(player, b"\r 40%|#| loss=2.0")
        assert player.rows()[0].rstrip() == " 40%|#| loss=2.0"
        await player.press("slash", *"40%", "enter")
        await player.shows("/40%: line 1 of 1")
        await fed(player, b"\rsaving")
        assert not player.rows()[0].strip()
        await fed(player, b"\r100%|#| loss=1.0\nend\n")
        assert [row.rstrip() for row in player.rows()[:2]] == ["100%|#| loss=1.0", ""]
        assert player.widget.unseen == 1  # the search stopped following
        await player.press("ampersand", *"!loss", "enter")
        await player.shows("&!loss: 3")
        await fed(player, b"  0%|")
        assert player.rows()[3].rstrip() == "  0%|"
        await fed(player, b" loss=9")
        assert not player.rows()[3].strip()


async def test_a_line_that_grows_while_its_filter_begins_far_from_the_end_is_whole() -> None:
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


async def test_an_empty_filter_is_none_as_in_less() -> None:
    async with stage(LogView()) as player:
        await fed(player, numbered(50))
        await player.press("ampersand", *"nothing", "enter")
        await player.shows("&nothing: 0")
        assert not player.rows()[0].strip()
        await player.press("ampersand", "enter")
        await player.shows("line 49")
        await player.press("r", *"7x", "enter")
        assert player.rows()[-1].startswith("line 49")


async def test_a_filter_of_a_log_that_is_not_here_reads_on_from_its_end_as_far_as_one_looks() -> None:
    marks = dict.fromkeys((10, 100_000, 200_000, 300_000), b"needle")
    far = Far(20_000_000, marks=marks)
    async with stage(LogView(), size=(80, 3)) as player:
        await opened(player, far)
        await player.press("ampersand", *"needle", "enter")
        await player.shows("&needle: 4")
        assert [int(row.split()[2]) for row in player.rows()[:2]] == [100_000, 200_000]
        await player.press("k", "k")
        await fed(player, b"a new needle\n")
        assert player.widget.unseen == 1


async def test_a_filter_that_lets_much_through_reads_a_few_pages_of_two_gigabytes() -> None:
    far = Far(TWO_GB)
    async with stage(LogView()) as player:
        await opened(player, far)
        await player.press("ampersand", *"far", "enter")
        await player.shows("&far:")
        await player.until(lambda: not player.widget._reading, "what is near was read")
        assert "or more" in player.rows()[-1]
        assert far.reads < 5


async def test_a_filter_is_given_up_while_it_reads() -> None:
    async def forever(at_bytes: int, size_bytes: int, /) -> bytes:
        await asyncio.Event().wait()
        return b""

    async with stage(LogView()) as player:
        player.widget.clear(at_bytes=TWO_GB, read=forever)
        await fed(player, b"torn\n" + numbered(50))
        await player.press("ampersand", *"needle", "enter")
        await player.shows("&needle …")
        assert player.widget.end_filter()
        await player.shows("line 49")
        await player.until(lambda: not player.widget.workers, "nothing reads any more")


async def test_a_file_that_cannot_be_read_ends_the_filter_where_it_is() -> None:
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


async def test_a_filter_that_is_taken_away_leaves_the_line_that_was_looked_at_among_its_neighbours() -> None:
    marks = dict.fromkeys((10, 100_000, 200_000, 300_000), b"needle")
    far = Far(20_000_000, marks=marks)
    async with stage(LogView(), size=(80, 3)) as player:
        await opened(player, far)
        await player.press("ampersand", *"needle", "enter")
        await player.shows("&needle: 4")
        await player.press("k")
        assert int(player.rows()[0].split()[2]) == 10
        await player.press("j")
        assert int(player.rows()[0].split()[2]) == 100_000
        await player.press("k")
        assert player.widget.end_search()
        await player.shows("far line 9 ")
        assert not player.widget.following


async def test_of_lines_that_say_the_same_the_one_that_was_looked_at_is_gone_back_to() -> None:
    log = b"".join(b"before %d\n\x1b[31msame\x1b[0m\nafter %d\n" % (each, each) for each in range(9))
    async with stage(LogView(), size=(80, 5)) as player:
        await fed(player, log + numbered(20))
        await player.press("ampersand", *"same", "enter")
        await player.shows("&same: 9")
        await player.press("g", "j", "j")
        assert player.widget.end_search()
        await player.shows("before 2")
        assert [row.rstrip() for row in player.rows()[2:5]] == ["before 2", "same", "after 2"]


def test_a_page_in_which_nothing_matches_is_not_taken_apart() -> None:
    assert kept(b"a\n\nb\n", only("x")) == b""
    assert kept(b"\n", only("!x")) == b"\n"
    assert kept(b"a\n\nb", only("!x")) == b"a\n\nb\n"


async def test_a_filter_says_how_far_it_has_looked() -> None:
    whole = LogText()
    whole.clear(at_bytes=1000, read=None)
    whole.feed(b"torn\nother\n")
    text = FilteredText(whole, only("loss"))
    assert text.looked_through_pct == 1
