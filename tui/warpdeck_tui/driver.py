"""The app at a real terminal: stopped and continued as its user's shell wants it, with the mouse or without.

Textual begins anew at every SIGCONT, though it may never have stopped: then two threads read the keys. Here the app leaves the
terminal before it stops; who was stopped without being asked (SIGSTOP) leaves it afterwards, and begins anew.
"""

from __future__ import annotations

import errno
import os
import signal
import termios

from textual.drivers.linux_driver import LinuxDriver

__all__ = ["LinuxDriver", "TerminalDriver", "is_gone"]


def is_gone(descriptor: int) -> bool:
    """Whether the terminal was closed."""
    try:
        termios.tcgetattr(descriptor)
    except termios.error as error:
        return int(error.args[0]) == errno.EIO
    return False


class TerminalDriver(LinuxDriver):
    """Textual's, but for signals."""

    _stopped = False

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
