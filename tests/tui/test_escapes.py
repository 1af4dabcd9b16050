"""The Esc key and keys typed soon after it, as a terminal sends them."""

from __future__ import annotations

import pytest
from textual import events

from warpdeck_tui.terminal.escapes import EscapeParser


def keys_of(*reads: str, alt: str = "") -> list[str]:
    """Return the keys and pasted texts that the parser reads."""
    parser = EscapeParser(is_alt=lambda char: char in alt)
    found = [event for text in reads for event in parser.feed(text)]
    found += parser.feed("")
    return [event.text if isinstance(event, events.Paste) else getattr(event, "key", "") for event in found]


@pytest.mark.parametrize(
    ("reads", "keys"),
    [
        (["\x1b"], ["escape"]),
        (["\x1b:"], ["escape", "colon"]),
        (["\x1b", "q"], ["escape", "q"]),
        (["\x1b6\x1bj\x1bb"], ["escape", "6", "escape", "j", "escape", "b"]),
        (["\x1b\r"], ["escape", "enter"]),
        (["\x1b\x1b:x"], ["escape", "escape", "colon", "x"]),
        (["\x1bé"], ["escape", "é"]),
        (["a\x1b[A\x1bOBb"], ["a", "up", "down", "b"]),
        (["\x1b", "[", "1;5", "D", "x"], ["ctrl+left", "x"]),
        (["\x1b\x1b[A"], ["escape", "up"]),
        (["\x1b[27u:"], ["escape", "colon"]),
        (["\x1b[200~a\x1b[201~b"], ["a", "b"]),
        (["\x1b[2", "00~a:", "q\x1b[20", "1~\x1bb"], ["a:q", "escape", "b"]),
    ],
)
def test_esc_is_a_separate_key_and_sequences_are_complete(reads: list[str], keys: list[str]) -> None:
    assert keys_of(*reads) == keys


def test_alt_combinations_are_kept_where_they_are_bound() -> None:
    assert keys_of("\x1bb\x1bj", alt="b") == ["ctrl+left", "escape", "j"]


def test_mouse_events_are_unchanged() -> None:
    parser = EscapeParser(is_alt=lambda _: False)
    (event,) = parser.feed("\x1b[<0;10;5M")
    assert isinstance(event, events.MouseDown)
