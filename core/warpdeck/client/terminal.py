"""Connects the user's own terminal to a job's terminal.

It passes raw bytes both ways, resizes, and handles ssh's escapes (~d detaches, ~? shows help). It is used by
`warpdeck run --pty`, by `warpdeck attach` and, while it is suspended, by the app. The terminal's modes are
always restored.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import termios
import time
import tty
from collections.abc import Callable
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck_agent.client.lines import write_all
from warpdeck_agent.client.modes import TerminalModes

from .blocking_client import ENDED, GONE, LOST, SyncClient

READ_BYTES = 64 * 1024
HELP = (
    b"\r\n~d or ~.  detach; the job keeps running\r\n~~        send a tilde\r\n~?        show this help\r\n"
)
AGAIN_S = 0.5
"""Seconds between attempts to reconnect a lost session."""
GONE_CHECK_S = 0.5
"""Seconds between two checks whether the user's own terminal was closed, while the job is pending."""
ATTACH_S = 20.0
"""Maximum seconds of one attempt: longer than the controller itself waits for a link that is being made."""
LEAVE_KEYS = b"q\x03\x04"
"""Keys with which a watcher leaves: q, Ctrl-C, Ctrl-D."""


class RelayEnd(NamedTuple):
    """How a relay ended: detached, with the job's exit status (code, signal), or with an error message."""

    detached: bool = False
    code: int = 0
    signal: int = 0
    error: str = ""


class Escapes:
    """Finds escapes such as ~d after a newline, as ssh does."""

    def __init__(self) -> None:
        self._fresh = True
        self._tilde = False

    def feed(self, data: bytes) -> tuple[bytes, str]:
        """Process input. Returns the bytes to send, and "", "detach" or "help"."""
        kept = bytearray()
        for byte in data:
            letter = bytes([byte])
            if self._tilde:
                self._tilde = False
                if letter in (b"d", b"."):
                    return bytes(kept), "detach"
                if letter == b"?":
                    return bytes(kept), "help"
                kept += letter if letter == b"~" else b"~" + letter
            elif self._fresh and letter == b"~":
                self._tilde = True
                continue
            else:
                kept += letter
            self._fresh = letter in (b"\r", b"\n")
        return bytes(kept), ""


def window_size(descriptor: int) -> tuple[int, int]:
    """Return (rows, cols) of a terminal, or 24x80 if the descriptor is not a terminal."""
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        return 24, 80
    return max(1, size.lines), max(1, size.columns)


def is_gone(descriptor: int) -> bool:
    """Return whether the descriptor is a terminal that was closed."""
    try:
        termios.tcgetattr(descriptor)
    except termios.error as error:
        return int(error.args[0]) == errno.EIO
    return False


def relay(
    client: SyncClient,
    job: str,
    *,
    stdin_fd: int,
    stdout_fd: int,
    watch: bool = False,
    again: Callable[[], SyncClient] | None = None,
    progress: Callable[[str], None] | None = None,
) -> RelayEnd:
    """Relay the job's terminal until it ends or the user detaches.

    With `watch` it only reads. Raises UserError.

    If the controller or node is lost, it reconnects; `again` makes a new connection to the controller. If the
    user's own terminal is closed, the relay detaches and the job keeps running.
    """
    session = _Session(client, job, stdin_fd, stdout_fd, watch=watch)
    ended = session.begin(progress, again)
    if ended is not None:
        return ended
    saved = termios.tcgetattr(stdin_fd) if os.isatty(stdin_fd) else None
    wake_r, wake_w = os.pipe()
    before = signal.signal(signal.SIGWINCH, lambda *_: os.write(wake_w, b"w"))
    try:
        if saved is not None:
            tty.setraw(stdin_fd, termios.TCSADRAIN)  # TCSADRAIN keeps input that was typed ahead.
        return session.run(wake_r, again)
    except OSError:
        if not is_gone(stdin_fd):
            raise
        return RelayEnd(detached=True)
    finally:
        signal.signal(signal.SIGWINCH, before)
        with contextlib.suppress(OSError, termios.error):  # The terminal may be closed already.
            session.leave()
            if saved is not None:
                termios.tcsetattr(stdin_fd, termios.TCSADRAIN, saved)
        os.close(wake_r)
        os.close(wake_w)
        session.close()


class _Lost(Exception):
    """The controller or the node is unreachable for now. The exception's text is the reason."""


class _Session:
    """One user's view of one terminal, across reconnections."""

    def __init__(self, client: SyncClient, job: str, stdin_fd: int, stdout_fd: int, *, watch: bool) -> None:
        self._client = client
        self._first = client
        self._job = job
        self._stdin = stdin_fd
        self._stdout = stdout_fd
        self._watch = watch
        self._number = 0
        self._shown = 0
        self._sources: list[Any] = [stdin_fd]
        self._escapes = Escapes()
        self._modes = TerminalModes()

    def attach(
        self, progress: Callable[[str], None] | None = None, *, timeout_s: float | None = None
    ) -> RelayEnd | None:
        """Attach at the position reached so far. Raises UserError, or TimeoutError.

        Returns the end if the terminal ended instead, else None.
        """
        rows, cols = window_size(self._stdout)
        self._number = self._client.begin(
            "attach", job=self._job, rows=rows, cols=cols, watch=self._watch, offset=self._shown
        )
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = GONE_CHECK_S if until is None else min(GONE_CHECK_S, until - time.monotonic())
            found = dict(self._client.events(self._number, timeout_s=max(0.0, left_s)))
            if not found:
                if until is not None and time.monotonic() >= until:
                    raise TimeoutError
                if is_gone(self._stdin):  # A pending job may send nothing for days.
                    return RelayEnd(detached=True)
            if "ok" in found:
                self._shown = int(found["ok"]["offset"])
                return None
            if "progress" in found and progress is not None:
                progress(found["progress"])
            if "end" in found:
                return _ended(found["end"])

    def begin(
        self, progress: Callable[[str], None] | None, again: Callable[[], SyncClient] | None
    ) -> RelayEnd | None:
        """Attach for the first time, also if the controller restarts meanwhile.

        Returns the end if it comes first.
        """
        try:
            return self.attach(progress)
        except UserError as error:
            if again is None or error.code not in (GONE, LOST):
                raise
            return self._come_back(again)

    def run(self, wake: int, again: Callable[[], SyncClient] | None) -> RelayEnd:
        """Relay until the end. A lost connection is restored each time if `again` is given."""
        while True:
            try:
                return self._loop(wake)
            except _Lost as lost:
                if again is None:
                    return RelayEnd(error=str(lost))
                self._say(f"{lost}; the job keeps running. Reconnecting; ~. leaves")
                seen = self._shown
                ended = self._come_back(again)
                if ended is not None:
                    return ended
                missed = self._shown - seen
                self._say(f"reconnected; {missed:,} bytes were lost" if missed > 0 else "reconnected")

    def leave(self) -> None:
        """Reset the modes that the job's programs set in the user's terminal.

        The terminal then returns to the user's shell.
        """
        if os.isatty(self._stdout):
            write_all(self._stdout, self._modes.undo())

    def close(self) -> None:
        """Close a connection that this session has made itself."""
        if self._client is not self._first:
            self._client.close()

    def _loop(self, wake: int) -> RelayEnd:
        link = self._client.fileno()
        while True:
            buffered = self._client.has_buffered(self._number)
            ready = [link] if buffered else select.select([link, wake, *self._sources], [], [])[0]
            try:
                ended = self._take() if link in ready else None
                if wake in ready:
                    os.read(wake, 64)
                    rows, cols = window_size(self._stdout)
                    self._client.tell("resize", stream=self._number, rows=rows, cols=cols)
                if ended is None and self._stdin in ready:
                    ended = self._keys()
            except UserError as error:
                if error.code != GONE:
                    raise
                raise _Lost(error.message) from error
            if ended is not None:
                return ended

    def _take(self) -> RelayEnd | None:
        for word, value in self._client.events(self._number):
            if word == "data":
                self._shown += len(value)
                self._modes.feed(value)
                write_all(self._stdout, value)
            elif word == "end" and value.get("code") == LOST:
                raise _Lost(value["error"])
            elif word == "end":
                return _ended(value)
        return None

    def _keys(self) -> RelayEnd | None:
        data = os.read(self._stdin, READ_BYTES)
        if not data:
            return self._input_ended()
        kept, order = self._escapes.feed(data)
        if self._watch:
            order = order or ("detach" if any(key in LEAVE_KEYS for key in kept) else "")
        elif kept:
            self._client.send_data(self._number, kept)
        if order == "help":
            write_all(self._stdout, HELP)
        if order != "detach":
            return None
        self._client.tell("close", stream=self._number)
        return RelayEnd(detached=True)

    def _input_ended(self) -> RelayEnd | None:
        """Handle the end of input. A closed terminal detaches.

        The end of a file or pipe is sent to the job as end-of-file, and the job's output still follows.
        """
        if is_gone(self._stdin):
            return RelayEnd(detached=True)
        self._sources.remove(self._stdin)
        if not self._watch:
            self._client.send_data(self._number, b"\x04")
        return None

    def _come_back(self, again: Callable[[], SyncClient]) -> RelayEnd | None:
        """Try until the terminal is connected again, has ended, or the user leaves. Raises UserError."""
        escapes = Escapes()
        while True:
            if select.select(self._sources, [], [], AGAIN_S)[0]:
                data = os.read(self._stdin, READ_BYTES)
                if not data:
                    if is_gone(self._stdin):
                        return RelayEnd(detached=True)
                    self._sources.remove(self._stdin)
                if escapes.feed(data)[1] == "detach" or (
                    self._watch and any(key in LEAVE_KEYS for key in data)
                ):
                    return RelayEnd(detached=True)
            self.close()
            try:
                self._client = again()
            except UserError:  # The controller does not run yet.
                self._client = self._first
                continue
            try:
                return self._rest() if self._has_ended() else None
            except TimeoutError:
                continue
            except UserError as error:
                if error.code not in (GONE, LOST):
                    raise

    def _has_ended(self) -> bool:
        """Attach once more and return whether the terminal has ended instead.

        Raises UserError, TimeoutError.
        """
        try:
            return self.attach(timeout_s=ATTACH_S) is not None
        except UserError as error:
            if error.code != ENDED:
                raise
            return True

    def _rest(self) -> RelayEnd:
        """Show the rest of the log of a job that ended meanwhile, and return its end. Raises UserError."""
        for word, value in self._client.stream("log", job=self._job, offset=self._shown, follow=True):
            if word == "data":
                self._shown += len(value)
                self._modes.feed(value)
                write_all(self._stdout, value)
            elif word == "end":
                return _ended(value)
        raise AssertionError("a stream ends with its end")

    def _say(self, words: str) -> None:
        write_all(self._stdout, f"\r\n[warpdeck: {words}]\r\n".encode())


def _ended(message: dict[str, Any]) -> RelayEnd:
    ended = message.get("exit") or {}
    return RelayEnd(
        code=int(ended.get("code", 0)),
        signal=int(ended.get("signal", 0)),
        error=str(message.get("error", "")),
    )
