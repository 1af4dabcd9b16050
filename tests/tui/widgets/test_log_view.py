"""The log view: following, moving, searching, and the terminal output of hostile logs."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from textual.events import MouseScrollUp, Paste

from tests.tui.widgets.widget_pilot import STYLES, WidgetPilot, control_sequences, run_widget
from warpdeck_tui.widgets.log import window
from warpdeck_tui.widgets.log.view import LogView


def numbered(count: int, *, start: int = 0) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(start, start + count))


async def feed(ui: WidgetPilot[LogView], data: bytes) -> None:
    """Feed data to the view and wait until it is drawn."""
    ui.widget.feed(data)
    await ui.until(lambda: ui.widget._flush_timer is None, "the flush")


async def test_the_log_opens_at_its_end_and_follows() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, numbered(1000))
        assert ui.rows()[-1].startswith("line 999 ")
        await feed(ui, numbered(5, start=1000))
        assert ui.rows()[-1].startswith("line 1004 ")
        assert ui.widget.following


async def test_moving_up_stops_following_and_counts_new_lines() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, numbered(1000))
        await ui.press("k")
        top = ui.rows()[0]
        await feed(ui, numbered(1312, start=1000))
        assert ui.rows()[0] == top
        assert ui.widget.unseen == 1312
        assert "+1,312 new" in ui.rows()[-1]
        await ui.press("G")
        assert ui.widget.following and ui.widget.unseen == 0
        assert ui.rows()[-1].startswith("line 2311 ")


async def test_the_wheel_stops_following_and_reaching_the_end_resumes_it() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, numbered(100))
        await ui.pilot._post_mouse_events([MouseScrollUp], ui.widget)
        await ui.pilot.pause()
        assert not ui.widget.following
        await ui.press("pagedown")
        assert ui.widget.following


async def test_resizing_the_window_keeps_following() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, numbered(1000))
        for size in ((120, 40), (80, 24), (40, 5), (200, 60)):
            await ui.pilot.resize_terminal(*size)
            await ui.until(lambda size=size: ui.widget.size.height == size[1], "the new size")
            assert ui.widget.following
            assert ui.rows()[-1].startswith("line 999 ")


async def test_keys_in_the_search_prompt_are_text() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, numbered(500))
        await ui.press("slash", *"line 7")
        assert ui.rows()[-1].startswith("/line 7")
        await ui.press("enter")
        await ui.shows("line 80 of 500")
        assert not ui.widget.following
        await ui.press("n")
        await ui.shows("line 8 of 500")
        await ui.press("N")
        await ui.shows("line 80 of 500")
        assert ui.widget.end_search() and not ui.widget.end_search()
        assert "of 500" not in ui.rows()[-1]


async def test_the_search_prompt_is_edited_and_left_as_in_less() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, numbered(50))
        await ui.press("slash", *"ab", "backspace", "c")
        assert ui.rows()[-1].rstrip() == "/ac"
        ui.widget.post_message(Paste("pas\x1b[31mted\n"))
        await ui.shows("/acpas[31mted")
        await ui.press("escape")
        assert ui.rows()[-1].startswith("line 49")
        await ui.press("slash", "a", "backspace", "backspace")
        assert ui.rows()[-1].startswith("line 49")


async def test_a_search_without_a_match_is_reported() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, numbered(50))
        await ui.press("slash", *"nowhere", "enter")
        await ui.shows("/nowhere: not found")


async def test_errors_are_found_backwards_from_the_end() -> None:
    log = numbered(100) + b"CUDA error: out of memory\n" + numbered(100) + b"loss: nan\n" + numbered(100)
    async with run_widget(LogView()) as ui:
        await feed(ui, log)
        await ui.press("E")
        await ui.shows("errors: line 202 of 302")
        await ui.press("E")
        await ui.shows("errors: line 101 of 302")
        await ui.press("n")
        await ui.shows("errors: line 202 of 302")


async def test_a_progress_bar_is_one_line_in_its_last_state() -> None:
    async with run_widget(LogView()) as ui:
        for percent in range(101):
            ui.widget.feed(b"\r%3d%%|%s" % (percent, b"#" * (percent // 10)))
        await feed(ui, b"\ndone\n")
        assert ui.rows()[0].startswith("100%|##########")
        assert ui.rows()[1].startswith("done")


async def test_a_progress_bar_is_found_in_its_current_state_only() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, b"begun\n  1%| | loss=3.0\r 40%|#| loss=2.0")
        await ui.press("slash", *"loss=2", "enter")
        await ui.shows("/loss=2: line 2 of 2")
        await feed(ui, b"\r 41%|#| loss=1.9")
        await ui.press("slash", *"loss=2", "enter")
        await ui.shows("/loss=2: not found")
        await ui.press("slash", *"41%", "enter")
        await ui.shows("/41%: line 2 of 2")


async def test_control_sequences_of_a_hostile_log_do_not_reach_the_terminal() -> None:
    hostile = (
        b"\x1b]52;c;c3RvbGVu\x07clip\n\x1b]0;title\x1b\\title\n\x1b[2J\x1b[H\x1b[?1049lgone\n\x1bP+q544e\x1b\\dcs\n"
        b"\x9b31mc1\n\xc2\x9b31mc1 in utf-8\n\x00nul\x07bell\x08\x7f\n\x1b[31mred\x1b[0m\n\xff\xfe\xfd\n"
        b"\xe2\x80\xaereversed\n\x1b[6n\x1b[c\x1b(0lqk\n\x1b]unfinished"
    )
    async with run_widget(LogView()) as ui:
        ui.take_written()
        await feed(ui, hostile)
        written = ui.take_written()
        assert "clip" in written and "reversed" in written
        assert control_sequences(written) == ""
        assert "c3RvbGVu" not in written


async def test_colors_of_a_log_are_kept() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, b"\x1b[38;2;1;2;3mred\x1b[0m plain\n")
        segments = list(ui.widget.render_line(0))
        assert segments[0].text == "red"
        assert segments[0].style is not None and segments[0].style.color is not None
        assert segments[0].style.color.get_truecolor() == (1, 2, 3)
        assert segments[1].style is not None and segments[1].style.color != segments[0].style.color


async def test_the_sixteen_colors_are_the_themes_unless_a_background_is_set() -> None:
    async with run_widget(LogView(styles=STYLES)) as ui:
        await feed(ui, b"\x1b[30mblack\x1b[41mon red\n")
        black, on_red = list(ui.widget.render_line(0))[:2]
        assert black.style and on_red.style and on_red.style.color and on_red.style.bgcolor
        assert black.style.color == STYLES["ansi0"].color
        assert (on_red.style.color.number, on_red.style.bgcolor.number) == (0, 1)


async def test_long_lines_are_clipped_scrolled_and_wrapped() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, b"0123456789" * 30 + b"\nnext\n")
        assert ui.rows()[0].endswith("…") and len(ui.rows()[0]) == 80
        await ui.press("right")
        assert ui.rows()[0].startswith("6789")
        await ui.press("w")
        assert [row.rstrip() for row in ui.rows()[:5]] == [
            *("0123456789" * 8 for _ in range(3)),
            "0123456789" * 6,
            "next",
        ]
        await ui.press("w")
        assert ui.rows()[1].startswith("next")


async def test_the_end_of_a_wrapped_line_longer_than_the_page_is_visible() -> None:
    async with run_widget(LogView()) as ui:
        await ui.press("w")
        await feed(ui, numbered(5) + b"x" * 4000 + b"the end of it")
        await ui.settle()
        assert ui.rows()[-1].rstrip().endswith("the end of it")
        assert ui.rows()[0] == "x" * 79
        await ui.press("k")
        assert ui.rows()[0].startswith("line 4") and not ui.widget.following


async def test_the_scroll_bar_does_not_cover_the_last_column() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, b"x" * 500 + b"\n" + numbered(22) + b"x" * 500 + b"\n")
        await ui.settle()
        assert [row[-1] for row in ui.screen()] == ["…", *" " * 22, "…"]
        await feed(ui, b"x" * 500 + b"\n")
        await ui.settle()
        assert ui.screen()[-1][-2:] == "…" + ui.screen()[-1][-1]
        assert len(ui.rows()[-1]) == 79


async def test_wide_and_combining_characters_keep_the_line_width() -> None:
    async with run_widget(LogView(), size=(20, 6)) as ui:
        await feed(ui, ("漢字" * 20 + "\ne\u0301" * 3 + "\n👩‍🚀 ok\n\ttab\n").encode())
        assert all(cell_len(row) == 20 for row in ui.rows())


async def test_a_search_highlights_lines_that_were_drawn_before() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, b"needle\n" * 5 + b"other\n")
        plain = {segment.style for segment in ui.widget.render_line(0) if segment.text == "needle"}
        await ui.press("slash", *"needle", "enter")
        found = {segment.style for segment in ui.widget.render_line(0) if segment.text == "needle"}
        assert found and found != plain


async def test_an_unchanged_log_writes_nothing() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, numbered(100))
        await ui.settle()
        await feed(ui, b"")
        ui.widget._flush()
        await ui.pilot.pause()
        assert len(ui.take_written()) == 0


async def test_a_new_line_below_the_view_writes_only_the_badge() -> None:
    async with run_widget(LogView()) as ui:
        await feed(ui, numbered(1000))
        await ui.press("pageup")
        await ui.settle()
        await feed(ui, numbered(1, start=1000))
        assert len(ui.take_written()) < 400


class RemoteLog:
    """A remote log of any size with lines of 64 bytes, which are generated when they are read."""

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
LAST = TWO_GB // RemoteLog.WIDTH - 1


async def open_log(ui: WidgetPilot[LogView], remote: RemoteLog) -> None:
    """Open a log like the job's page: feed its last part, and make the rest readable."""
    at_bytes = remote.size_bytes - 10_000
    ui.widget.clear(at_bytes=at_bytes, read=remote.read)
    await feed(ui, await remote.read(at_bytes, 10_000))


async def test_two_gigabytes_open_at_the_end_and_jump_to_the_start_in_one_read() -> None:
    remote = RemoteLog(TWO_GB)
    async with run_widget(LogView()) as ui:
        await open_log(ui, remote)
        assert ui.rows()[-1].startswith(f"far line {LAST} ")
        assert remote.reads == 1
        await ui.press("g")
        await ui.shows("far line 0 ")
        assert remote.reads == 2
        await ui.press("G")
        await ui.shows(f"far line {LAST} ")
        assert ui.widget.following


async def test_the_key_for_the_beginning_is_not_lost_before_the_log_arrives() -> None:
    remote = RemoteLog(TWO_GB)
    async with run_widget(LogView()) as ui:
        await ui.press("g")
        ui.widget.clear()
        await open_log(ui, remote)
        await ui.shows("far line 0 ")
        assert not ui.widget.following
    async with run_widget(LogView()) as ui:
        await ui.press("g", "G")
        await open_log(ui, remote)
        await ui.shows(f"far line {LAST} ")


async def test_moving_up_reads_earlier_lines_and_keeps_the_view() -> None:
    remote = RemoteLog(TWO_GB)
    async with run_widget(LogView()) as ui:
        await open_log(ui, remote)
        await ui.press("pageup")
        for _ in range(20):
            top = int(ui.rows()[0].split()[2])
            ui.widget.action_page(-1.0)
            await ui.until(lambda: not ui.widget._reading, "the page")
            assert int(ui.rows()[0].split()[2]) == top - 23
        assert remote.reads > 1


async def test_lines_above_a_line_of_a_megabyte_can_be_reached() -> None:
    text = numbered(100) + b"x" * 1_000_000 + b"\nthe end\n"

    async def read(at_bytes: int, size_bytes: int, /) -> bytes:
        return text[at_bytes : at_bytes + size_bytes]

    async with run_widget(LogView()) as ui:
        begin = len(text) - 10_000
        ui.widget.clear(at_bytes=begin, read=read)
        await feed(ui, text[begin:])
        for words in ("line 99", "xxx", "the end"):
            await ui.shows(words)
        assert ui.widget.following
        await ui.press("pageup", "pageup")
        assert not ui.widget.following
        await ui.shows("line 5")


async def test_moving_up_reads_more_if_the_buffer_fills_no_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(window, "ENOUGH_BYTES", 0)
    remote = RemoteLog(TWO_GB)
    async with run_widget(LogView()) as ui:
        begin = TWO_GB - 3 * RemoteLog.WIDTH
        ui.widget.clear(at_bytes=begin, read=remote.read)
        await feed(ui, await remote.read(begin, 3 * RemoteLog.WIDTH))
        assert remote.reads == 1
        await ui.press("k")
        await ui.shows(f"far line {LAST - 10} ")


async def test_new_lines_far_below_the_view_are_counted_and_read_later() -> None:
    remote = RemoteLog(TWO_GB)
    async with run_widget(LogView()) as ui:
        await open_log(ui, remote)
        await ui.press("g")
        await ui.shows("far line 0 ")
        await feed(ui, b"".join(remote.line(LAST + 1 + each) for each in range(50_000)))
        remote.size_bytes += 50_000 * remote.WIDTH
        assert ui.widget.unseen == 50_000
        assert ui.rows()[0].startswith("far line 0 ")
        assert "+50,000 new" in ui.rows()[-1]
        await ui.press("G")
        await ui.shows(f"far line {LAST + 50_000} ")


async def test_a_search_reads_parts_that_are_not_buffered() -> None:
    remote = RemoteLog(20_000_000, marks={1000: b"needle", 200_000: b"needle"})
    async with run_widget(LogView()) as ui:
        await open_log(ui, remote)
        await ui.press("slash", *"needle", "enter")
        await ui.shows("far line 200000 needle")
        await ui.until(lambda: not ui.widget._searching)
        await ui.press("N")
        await ui.shows("far line 1000 needle")
        await ui.until(lambda: not ui.widget._searching)
        await ui.press("n")
        await ui.shows("far line 200000 needle")


async def test_a_log_that_becomes_unreadable_keeps_its_buffered_lines() -> None:
    async def nothing(at_bytes: int, size_bytes: int, /) -> bytes:
        return b""

    async with run_widget(LogView()) as ui:
        ui.widget.clear(at_bytes=1000, read=nothing)
        await feed(ui, b"rest of a line\n" + numbered(100))
        await ui.press("pageup", "pageup", "pageup", "pageup", "pageup")
        assert ui.rows()[0].startswith("line 0 ")
        await ui.press("G")
        assert ui.rows()[-1].startswith("line 99 ")


async def test_an_empty_log_accepts_every_key() -> None:
    async with run_widget(LogView()) as ui:
        for key in ("j", "k", "g", "G", "pageup", "pagedown", "w", "left", "right", "E", "n", "N"):
            await ui.press(key)
        assert set("".join(ui.rows())) <= set(" errors:notfound")
