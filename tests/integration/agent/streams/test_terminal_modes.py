"""Terminal modes that a program leaves set, and the sequences that reset them."""

from __future__ import annotations

import pytest

from warpdeck_agent.client.modes import TerminalModes

EDITOR = b"\x1b[?1049h\x1b[?1h\x1b=\x1b[?2004h\x1b[?25l\x1b[>1u\x1b[?1006;1000h"


def shown(*pieces: bytes) -> TerminalModes:
    modes = TerminalModes()
    for piece in pieces:
        modes.feed(piece)
    return modes


def test_a_plain_terminal_is_left_alone() -> None:
    modes = shown(b"one\x1b[31mtwo\x1b[0m\r\n\x1b[2J\x1b[?25h\x1b[?7h\x1b[?12l")
    assert (modes.undo(), modes.redo()) == (b"", b"")


def test_modes_are_reset_in_reverse_order() -> None:
    undone = b"\x1b[?1000l\x1b[?1006l\x1b[<u\x1b[?25h\x1b[?2004l\x1b>\x1b[?1l\x1b[?1049l\x1b[0m"
    assert shown(EDITOR).undo() == undone
    assert shown(EDITOR, undone).undo() == b""


def test_modes_can_be_set_on_another_terminal() -> None:
    modes = shown(EDITOR, b"\x1b[?2004l")
    assert shown(modes.redo()).redo() == modes.redo()
    assert b"2004" not in modes.redo()


@pytest.mark.parametrize("cut", range(len(EDITOR)))
def test_a_sequence_can_arrive_in_two_pieces(cut: int) -> None:
    assert shown(EDITOR[:cut], EDITOR[cut:]).redo() == shown(EDITOR).redo()


def test_other_text_is_not_kept() -> None:
    modes = shown(b"\x1b[?" + b"1" * 10_000, b"\x1b[?", b"1049h")
    assert modes.redo() == b"\x1b[?1049h"
