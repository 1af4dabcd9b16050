"""The app runs in a child; this process only waits, and puts the terminal back, whatever end the child came to.

A process that is killed with SIGKILL, or dies in C code, restores nothing, and its shell then reads a terminal that neither
echoes nor edits. The shell waits for us, so we are done before it reads. A stopped child stops us, after the terminal was put
back; if we are killed, the kernel ends the child, which puts its terminal back itself. Textual is not imported here.
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
"""Meant for the app, whoever of us gets them."""
_PR_SET_PDEATHSIG = 1
MAX_ERROR_BYTES = 64 * 1024
_RESET = (
    b"\x1b[<u"  # the kitty keyboard
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l"  # the mouse
    b"\x1b[?1004l\x1b[?2004l\x1b[?2026l\x1b[?2048l\x1b[?7h"  # focus, paste, synchronised output, sizes, wrapping
    b"\x1b[?1049l\x1b[?25h\x1b[0m\r"  # the alternate screen, the cursor, colours
)
"""Undoes every mode that the app may have set."""


def guarded(run: Callable[[], int]) -> int:
    """What `run` returned in the child. Raises UserError if the child did, or was killed."""
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
    """In the child; what the caller has to tidy up, its own process does."""
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
        with contextlib.suppress(OSError):  # a reader that is gone
            sys.stdout.flush()
        os._exit(code)


def end_with_parent() -> None:
    """The kernel tells this process to end when the one that started it has ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _send(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)


def _wait(child: int, saved: list[Any]) -> int:
    """The status with which the child ended; the terminal is as it was."""
    while True:
        _, status = os.waitpid(child, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break
        _put_back(saved, modes=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        # Here we go on: the shell says so to both of us, others perhaps to us alone.
        if not os.waitpid(child, os.WCONTINUED | os.WNOHANG)[0]:
            _send(child, signal.SIGCONT)
    _put_back(saved, modes=status != 0)
    return status


def _put_back(saved: list[Any], *, modes: bool) -> None:
    """The line's settings; and the modes, where nobody has left them. Of a terminal that is gone nothing."""
    with contextlib.suppress(termios.error, OSError):
        if modes:
            os.write(STDOUT, _RESET)
        termios.tcsetattr(STDIN, termios.TCSADRAIN, saved)


def _outcome(status: int, reads: int) -> int:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        raise UserError(
            f"the app was killed ({signal.Signals(number).name}); jobs go on",
            "`warpdeck` opens it again",
            exit_code=128 + number,
        )
    if told := os.read(reads, MAX_ERROR_BYTES):
        message, hint, code = json.loads(told)
        raise UserError(message, hint, exit_code=code)
    return os.WEXITSTATUS(status)
