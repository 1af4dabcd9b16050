"""Textual driver for a real terminal: key input, stopping and continuing under a shell, and the mouse.

Textual initializes itself again at every SIGCONT, even if the process was never stopped; then two threads
read the keys. Here the app leaves the terminal before it stops. After a SIGSTOP, which cannot be caught, the
app leaves the terminal when it continues, and then initializes itself again.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterator
from typing import IO

from textual.drivers.linux_driver import LinuxDriver

from warpdeck.client.terminal import is_gone

from .color_answers import QUESTIONS, ColorAnswers
from .escapes import EscapeParser
from .textual_private import OpenDriver

__all__ = ["LinuxDriver", "TerminalDriver"]

LOOK_UP_S = 0.1
"""Seconds after which the input thread notices that the app is leaving the terminal, or that no character
follows an Esc.
"""
READ_BYTES = 4096
_ERASE = "\x1b[0m\x1b[2J"


class _TerminalFile:
    """The terminal's output. Writing to a closed terminal is no error, because the app then ends anyway.

    Textual writes in a thread. If a write raised there, the thread would end and the app would wait for it
    forever.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with self._unless_gone():
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with self._unless_gone():
            self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    @contextlib.contextmanager
    def _unless_gone(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            if not is_gone(self._file.fileno()):
                raise


class TerminalDriver(OpenDriver):
    """Textual's driver, with our handling of signals, of Esc and of a terminal that is closed."""

    _stopped = False
    _is_shown = False
    _answers: ColorAnswers | None = None
    """The answers about colors, or None after the last one, or if the terminal was not asked."""
    is_alt: Callable[[str], bool] = staticmethod(lambda _: True)
    """Callback that returns whether Esc followed by this character means Alt with it now. It is called in the
    input thread.
    """

    def guarded_file(self, file: IO[str]) -> _TerminalFile:
        return _TerminalFile(file)

    def run_input_thread(self) -> None:
        """Read input until the app leaves the terminal, then read the answers that are still arriving."""
        parser = EscapeParser(is_alt=lambda char: self.is_alt(char))
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        is_last = False
        while not is_last:
            is_last = self.exit_event.is_set()
            if select.select([self.fileno], [], [], LOOK_UP_S)[0]:
                came = self._read()
                if not came:
                    self.leave_app()
                    return
                text = self._without_answers(decode(came))
            else:
                text = self._answers.give_back() if self._answers is not None else ""
            for event in parser.feed(text) if text else ():
                self.process_message(event)
            for event in parser.tick():
                self.process_message(event)

    def ask_for_rgb(self, has_rgb: Callable[[], None]) -> None:
        """Ask the terminal whether it shows RGB colors. If so, `has_rgb` is called in the app's thread.

        Nothing waits for the answer.
        """
        self._has_rgb = has_rgb
        self._answers = ColorAnswers()
        self.write(QUESTIONS)
        self.flush()

    def _without_answers(self, text: str) -> str:
        """Return the input without the terminal's answers."""
        answers = self._answers
        if answers is None:
            return text
        text = answers.take(text)
        if answers.is_complete:
            self._answers = None
            if answers.has_rgb:
                self.call_app(self._has_rgb)
        return text

    def _read(self) -> bytes:
        """Return the next bytes of input, or b"" once the terminal was closed."""
        try:
            return os.read(self.fileno, READ_BYTES)
        except OSError:
            if not is_gone(self.fileno):
                raise
            return b""

    def write(self, data: str) -> None:
        """Write to the terminal. Without a running writer thread, as after a hang-up, the data is dropped."""
        if self.has_writer:
            super().write(data)

    def start_application_mode(self) -> None:
        self._is_shown = True
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def stop_application_mode(self) -> None:
        """Leave the terminal, after erasing the screen.

        Without the erasing, tmux puts lines of the app above those of the shell if its window has grown
        meanwhile. From then on the app takes no key, so the user may type as soon as the app is gone.
        """
        if self._is_shown:
            self.disable_input()
            self.write(_ERASE)
        self._is_shown = False
        super().stop_application_mode()

    def on_stop_signal(self) -> None:
        owns = self.owns_terminal  # otherwise the terminal is handed over to a job
        if owns:
            self.suspend_application_mode()
        self._stopped = True
        os.kill(os.getpid(), signal.SIGSTOP)
        self._stopped = False
        if owns:
            self.resume()

    def on_continue_signal(self) -> None:
        if self.owns_terminal and not self._stopped and not is_gone(self.fileno):
            self.suspend_application_mode()
            self.resume()
