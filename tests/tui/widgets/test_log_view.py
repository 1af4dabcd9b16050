"""The log view as somebody reads it: following, moving, searching, and what of a hostile log reaches the terminal."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from textual.events import MouseScrollUp, Paste

from tests.tui.widgets.stage import STYLES, Player, obeyed, stage
from warpdeck_tui.widgets.log import window
from warpdeck_tui.widgets.log.view import LogView


def numbered(count: int, *, start: int = 0) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(start, start + count))


async def fed(player: Player[LogView], data: bytes) -> None:
    """Feeds and waits for the flush."""
    player.widget.feed(data)
    await player.until(lambda: player.widget._flush_timer is None, "the flush")


async def test_it_opens_at_the_end_and_follows() -> None:
    async with stage(LogView()) as player:
        await fed(player, numbered(1000))
        assert player.rows()[-1].startswith("line 999 ")
        await fed(player, numbered(5, start=1000))
        assert player.rows()[-1].startswith("line 1004 ")
        assert player.widget.following


async def test_a_move_upward_stops_following_and_counts_what_is_new() -> None:
    async with stage(LogView()) as player:
        await fed(player, numbered(1000))
        await player.press("k")
        top = player.rows()[0]
        await fed(player, numbered(1312, start=1000))
        assert player.rows()[0] == top
        assert player.widget.unseen == 1312
        assert "+1,312 new" in player.rows()[-1]
        await player.press("G")
        assert player.widget.following and player.widget.unseen == 0
        assert player.rows()[-1].startswith("line 2311 ")


async def test_the_wheel_stops_following_too_and_reaching_the_end_follows_again() -> None:
    async with stage(LogView()) as player:
        await fed(player, numbered(100))
        await player.pilot._post_mouse_events([MouseScrollUp], player.widget)
        await player.pilot.pause()
        assert not player.widget.following
        await player.press("pagedown")
        assert player.widget.following


async def test_growing_and_shrinking_the_window_keeps_following() -> None:
    async with stage(LogView()) as player:
        await fed(player, numbered(1000))
        for size in ((120, 40), (80, 24), (40, 5), (200, 60)):
            await player.pilot.resize_terminal(*size)
            await player.until(lambda size=size: player.widget.size.height == size[1], "the new size")
            assert player.widget.following
            assert player.rows()[-1].startswith("line 999 ")


async def test_keys_of_the_search_prompt_are_text_and_nothing_else() -> None:
    async with stage(LogView()) as player:
        await fed(player, numbered(500))
        await player.press("slash", *"line 7")
        assert player.rows()[-1].startswith("/line 7")
        await player.press("enter")
        await player.shows("line 80 of 500")
        assert not player.widget.following
        await player.press("n")
        await player.shows("line 8 of 500")
        await player.press("N")
        await player.shows("line 80 of 500")
        assert player.widget.end_search() and not player.widget.end_search()
        assert "of 500" not in player.rows()[-1]


async def test_the_prompt_is_edited_and_left_as_in_less() -> None:
    async with stage(LogView()) as player:
        await fed(player, numbered(50))
        await player.press("slash", *"ab", "backspace", "c")
        assert player.rows()[-1].rstrip() == "/ac"
        player.widget.post_message(Paste("pas\x1b[31mted\n"))
        await player.shows("/acpas[31mted")
        await player.press("escape")
        assert player.rows()[-1].startswith("line 49")
        await player.press("slash", "a", "backspace", "backspace")
        assert player.rows()[-1].startswith("line 49")


async def test_what_is_not_there_is_said() -> None:
    async with stage(LogView()) as player:
        await fed(player, numbered(50))
        await player.press("slash", *"nowhere", "enter")
        await player.shows("/nowhere: not found")


async def test_errors_are_found_from_the_end_upwards() -> None:
    log = numbered(100) + b"CUDA error: out of memory\n" + numbered(100) + b"loss: nan\n" + numbered(100)
    async with stage(LogView()) as player:
        await fed(player, log)
        await player.press("E")
        await player.shows("errors: line 202 of 302")
        await player.press("E")
        await player.shows("errors: line 101 of 302")
        await player.press("n")
        await player.shows("errors: line 202 of 302")


async def test_a_progress_bar_is_one_line_in_its_last_state() -> None:
    async with stage(LogView()) as player:
        for percent in range(101):
            player.widget.feed(b"\r%3d%%|%s" % (percent, b"#" * (percent // 10)))
        await fed(player, b"\ndone\n")
        assert player.rows()[0].startswith("100%|##########")
        assert player.rows()[1].startswith("done")


async def test_a_progress_bar_is_found_while_it_moves_and_only_as_it_stands() -> None:
    async with stage(LogView()) as player:
        await fed(player, b"begun\n  1%| | loss=3.0\r 40%|#| loss=2.0")
        await player.press("slash", *"loss=2", "enter")
        await player.shows("/loss=2: line 2 of 2")
        await fed(player, b"\r 41%|#| loss=1.9")
        await player.press("slash", *"loss=2", "enter")
        await player.shows("/loss=2: not found")
        await player.press("slash", *"41%", "enter")
        await player.shows("/41%: line 2 of 2")


async def test_nothing_of_a_hostile_log_reaches_the_terminal() -> None:
    hostile = (
        b"\x1b]52;c;c3RvbGVu\x07clip\n\x1b]0;title\x1b\\title\n\x1b[2J\x1b[H\x1b[?1049lgone\n\x1bP+q544e\x1b\\dcs\n"
        b"\x9b31mc1\n\xc2\x9b31mc1 in utf-8\n\x00nul\x07bell\x08\x7f\n\x1b[31mred\x1b[0m\n\xff\xfe\xfd\n"
        b"\xe2\x80\xaereversed\n\x1b[6n\x1b[c\x1b(0lqk\n\x1b]unfinished"
    )
    async with stage(LogView()) as player:
        player.take_written()
        await fed(player, hostile)
        written = player.take_written()
        assert "clip" in written and "reversed" in written
        assert obeyed(written) == ""
        assert "c3RvbGVu" not in written


async def test_colours_are_kept() -> None:
    async with stage(LogView()) as player:
        await fed(player, b"\x1b[38;2;1;2;3mred\x1b[0m plain\n")
        segments = list(player.widget.render_line(0))
        assert segments[0].text == "red"
        assert segments[0].style is not None and segments[0].style.color is not None
        assert segments[0].style.color.get_truecolor() == (1, 2, 3)
        assert segments[1].style is not None and segments[1].style.color != segments[0].style.color


async def test_the_sixteen_colours_are_the_themes_but_on_a_ground_of_their_own() -> None:
    async with stage(LogView(styles=STYLES)) as player:
        await fed(player, b"\x1b[30mblack\x1b[41mon red\n")
        black, on_red = list(player.widget.render_line(0))[:2]
        assert black.style and on_red.style and on_red.style.color and on_red.style.bgcolor
        assert black.style.color == STYLES["ansi0"].color
        assert (on_red.style.color.number, on_red.style.bgcolor.number) == (0, 1)


async def test_long_lines_are_clipped_scrolled_and_wrapped() -> None:
    async with stage(LogView()) as player:
        await fed(player, b"0123456789" * 30 + b"\nnext\n")
        assert player.rows()[0].endswith("…") and len(player.rows()[0]) == 80
        await player.press("right")
        assert player.rows()[0].startswith("6789")
        await player.press("w")
        assert [row.rstrip() for row in player.rows()[:5]] == [
            *("0123456789" * 8 for _ in range(3)),
            "0123456789" * 6,
            "next",
        ]
        await player.press("w")
        assert player.rows()[1].startswith("next")


async def test_the_end_of_a_wrapped_line_longer_than_the_page_is_in_view() -> None:
    async with stage(LogView()) as player:
        await player.press("w")
        await fed(player, numbered(5) + b"x" * 4000 + b"the end of it")
        await player.settle()
        assert player.rows()[-1].rstrip().endswith("the end of it")
        assert player.rows()[0] == "x" * 79
        await player.press("k")
        assert player.rows()[0].startswith("line 4") and not player.widget.following


async def test_the_last_column_is_not_under_the_scroll_bar() -> None:
    async with stage(LogView()) as player:
        await fed(player, b"x" * 500 + b"\n" + numbered(22) + b"x" * 500 + b"\n")
        await player.settle()
        assert [row[-1] for row in player.screen()] == ["…", *" " * 22, "…"]
        await fed(player, b"x" * 500 + b"\n")
        await player.settle()
        assert player.screen()[-1][-2:] == "…" + player.screen()[-1][-1]
        assert len(player.rows()[-1]) == 79


async def test_wide_and_combining_characters_keep_the_width() -> None:
    async with stage(LogView(), size=(20, 6)) as player:
        await fed(player, ("漢字" * 20 + "\ne\u0301" * 3 + "\n👩‍🚀 ok\n\ttab\n").encode())
        assert all(cell_len(row) == 20 for row in player.rows())


async def test_an_unchanged_log_writes_nothing() -> None:
    async with stage(LogView()) as player:
        await fed(player, numbered(100))
        await player.settle()
        await fed(player, b"")
        player.widget._flush()
        await player.pilot.pause()
        assert len(player.take_written()) == 0


async def test_a_new_line_below_the_view_writes_the_badge_only() -> None:
    async with stage(LogView()) as player:
        await fed(player, numbered(1000))
        await player.press("pageup")
        await player.settle()
        await fed(player, numbered(1, start=1000))
        assert len(player.take_written()) < 400


class Far:
    """A log of any size that is not here: lines of 64 bytes, made when they are read."""

    WIDTH = 64

    def __init__(self, size_bytes: int, *, marks: dict[int, bytes] | None = None) -> None:
        self.size_bytes = size_bytes
        self.reads = 0
        self._marks = marks or {}

    async def read(self, at_bytes: int, size_bytes: int, /) -> bytes:
        self.reads += 1
        stop = min(self.size_bytes, at_bytes + size_bytes)
        first, last = at_bytes // self.WIDTH, -(-stop // self.WIDTH)
        text = b"".join(self.line(number) for number in range(first, last))
        return text[at_bytes - first * self.WIDTH :][: stop - at_bytes]

    def line(self, number: int) -> bytes:
        words = b"far line %d %s" % (number, self._marks.get(number, b""))
        return words.ljust(self.WIDTH - 1) + b"\n"


TWO_GB = 2 * 1024**3
LAST = TWO_GB // Far.WIDTH - 1


async def opened(player: Player[LogView], far: Far) -> None:
    """As the job's page opens a log: its last part is fed, the rest can be read."""
    at_bytes = far.size_bytes - 10_000
    player.widget.clear(at_bytes=at_bytes, read=far.read)
    await fed(player, await far.read(at_bytes, 10_000))


async def test_two_gigabytes_open_at_the_end_and_go_to_the_beginning_in_one_read() -> None:
    far = Far(TWO_GB)
    async with stage(LogView()) as player:
        await opened(player, far)
        assert player.rows()[-1].startswith(f"far line {LAST} ")
        assert far.reads == 1
        await player.press("g")
        await player.shows("far line 0 ")
        assert far.reads == 2
        await player.press("G")
        await player.shows(f"far line {LAST} ")
        assert player.widget.following


async def test_moving_up_reads_on_and_keeps_what_is_in_view() -> None:
    far = Far(TWO_GB)
    async with stage(LogView()) as player:
        await opened(player, far)
        await player.press("pageup")
        for _ in range(20):
            top = int(player.rows()[0].split()[2])
            player.widget.action_page(-1.0)
            await player.until(lambda: not player.widget._reading, "the page")
            assert int(player.rows()[0].split()[2]) == top - 23
        assert far.reads > 1


async def test_what_stands_above_a_line_of_a_megabyte_at_the_end_can_be_reached() -> None:
    text = numbered(100) + b"x" * 1_000_000 + b"\nthe end\n"

    async def read(at_bytes: int, size_bytes: int, /) -> bytes:
        return text[at_bytes : at_bytes + size_bytes]

    async with stage(LogView()) as player:
        begin = len(text) - 10_000
        player.widget.clear(at_bytes=begin, read=read)
        await fed(player, text[begin:])
        for words in ("line 99", "xxx", "the end"):
            await player.shows(words)
        assert player.widget.following
        await player.press("pageup", "pageup")
        assert not player.widget.following
        await player.shows("line 5")


async def test_a_key_upwards_reads_on_where_what_is_kept_fills_no_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(window, "ENOUGH_BYTES", 0)
    far = Far(TWO_GB)
    async with stage(LogView()) as player:
        begin = TWO_GB - 3 * Far.WIDTH
        player.widget.clear(at_bytes=begin, read=far.read)
        await fed(player, await far.read(begin, 3 * Far.WIDTH))
        assert far.reads == 1
        await player.press("k")
        await player.shows(f"far line {LAST - 10} ")


async def test_what_comes_while_the_view_is_far_from_the_end_is_counted_and_read_at_the_end() -> None:
    far = Far(TWO_GB)
    async with stage(LogView()) as player:
        await opened(player, far)
        await player.press("g")
        await player.shows("far line 0 ")
        await fed(player, b"".join(far.line(LAST + 1 + each) for each in range(50_000)))
        far.size_bytes += 50_000 * far.WIDTH
        assert player.widget.unseen == 50_000
        assert player.rows()[0].startswith("far line 0 ")
        assert "+50,000 new" in player.rows()[-1]
        await player.press("G")
        await player.shows(f"far line {LAST + 50_000} ")


async def test_a_search_goes_where_nothing_is_kept() -> None:
    far = Far(20_000_000, marks={1000: b"needle", 200_000: b"needle"})
    async with stage(LogView()) as player:
        await opened(player, far)
        await player.press("slash", *"needle", "enter")
        await player.shows("far line 200000 needle")
        await player.until(lambda: not player.widget._searching)
        await player.press("N")
        await player.shows("far line 1000 needle")
        await player.until(lambda: not player.widget._searching)
        await player.press("n")
        await player.shows("far line 200000 needle")


async def test_a_log_that_cannot_be_read_any_more_keeps_what_there_is() -> None:
    async def nothing(at_bytes: int, size_bytes: int, /) -> bytes:
        return b""

    async with stage(LogView()) as player:
        player.widget.clear(at_bytes=1000, read=nothing)
        await fed(player, b"rest of a line\n" + numbered(100))
        await player.press("pageup", "pageup", "pageup", "pageup", "pageup")
        assert player.rows()[0].startswith("line 0 ")
        await player.press("G")
        assert player.rows()[-1].startswith("line 99 ")


async def test_an_empty_log_takes_every_key() -> None:
    async with stage(LogView()) as player:
        for key in ("j", "k", "g", "G", "pageup", "pagedown", "w", "left", "right", "E", "n", "N"):
            await player.press(key)
        assert set("".join(player.rows())) <= set(" errors:notfound")
