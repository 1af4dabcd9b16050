"""Log lines of any bytes become text and colors, without other control sequences."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpdeck.base.escapes import without_escapes
from warpdeck_tui.widgets.log.ansi import segments

PIECES = st.sampled_from(
    [
        b"\x1b", b"\x1b[", b"\x1b]", b"\x1bP", b"\x1b\\", b"[", b"31", b"38;5;", b"48:2::1:2:", b"4:3", b";", b":", b"m", b"H",
        b"\x07", b"\r", b"\t", b"\x00", b"\x9b", b"\xc2\x9b", b"\xe2\x80\xae", b"\xff", "漢".encode(), b"9" * 5000, b"text",
    ]
)  # fmt: skip
LINES = st.one_of(st.binary(), st.lists(PIECES).map(b"".join)).map(lambda line: line.replace(b"\n", b""))


def text_of(line: bytes) -> str:
    return "".join(segment.text for segment in segments(line))


@given(LINES)
def test_any_line_becomes_text_without_control_characters(line: bytes) -> None:
    text = text_of(line)
    assert not [each for each in text if unicodedata.category(each) == "Cc"]
    assert not set(text) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2028\u2029")


@given(LINES)
def test_any_line_gives_valid_styles(line: bytes) -> None:
    for segment in segments(line):
        assert segment.style is not None and segment.control is None
        segment.style.render(segment.text)


@given(st.text(st.characters(exclude_categories=["C", "Zl", "Zp", "Cf"])))
def test_plain_text_is_unchanged(text: str) -> None:
    assert text_of(text.encode()) == text


@pytest.mark.parametrize(
    ("sequence", "colour"),
    [
        (b"31", (None, 1)),
        (b"91", (None, 9)),
        (b"38;5;208", (None, 208)),
        (b"38:5:208", (None, 208)),
        (b"38;2;10;20;30", ((10, 20, 30), None)),
        (b"38:2::10:20:30", ((10, 20, 30), None)),
        (b"38:2:10:20:30", ((10, 20, 30), None)),
        (b"1;58;2;9;9;9;32", (None, 2)),
        (b"4:3;33", (None, 3)),
        (b"31;39", (None, None)),
        (b"31;0", (None, None)),
    ],
)
def test_each_color_syntax_is_understood(
    sequence: bytes, colour: tuple[tuple[int, int, int] | None, int | None]
) -> None:
    style = segments(b"\x1b[" + sequence + b"mx")[0].style
    assert style is not None
    triplet, number = colour
    found = style.color
    assert (found.number if found else None) == number
    assert (tuple(found.triplet) if found and found.triplet else None) == triplet


def test_the_default_color_is_that_of_the_theme() -> None:
    style = segments(b"\x1b[1;31;44m\x1b[39mx")[0].style
    assert style is not None and style.color is None and style.bold
    assert style.bgcolor is not None and style.bgcolor.number == 4


@pytest.mark.parametrize(
    "escape",
    [
        b"\x1b]0;title\x07", b"\x1b]52;c;AAAA\x1b\\", b"\x1bPdcs\x1b\\", b"\x1b_apc\x1b\\", b"\x1b[2J", b"\x1b[?25l", b"\x1b(0",
        b"\x1bc", b"\x1b7", b"\x1b[10;20H", b"\x1b[>4;2m", b"\x1b[6n",
    ],
)  # fmt: skip
def test_other_escapes_are_dropped(escape: bytes) -> None:
    assert text_of(b"a" + escape + b"b") == "ab"
    assert without_escapes(b"a" + escape + b"b") == b"ab"


def test_tabs_advance_to_the_next_eighth_column() -> None:
    assert text_of(b"ab\tc") == "ab      c"
    assert text_of(b"ab\x1b[31mc\td") == "abc     d"


def test_an_incomplete_escape_sequence_is_dropped() -> None:
    assert text_of(b"text\x1b[38;5;2") == "text"
