"""The user's own terminal joined to a job's: raw bytes both ways, resizes, and ssh's escapes (~d detaches, ~? helps).

Used by `warpdeck run --pty`, `warpdeck attach` and, while it is suspended, by the app. The terminal is always put back.
"""

from __future__ import annotations

import os
import select
import signal
import termios
import tty
from collections.abc import Callable
from typing import Any

from .sync import SyncClient

READ_BYTES = 64 * 1024
HELP = b"\r\n~d  detach, the job goes on\r\n~~  a tilde\r\n~?  this help\r\n"


class RelayEnd:
    """How it ended: detached, or with the job's exit (code, signal), or an error in words."""

    def __init__(
        self, *, detached: bool = False, code: int = 0, signal_number: int = 0, error: str = ""
    ) -> None:
        self.detached = detached
        self.code = code
        self.signal = signal_number
        self.error = error


class Escapes:
    """Finds ~d after a newline, as ssh does."""

    def __init__(self) -> None:
        self._fresh = True
        self._tilde = False

    def feed(self, data: bytes) -> tuple[bytes, str]:
        """(what to send on, "" or "detach" or "help")."""
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
    """(rows, cols) of a terminal, 24x80 of anything else."""
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        return 24, 80
    return max(1, size.lines), max(1, size.columns)


def relay(
    client: SyncClient,
    job: str,
    *,
    stdin_fd: int,
    stdout_fd: int,
    progress: Callable[[str], None] | None = None,
) -> RelayEnd:
    """Attaches to the job's terminal until it ends or the user detaches. Raises UserError."""
    rows, cols = window_size(stdout_fd)
    number = client.begin("attach", job=job, rows=rows, cols=cols)
    while True:
        found = dict(client.events(number))
        if "ok" in found:
            break
        if "progress" in found and progress is not None:
            progress(found["progress"])
        if "end" in found:
            return _ended(found["end"])
    saved = termios.tcgetattr(stdin_fd) if os.isatty(stdin_fd) else None
    wake_r, wake_w = os.pipe()
    before = signal.signal(signal.SIGWINCH, lambda *_: os.write(wake_w, b"w"))
    try:
        if saved is not None:
            tty.setraw(stdin_fd, termios.TCSADRAIN)  # what was typed ahead is kept
        return _loop(client, number, stdin_fd=stdin_fd, stdout_fd=stdout_fd, wake=wake_r)
    finally:
        signal.signal(signal.SIGWINCH, before)
        if saved is not None:
            termios.tcsetattr(stdin_fd, termios.TCSADRAIN, saved)
        os.close(wake_r)
        os.close(wake_w)


def _loop(client: SyncClient, number: int, *, stdin_fd: int, stdout_fd: int, wake: int) -> RelayEnd:
    escapes = Escapes()
    sources: list[Any] = [client.fileno(), wake, stdin_fd]
    while True:
        ready = [client.fileno()] if client.has_buffered(number) else select.select(sources, [], [])[0]
        if client.fileno() in ready:
            for word, value in client.events(number):
                if word == "data":
                    write_all(stdout_fd, value)
                elif word == "end":
                    return _ended(value)
        if wake in ready:
            os.read(wake, 64)
            rows, cols = window_size(stdout_fd)
            client.tell("resize", stream=number, rows=rows, cols=cols)
        if stdin_fd in ready:
            data = os.read(stdin_fd, READ_BYTES)
            if not data:
                sources.remove(stdin_fd)
                client.send_data(number, b"\x04")
                continue
            kept, order = escapes.feed(data)
            if kept:
                client.send_data(number, kept)
            if order == "help":
                write_all(stdout_fd, HELP)
            elif order == "detach":
                client.tell("close", stream=number)
                return RelayEnd(detached=True)


def _ended(message: dict[str, Any]) -> RelayEnd:
    ended = message.get("exit") or {}
    return RelayEnd(
        code=int(ended.get("code", 0)),
        signal_number=int(ended.get("signal", 0)),
        error=str(message.get("error", "")),
    )


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
