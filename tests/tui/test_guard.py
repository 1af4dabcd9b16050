"""The process that looks after the terminal: whatever end the app comes to, the terminal is as it was."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.support.waiting import WAIT_S, eventually

SPOILS = "import os, signal, sys, time, tty; tty.setraw(0); os.write(1, b'\\x1b[?1049h\\x1b[?2004hspoiled'); "
ENDS = {
    "leaves": "return 0",
    "returns a code": "return 7",
    "raises": "raise ValueError('a bug')",
    "refuses": "raise UserError('no such home', 'make one', exit_code=3)",
    "exits at once": "os._exit(5)",
    "is killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "crashes": "os.kill(os.getpid(), signal.SIGSEGV)",
}
CODES = {
    "leaves": 0,
    "returns a code": 7,
    "raises": 1,
    "refuses": 3,
    "exits at once": 5,
    "is killed": 137,
    "crashes": 139,
}
PROGRAM = """
import sys
from warpdeck.base.errors import UserError
from warpdeck_tui.terminal.terminal_guard import guarded
def run():
    {spoils}
    {end}
try:
    code = guarded(run)
except UserError as error:
    print("refused:", error.message, error.hint)
    code = error.exit_code
sys.exit(code)
"""


class Terminal(NamedTuple):
    """A pseudo-terminal: `line` is the programs' side."""

    screen: int
    line: int

    def settings(self) -> list[object]:
        return termios.tcgetattr(self.line)

    def start(self, end: str) -> subprocess.Popen[bytes]:
        program = PROGRAM.format(spoils=SPOILS, end=end)
        return subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=self.line,
            stdout=self.line,
            stderr=self.line,
            start_new_session=True,
        )

    def says(self, words: str) -> None:
        """Waits for words; forgets what was shown with them."""
        told: list[str] = []
        eventually(lambda: told.append(self.shown()) or words in "".join(told), what=words)

    def shown(self) -> str:
        os.set_blocking(self.screen, False)
        told = b""
        try:
            while piece := os.read(self.screen, 65536):
                told += piece
        except BlockingIOError:
            pass
        return told.decode()


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal(*pty.openpty())
    yield made
    os.close(made.screen)
    os.close(made.line)


@pytest.mark.parametrize("end", ENDS)
def test_the_terminal_is_as_it_was(terminal: Terminal, end: str) -> None:
    before = terminal.settings()
    process = terminal.start(ENDS[end])
    assert process.wait(WAIT_S) == CODES[end]
    assert terminal.settings() == before
    told = terminal.shown()
    left = told.partition("spoiled")[2]
    assert ("\x1b[?1049l" in left and "\x1b[?2004l" in left) is (CODES[end] != 0)
    assert ("a bug" in left) is (end == "raises")
    assert ("refused: no such home make one" in left) is (end == "refuses")
    assert ("refused: The app was killed (SIGKILL). Jobs keep running" in left) is (end == "is killed")


WAITS = "    signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'heard'), os._exit(4)))\n    os.write(1, b'ready')\n"


def test_a_signal_to_end_is_passed_on_and_the_app_may_take_its_time(terminal: Terminal) -> None:
    process = terminal.start("pass\n" + WAITS + "    while True: signal.pause()")
    terminal.says("ready")
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT_S) == 4
    terminal.says("heard")


def test_if_it_is_killed_itself_the_app_is_told_to_end(terminal: Terminal) -> None:
    process = terminal.start("pass\n" + WAITS + "    while True: signal.pause()")
    terminal.says("ready")
    process.kill()
    process.wait(WAIT_S)
    terminal.says("heard")
