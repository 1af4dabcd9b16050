"""The process that guards the terminal restores it, however the app ends."""

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
    """A pseudo-terminal. `line` is the side of the programs."""

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

    def shows(self, words: str) -> None:
        """Wait for a text, and discard the output up to it."""
        output: list[str] = []
        eventually(lambda: output.append(self.shown()) or words in "".join(output), what=words)

    def shown(self) -> str:
        os.set_blocking(self.screen, False)
        output = b""
        try:
            while piece := os.read(self.screen, 65536):
                output += piece
        except BlockingIOError:
            pass
        return output.decode()


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal(*pty.openpty())
    yield made
    os.close(made.screen)
    os.close(made.line)


@pytest.mark.parametrize("end", ENDS)
def test_the_terminal_is_restored_however_the_app_ends(terminal: Terminal, end: str) -> None:
    before = terminal.settings()
    process = terminal.start(ENDS[end])
    assert process.wait(WAIT_S) == CODES[end]
    assert terminal.settings() == before
    output = terminal.shown()
    left = output.partition("spoiled")[2]
    assert ("\x1b[?1049l" in left and "\x1b[?2004l" in left) is (CODES[end] != 0)
    assert ("a bug" in left) is (end == "raises")
    assert ("refused: no such home make one" in left) is (end == "refuses")
    assert ("refused: The app was killed (SIGKILL). Jobs keep running" in left) is (end == "is killed")


WAITS = "    signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'heard'), os._exit(4)))\n    os.write(1, b'ready')\n"


def test_a_termination_signal_is_forwarded_and_the_app_may_take_time(terminal: Terminal) -> None:
    process = terminal.start("pass\n" + WAITS + "    while True: signal.pause()")
    terminal.shows("ready")
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT_S) == 4
    terminal.shows("heard")


def test_killing_the_guard_terminates_the_app(terminal: Terminal) -> None:
    process = terminal.start("pass\n" + WAITS + "    while True: signal.pause()")
    terminal.shows("ready")
    process.kill()
    process.wait(WAIT_S)
    terminal.shows("heard")
