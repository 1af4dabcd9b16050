"""Runs the app in a child process, and restores the terminal however the child ends.

A process that is killed with SIGKILL, or crashes in C code, restores nothing, and then its shell has a
terminal without echo and line editing. The shell waits for this parent process, so the terminal is restored
before the shell reads from it. If the child is stopped, the parent restores the terminal and stops, too. If
the parent is killed, the kernel terminates the child, which then restores the terminal itself. This module
does not import Textual.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import termios
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from warpdeck.base.errors import UserError

STDIN, STDOUT = 0, 1
PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)
"""Signals that the parent passes on to the app, because they are meant for it."""
_PR_SET_PDEATHSIG = 1
MAX_ERROR_BYTES = 64 * 1024
_RESET = (
    b"\x1b[<u"  # the keyboard protocol of kitty
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l"
    # focus, paste, synchronized output, sizes, wrapping
    b"\x1b[?1004l\x1b[?2004l\x1b[?2026l\x1b[?2048l\x1b[?7h"
    b"\x1b[?1049l\x1b[?25h\x1b[0m\r"  # the alternate screen, the cursor, colors
)
"""Resets every mode that the app may have set."""


def guarded(run: Callable[[], int]) -> int:
    """Run `run` in the child, and return its result.

    Raises UserError if `run` raised it or if the child was killed.
    """
    saved = termios.tcgetattr(STDIN)
    reads, writes = os.pipe()
    parent, child = os.getpid(), os.fork()
    if not child:
        os.close(reads)
        _be_the_app(run, parent, writes)
    os.close(writes)
    before = {number: signal.signal(number, lambda n, _: _send(child, n)) for number in PASSED_ON}
    before |= {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        return _outcome(_wait(child, saved), reads)
    finally:
        os.close(reads)
        for number, handler in before.items():
            signal.signal(number, handler)


def _be_the_app(run: Callable[[], int], parent: int, writes: int) -> NoReturn:
    """Run the app in the child process and exit.

    Cleanup of the caller's resources is left to the parent process.
    """
    code = 1
    try:
        end_with_parent()
        if os.getppid() == parent:
            code = run()
    except UserError as error:
        os.write(writes, json.dumps([error.message, error.hint, error.exit_code]).encode())
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):  # the reader is gone
            sys.stdout.flush()
        os._exit(code)


def end_with_parent() -> None:
    """Ask the kernel to send SIGTERM to this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _send(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)


def _wait(child: int, saved: list[Any]) -> int:
    """Wait for the child to end, restore the terminal, and return the child's exit status."""
    while True:
        _, status = os.waitpid(child, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break
        _put_back(saved, modes=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        # The parent has been continued. A shell continues both processes, but other programs may continue
        # only the parent.
        if not os.waitpid(child, os.WCONTINUED | os.WNOHANG)[0]:
            _send(child, signal.SIGCONT)
    _put_back(saved, modes=status != 0)
    return status


def _put_back(saved: list[Any], *, modes: bool) -> None:
    """Restore the terminal settings and, if `modes` is true, the modes that the app may have left set.

    Does nothing if the terminal is gone.
    """
    with contextlib.suppress(termios.error, OSError):
        if modes:
            os.write(STDOUT, _RESET)
        termios.tcsetattr(STDIN, termios.TCSADRAIN, saved)


def _outcome(status: int, reads: int) -> int:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        raise UserError(
            f"The app was killed ({signal.Signals(number).name}). Jobs keep running",
            "Run `warpdeck` to open it again",
            exit_code=128 + number,
        )
    if told := os.read(reads, MAX_ERROR_BYTES):
        message, hint, code = json.loads(told)
        raise UserError(message, hint, exit_code=code)
    return os.WEXITSTATUS(status)
