"""The question whether the terminal shows RGB colors, and its answers."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import WAIT_S
from warpdeck_tui.terminal.color_answers import QUESTIONS, ColorAnswers, tmux_shows_rgb

DA1 = "\x1b[?62;22c"
KITTY = "\x1bP>|kitty(0.35.2)\x1b\\"


@pytest.mark.parametrize(
    ("answer", "has_rgb"),
    [
        (KITTY + "\x1b[>1;4000;35c", True),
        ("\x1bP>|WezTerm 20240203-110809-5046fc22\x1b\\", True),
        ("\x1bP>|foot(1.16.2)\x1b\\", True),
        ("\x1bP>|iTerm2 3.5.0\x07", True),
        ("\x1bP>|ghostty 1.0.0\x1b\\", True),
        ("\x1bP>|XTerm(390)\x1b\\", True),
        ("\x1bP>|VTE(6800)\x1b\\", True),
        ("\x1bP>|Konsole 23.08.1\x1b\\", True),
        ("\x1b[>0;1301;1c", True),  # Alacritty
        ("\x1b[>65;6800;1c", True),  # VTE
        ("\x1b[>41;390;0c", True),  # xterm
        ("\x1b[>0;10;1c", True),  # Windows Terminal
        ("\x1bP>|tmux 3.4\x1b\\\x1b[>84;0;0c", False),
        ("\x1b[>83;40900;0c", False),  # GNU screen
        ("\x1b[>1;95;0c", False),  # Terminal of macOS
        ("\x1b[>1;10;0c", False),  # mosh
        ("\x1b[>85;95;0c", False),  # rxvt
        ("\x1b[>0;136;0c", False),  # PuTTY
        ("\x1b[>c", False),
        ("", False),
    ],
)
def test_terminals_are_known_by_their_answers(answer: str, has_rgb: bool) -> None:
    answers = ColorAnswers()
    assert answers.take(answer + DA1) == ""
    assert answers.has_rgb is has_rgb and answers.is_complete


@pytest.mark.parametrize("cut", range(1, len(KITTY + DA1)))
def test_answers_in_two_parts_leave_no_keys(cut: int) -> None:
    text = KITTY + DA1
    answers = ColorAnswers()
    assert answers.take("a" + text[:cut]) + answers.take(text[cut:] + "b") == "ab"
    assert answers.has_rgb


def test_keys_among_the_answers_are_kept() -> None:
    answers = ColorAnswers()
    assert answers.take("j\x1b[A" + KITTY + "\x1b[<0;1;1M" + DA1 + "q\x1b") == "j\x1b[A\x1b[<0;1;1Mq\x1b"
    assert answers.take("P>|x") == "P>|x"


def test_an_escape_without_a_continuation_is_a_key() -> None:
    answers = ColorAnswers()
    assert answers.take("a\x1b") == "a"
    assert answers.give_back() == "\x1b"
    assert answers.take("\x1bj\x1b[?2026;2$y") == "\x1bj\x1b[?2026;2$y"
    assert answers.give_back() == ""


@pytest.mark.parametrize(("features", "has_rgb"), [("256,RGB,title", True), ("256,mouse,title", False)])
async def test_tmux_is_asked_about_its_own_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, features: str, has_rgb: bool
) -> None:
    program = tmp_path / "tmux"
    program.write_text(f"#!/bin/sh\necho '{features}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert await tmux_shows_rgb() is has_rgb


async def test_a_missing_tmux_shows_no_rgb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not await tmux_shows_rgb()


PROGRAM = "from tests.tui.static_cluster import static_app; static_app().run()"


class Terminal:
    """A terminal of 256 colors in which the app runs. It collects what the app writes."""

    def __init__(self, home: Path) -> None:
        screen, line = pty.openpty()
        fcntl.ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environ = {
            key: value for key, value in os.environ.items() if key not in ("COLORTERM", "TMUX", "NO_COLOR")
        }
        environ |= dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"), str(home))
        environ |= {"TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path)}
        self.screen = screen
        self.written = ""
        self.child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=line,
            stdout=line,
            stderr=line,
            env=environ,
            start_new_session=True,
        )
        os.close(line)

    def shows(self, pattern: str) -> str:
        """Wait until the app has written this, and return everything since the last call."""
        end = time.monotonic() + WAIT_S
        while not re.search(pattern, self.written):
            assert select.select([self.screen], [], [], max(0.0, end - time.monotonic()))[0], self.written[
                -2000:
            ]
            self.written += os.read(self.screen, 65536).decode(errors="replace")
        written, self.written = self.written, ""
        return written

    def types(self, text: str) -> None:
        os.write(self.screen, text.encode())


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    os.killpg(terminal.child.pid, signal.SIGKILL)
    terminal.child.wait()
    os.close(terminal.screen)


def test_the_app_turns_to_rgb_when_the_terminal_answers(terminal: Terminal) -> None:
    drawn = terminal.shows("llama-70b")
    assert QUESTIONS in drawn and "48;5;233" in drawn and "48;2;" not in drawn
    terminal.types(KITTY[:5])
    terminal.types(KITTY[5:] + DA1)
    assert "48;2;16;19;27" in terminal.shows(r"48;2;16;19;27m.*llama-70b")


def test_a_terminal_without_rgb_keeps_256_colors_and_the_answers_are_no_keys(terminal: Terminal) -> None:
    drawn = terminal.shows("llama-70b")
    terminal.types("\x1b[>1;95;0c" + DA1 + "?")
    drawn += terminal.shows("My jobs or all")
    assert "48;2;" not in drawn and "38;2;" not in drawn
