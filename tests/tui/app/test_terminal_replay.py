"""Replays of terminal output: the resulting screen of shells, progress bars and full-screen programs."""

from __future__ import annotations

import random

import pytest

from warpdeck_tui.viewmodels.shell.replay import Screen


def shown(*data: bytes, rows: int = 6, cols: int = 20) -> list[str]:
    screen = Screen(rows=rows, cols=cols)
    for each in data:
        screen.feed(each)
    return ["".join(written.text for written in line) for line in screen.lines()]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one\r\ntwo", ["one", "two"]),
        (b" 5%\r50%\r99%", ["99%"]),
        (b"abc\b\bX", ["aXc"]),
        (b"a\tb", ["a       b"]),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07plain", ["red plain"]),
        (b"x\x1b[2J\x1b[Hnew", ["new"]),
        (b"hello\x1b[3D\x1b[K!", ["he!"]),
        (b"\x1b[3;5Hhere", ["", "", "    here"]),
        (b"abcdef\r\x1b[2P", ["cdef"]),
        (b"abc\r\x1b[2@", ["  abc"]),
        (b"1\r\n2\r\n3\x1b[2;1H\x1b[L", ["1", "", "2", "3"]),
        (b"1\r\n2\r\n3\x1b[1;1H\x1b[M", ["2", "3"]),
        (b"x" * 25, ["x" * 20, "x" * 5]),
        ("漢字漢字漢字漢字漢字漢字".encode(), ["漢字漢字漢字漢字漢字", "漢字"]),
        (b"".join(b"%d\r\n" % number for number in range(9)), ["4", "5", "6", "7", "8"]),
        (b"$ vim\r\n\x1b[?1049h\x1b[H~\r\n~\x1b[6;1H-- INSERT --", ["~", "~", "", "", "", "-- INSERT --"]),
        (b"$ vim\r\n\x1b[?1049h\x1b[Hx\x1b[?1049l$ ", ["$ vim", "$"]),
        (b"a\r\nb\r\nc\x1b[2;3r\x1b[3;1H\nd", ["a", "c", "d"]),
        (b"\x1b[999999999999;99999Hx", ["", "", "", "", "", " " * 19 + "x"]),
        (b"\x9b31m\xff\xfe ok", ["\ufffd31m\ufffd\ufffd ok"]),
    ],
)
def test_output_appears_where_a_terminal_shows_it(data: bytes, lines: list[str]) -> None:
    assert [line.rstrip() for line in shown(data)] == lines
    assert shown(data) == shown(*(data[at : at + 1] for at in range(len(data))))


def styled(data: bytes) -> list[list[tuple[str, str]]]:
    screen = Screen(rows=6, cols=20)
    screen.feed(data)
    return [[(text, str(style)) for text, style in line] for line in screen.lines()]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"\x1b[1;32mok\x1b[0m no", [[("ok", "bold color(2)"), (" no", "none")]]),
        (b"\x1b[38;5;208mx\x1b[48;2;1;2;3my", [[("x", "color(208)"), ("y", "color(208) on #010203")]]),
        (b"\x1b[31mred\x1b7\x1b[m plain\x1b8!", [[("red!", "color(1)"), ("plain", "none")]]),
        (b"\x1b[44m\x1b[K", [[(" " * 20, "on color(4)")]]),
        (b"\x1b[44m\x1b[K\x1b[m\r\x1b[K", []),
        (b"\x1b[31mone\rt", [[("tne", "color(1)")]]),
        (b"\x1b[8;5mseen\x1b[>4;2m\x1b[?1m", [[("seen", "none")]]),
        (b"\x1b[" + b"1;" * 500 + b"31mx", [[("x", "none")]]),
        ("\x1b[31m漢".encode(), [[("漢", "color(1)")]]),
    ],
)
def test_a_replayed_screen_has_its_colors(data: bytes, lines: list[list[tuple[str, str]]]) -> None:
    assert styled(data) == lines


def test_a_replayed_screen_keeps_its_size_for_any_output() -> None:
    dice = random.Random(3)
    pieces = [
        b"\x1b[",
        b"\x1b]",
        b"\x1b",
        b"?1049h",
        b"?1049l",
        b"12;3",
        b"r",
        b"H",
        b"M",
        b"L",
        b"@",
        b"P",
        b"J",
        b"T",
        b"S",
        b"\n",
    ]
    pieces += [b"text", "漢".encode(), b"\x07", b"\t", b"\b", b"\x00", b"\xff", b";", b"7", b"8", b"A", b"D"]
    for _ in range(200):
        screen = Screen(rows=dice.choice([1, 5]), cols=dice.choice([2, 9]))
        for _ in range(40):
            screen.feed(dice.choice(pieces))
        rows, cols = len(screen._cells), {len(row) for row in screen._cells}
        assert (rows, cols) == (screen._rows, {screen._cols})
