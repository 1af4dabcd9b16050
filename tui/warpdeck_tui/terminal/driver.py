"""The app at a real terminal: its keys, stopped and continued as its user's shell wants it, with the mouse or without.

Textual begins anew at every SIGCONT, though it may never have stopped: then two threads read the keys. Here the app leaves the
terminal before it stops; who was stopped without being asked (SIGSTOP) leaves it afterwards, and begins anew.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterator
from typing import IO, Any

from textual.drivers.linux_driver import LinuxDriver

from warpdeck.client.terminal import is_gone

from .escapes import EscapeParser

__all__ = ["LinuxDriver", "TerminalDriver"]

LOOK_UP_S = 0.1
"""How late it may be noticed that the app leaves, and that nothing follows an Esc."""
READ_BYTES = 4096
_ERASE = "\x1b[0m\x1b[2J"


class _TerminalFile:
    """The terminal's output. Writing to a terminal that was closed is no error, because the app ends then anyway.

    Textual writes in a thread. If a write raised there, the thread would end and the app would wait for it forever.
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


class TerminalDriver(LinuxDriver):
    """Textual's driver, with our handling of signals, of Esc and of a terminal that is closed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._file: Any = _TerminalFile(self._file)

    _stopped = False
    _is_shown = False
    is_alt: Callable[[str], bool] = staticmethod(lambda _: True)
    """Whether Esc and that character are Alt and it now; asked in the thread that reads."""

    def run_input_thread(self) -> None:
        """Reads until the app leaves the terminal, and then what the terminal was still about to answer."""
        parser = EscapeParser(is_alt=lambda char: self.is_alt(char))
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        is_last = False
        while not is_last:
            is_last = self.exit_event.is_set()
            if select.select([self.fileno], [], [], LOOK_UP_S)[0]:
                came = self._read()
                if not came:
                    self._app.call_later(self._app.exit)
                    return
                text = decode(came)
                for event in parser.feed(text) if text else ():
                    self.process_message(event)
            for event in parser.tick():
                self.process_message(event)

    def _read(self) -> bytes:
        """Return the next bytes of input, or b"" once the terminal was closed."""
        try:
            return os.read(self.fileno, READ_BYTES)
        except OSError:
            if not is_gone(self.fileno):
                raise
            return b""

    def write(self, data: str) -> None:
        """Write to the terminal. While nothing shows the app, as after its terminal was closed, the data is dropped."""
        if self._writer_thread is not None and self._writer_thread.is_alive():
            super().write(data)

    def start_application_mode(self) -> None:
        self._is_shown = True
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def stop_application_mode(self) -> None:
        """Erases what it shows before it leaves: else tmux, made larger meanwhile, puts lines of it above the shell's.

        From then on no key is the app's: who sees the app gone may type.
        """
        if self._is_shown:
            self.disable_input()
            self.write(_ERASE)
        self._is_shown = False
        super().stop_application_mode()

    def turn_mouse(self, *, on: bool) -> None:
        """The mouse is the app's, or the terminal's own again, which selects and copies."""
        if on:
            self._mouse = True
            self._enable_mouse_support()
        else:
            self._disable_mouse_support()
            self._mouse = False

    @property
    def has_mouse(self) -> bool:
        return self._mouse

    def _sigtstp_application(self, *_: object) -> None:
        owns = self._auto_restart  # else the terminal is lent
        if owns:
            self.suspend_application_mode()
        self._stopped = True
        os.kill(os.getpid(), signal.SIGSTOP)
        self._stopped = False
        if owns:
            self._begin_again()

    def _sigcont_application(self, *_: object) -> None:
        if self._auto_restart and not self._stopped and not is_gone(self.fileno):
            self.suspend_application_mode()
            self._begin_again()

    def _begin_again(self) -> None:
        self._must_signal_resume = True
        self.resume_application_mode()
