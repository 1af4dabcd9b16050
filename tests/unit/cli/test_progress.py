"""The line that a terminal shows while a verb takes time."""

from __future__ import annotations

import io
import os
import select
import signal

import pytest

from warpdeck.cli.shared import progress as module
from warpdeck.cli.shared.progress import ERASE_LINE, progress

READ_S = 10.0


class Terminal:
    """A terminal for standard error, whose output is read back. A progress shows its line after a moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._master, slave = os.openpty()
        self._stream = open(slave, "w")
        monkeypatch.setattr("sys.stderr", self._stream)
        monkeypatch.setattr(module, "AFTER_S", 0.01)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        os.close(self._master)

    def until(self, text: bytes) -> bytes:
        """Read until the text appears, and return everything that was read."""
        found = b""
        while text not in found:
            assert select.select([self._master], [], [], READ_S)[0], found
            found += os.read(self._master, 4096)
        return found

    def is_silent(self) -> bool:
        return not select.select([self._master], [], [], 0)[0]


def test_a_line_is_shown_while_something_takes_long_and_erased_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Terminal(monkeypatch) as terminal:
        with progress("waiting ..."):
            assert terminal.until(b"...") == b"waiting ..."
        assert terminal.until(ERASE_LINE) == ERASE_LINE
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_a_line_appears_at_once_and_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch) as terminal:
        monkeypatch.setattr(module, "AGAIN_S", 0.01)
        percent = iter(range(0, 1_000_000))
        with progress("waiting ... ", after_s=0.0, more=lambda: f"{next(percent)} %"):
            assert terminal.until(b"0 %") == b"waiting ... 0 %"
            assert ERASE_LINE + b"waiting ... 2 %" in terminal.until(b" 2 %")


def test_nothing_is_shown_for_what_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch) as terminal:
        monkeypatch.setattr(module, "AFTER_S", 60.0)
        with progress("waiting ..."):
            pass
        assert terminal.is_silent()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_inner_progress_leaves_the_line_of_the_outer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch) as terminal:
        with progress("outer ..."):
            with progress("inner ..."):
                assert terminal.until(b"...") == b"outer ..."
            assert terminal.is_silent()
        assert terminal.until(ERASE_LINE) == ERASE_LINE


def test_nothing_is_shown_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with progress("waiting ..."):
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert stream.getvalue() == ""
