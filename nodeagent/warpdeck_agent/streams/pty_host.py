"""The host of one terminal: a small process that outlives the agent, keeps the scrollback and serves viewers.

  ptyhost FOLDER CWD ROWS COLS COMMAND...

Viewers connect to FOLDER/terminal/pty.sock and use the wire's frames. They first send {"t": "attach",
"offset", "rows", "cols", "watch"}. Later data frames are keyboard input, and {"t": "resize"} gives the
viewer's size. They receive {"t": "attached", "offset", "total"}, output as data frames, and {"t": "exit"} at
the end. The terminal has the size of the viewer who typed last, or before anybody types, of the newest
viewer. A watching viewer is read-only and does not affect the size. {"t": "notice", "text"} shows a line to
all viewers. At the end the scrollback is stored in FOLDER/out.

The command runs as fast as the viewer who typed last reads its output, as at any terminal, so that no output
is lost and a Ctrl-C is not delayed by megabytes of output. Other viewers do not slow it down, and neither
does that viewer once it has read nothing for STALL_S, because it may be stopped or cut off. A viewer that
falls behind the start of the scrollback is disconnected and may attach again. Typed keys wait here until the
command reads them, and output continues meanwhile. This avoids a deadlock with a command that echoes pasted
text and waits for its reader.

FOLDER/active is touched at every key and every output, so its time shows since when a session is idle. A
notice does not touch it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import time
from typing import Any, Dict, List, Optional

from warpdeck_agent.wire.frames import (
    JSON,
    FrameDecoder,
    WireError,
    data_frame,
    json_frame,
    parse_json,
    split_data,
)

from .scrollback import Scrollback
from .terminal_process import TerminalProcess

AHEAD_BYTES = 128 * 1024
"""How many bytes of output are read ahead of the viewer: two reads, so that a fast viewer never waits for
us.
"""
STALL_S = 5.0
"""A viewer that reads nothing for this long, in seconds, no longer slows the command. It is longer than the
pauses of a healthy network.
"""
READ_BYTES = 64 * 1024
LINGER_S = 3.0
"""How long the end waits for viewers to read the last output, in seconds."""
FIRST_VIEWER_S = 10.0
"""How long after its start the host of an already ended command waits for its first viewer, in seconds."""
TOUCH_S = 0.5
"""Shortest interval in seconds between updates of FOLDER/active. An idle warning may follow after one second,
so that a key that is typed then still counts.
"""


class Viewer:
    """A connection to the terminal."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.decoder = FrameDecoder(1 << 20)
        self.unsent = bytearray()
        """Frames, or parts of one, that were not sent yet."""
        self.position = 0
        """The viewer was given all output before this position."""
        self.took_at = time.monotonic()
        """The last time at which the viewer read data, or had read everything."""
        self.attached = False
        self.told_exit = False
        self.watches = False
        self.size = (0, 0)


class PtyHost:
    """One command on a terminal, with its viewers."""

    def __init__(self, folder: str, cwd: str, rows: int, cols: int, command: List[str]) -> None:
        self._folder = folder
        self._viewers: Dict[int, Viewer] = {}
        """Viewers by the file descriptor of their link."""
        self._writer: Optional[Viewer] = None
        """The viewer who typed last, or the newest one that may type."""
        self._had_viewer = False
        self._exit = b""
        """The frame that reports the command's end, once it has ended."""
        self._wait_for_viewer_until = time.monotonic() + FIRST_VIEWER_S
        self._touched_at = 0.0
        self._scrollback = Scrollback()
        self._listener = _listen(folder)
        self._terminal = TerminalProcess(cwd, command)
        self._terminal.resize(rows, cols)

    def run(self) -> int:
        """Serve until the command has ended and its output was sent. Returns the wait status."""
        status: Optional[int] = None
        deadline = 0.0
        while status is None or self._is_awaited(deadline):
            self._serve_once(0.2 if self._terminal.is_open or status is not None else 0.02)
            if status is None and not self._terminal.is_open:
                status = self._terminal.reap()
                if status is not None:
                    deadline = time.monotonic() + LINGER_S
                    self._announce_exit(status)
        return status

    def _is_awaited(self, deadline: float) -> bool:
        """Return whether a viewer must still read the output of an ended command."""
        if not self._had_viewer:
            return time.monotonic() < self._wait_for_viewer_until
        unread = any(v.unsent or not v.told_exit for v in self._viewers.values() if v.attached)
        return unread and time.monotonic() < deadline

    @property
    def last_output(self) -> bytes:
        """The output that the scrollback has."""
        return self._scrollback.all()

    def hang_up(self) -> None:
        """Tell the command that its terminal is gone. Interactive shells ignore TERM, but not this."""
        self._terminal.hang_up()

    def keep_scrollback(self) -> None:
        """Store the last output for `warpdeck logs`.

        Errors are ignored, because a full disk must not cost the exit status.
        """
        with contextlib.suppress(OSError), open(os.path.join(self._folder, "out"), "wb") as file:
            file.write(self._scrollback.all())

    def _serve_once(self, timeout_s: float) -> None:
        """Wait for events for at most `timeout_s` seconds, and handle them."""
        terminal = self._terminal
        reads: List[Any] = [self._listener, *(viewer.link for viewer in self._viewers.values())]
        writes: List[Any] = [viewer.link for viewer in self._viewers.values() if viewer.unsent]
        if terminal.is_open and not self._must_wait():
            reads.append(terminal.master)
        if terminal.is_open and terminal.has_unread_keys:
            writes.append(terminal.master)
        ready, writable, _ = select.select(reads, writes, [], timeout_s)
        for source in ready:
            if source is self._listener:
                self._accept()
            elif source == terminal.master:
                self._read_terminal()
            elif source.fileno() in self._viewers:
                self._read_viewer(self._viewers[source.fileno()])
        for sink in writable:
            if sink == terminal.master:
                terminal.write_keys()
            elif sink.fileno() in self._viewers:
                self._flush(self._viewers[sink.fileno()])

    def _must_wait(self) -> bool:
        """Return whether the command must wait for the viewer who typed last."""
        viewer = self._writer
        if viewer is None or time.monotonic() - viewer.took_at > STALL_S:
            return False
        return self._scrollback.total - viewer.position + len(viewer.unsent) > AHEAD_BYTES

    def _accept(self) -> None:
        link, _ = self._listener.accept()
        link.setblocking(False)
        self._viewers[link.fileno()] = Viewer(link)

    def _read_terminal(self) -> None:
        data = self._terminal.read()
        if data:
            self._touch()
            self._show(data)

    def _show(self, data: bytes) -> None:
        self._scrollback.add(data)
        for viewer in list(self._viewers.values()):
            if viewer.attached:
                self._flush(viewer)

    def _touch(self) -> None:
        now = time.monotonic()
        if now - self._touched_at >= TOUCH_S:
            self._touched_at = now
            with contextlib.suppress(OSError):
                os.utime(os.path.join(self._folder, "active"))

    def _flush(self, viewer: Viewer) -> None:
        """Send the viewer as much as it accepts now."""
        while viewer.link.fileno() in self._viewers:
            if not viewer.unsent and not self._fill(viewer):
                viewer.took_at = time.monotonic()
                return
            try:
                sent = viewer.link.send(viewer.unsent)
            except BlockingIOError:
                return
            except OSError:
                self._drop(viewer)
                return
            del viewer.unsent[:sent]
            viewer.took_at = time.monotonic()

    def _fill(self, viewer: Viewer) -> bool:
        """Prepare the next piece for the viewer, and return whether there is one.

        A viewer that is behind the start of the scrollback is disconnected.
        """
        if not viewer.attached:
            return False
        if viewer.position < self._scrollback.first:
            self._drop(viewer)
        elif viewer.position < self._scrollback.total:
            piece = self._scrollback.piece(viewer.position, READ_BYTES)
            self._queue_output(viewer, piece, viewer.position + len(piece))
        elif self._exit and not viewer.told_exit:
            viewer.told_exit = True
            viewer.unsent += self._exit
        return bool(viewer.unsent)

    def _queue_output(self, viewer: Viewer, output: bytes, position: int) -> None:
        viewer.unsent += data_frame(1, output)
        viewer.position = position
        if not viewer.watches:
            self._scrollback.note_answered(position)

    def _drop(self, viewer: Viewer) -> None:
        self._viewers.pop(viewer.link.fileno(), None)
        viewer.link.close()
        if viewer is self._writer:
            others = [each for each in self._viewers.values() if each.attached and not each.watches]
            self._make_writer(others[-1] if others else None)

    def _read_viewer(self, viewer: Viewer) -> None:
        try:
            data = viewer.link.recv(READ_BYTES)
            if not data:
                raise ConnectionError
            for kind, payload in viewer.decoder.feed(data):
                if kind == JSON:
                    self._handle(viewer, parse_json(payload))
                elif self._terminal.is_open and viewer.attached and not viewer.watches:
                    self._make_writer(viewer)
                    self._touch()
                    self._type(split_data(payload)[1])
        except BlockingIOError:
            return
        except (OSError, WireError, KeyError, TypeError, ValueError):
            self._drop(viewer)

    def _handle(self, viewer: Viewer, message: Dict[str, Any]) -> None:
        if message["t"] == "notice":
            self._show(b"\r\n" + str(message["text"]).encode("utf-8", "replace") + b"\r\n")
            return
        viewer.size = int(message["rows"]), int(message["cols"])
        if message["t"] == "attach":
            viewer.watches = bool(message.get("watch", False))
            self._attach(viewer, offset=int(message.get("offset", 0)))
        elif viewer is self._writer:
            self._terminal.resize(*viewer.size)

    def _attach(self, viewer: Viewer, *, offset: int) -> None:
        """Send the viewer the scrollback from `offset` on, and then all new output."""
        self._had_viewer = True
        replay, total = self._scrollback.replay(offset), self._scrollback.total
        viewer.unsent += json_frame({"t": "attached", "offset": total - len(replay), "total": total})
        viewer.attached = True
        viewer.position = total
        if replay:
            self._queue_output(viewer, replay, total)
        self._flush(viewer)
        if not viewer.watches:
            self._make_writer(viewer)

    def _make_writer(self, viewer: Optional[Viewer]) -> None:
        """Make a viewer the writer. The terminal takes its size."""
        if viewer is not self._writer:
            self._writer = viewer
            if viewer is not None:
                self._terminal.resize(*viewer.size)

    def _type(self, keys: bytes) -> None:
        if not self._terminal.type(keys):
            self._show(b"\r\n[warpdeck: the command does not read its input; further input is discarded]\r\n")

    def _announce_exit(self, status: int) -> None:
        code, number = split_status(status)
        self._exit = json_frame({"t": "exit", "code": code, "signal": number})
        for viewer in list(self._viewers.values()):
            self._flush(viewer)


def _listen(folder_of_launch: str) -> socket.socket:
    folder = os.open(os.path.join(folder_of_launch, "terminal"), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX)
    try:
        before = os.umask(0o077)
        listener.bind(f"/proc/self/fd/{folder}/pty.sock")
        os.umask(before)
    finally:
        os.close(folder)
    listener.listen(8)
    listener.setblocking(False)
    return listener


def split_status(status: int) -> Any:
    """Return (exit code, signal) of a wait status."""
    if os.WIFSIGNALED(status):
        return 0, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0


def main(argv: List[str]) -> int:
    """Run the command, and end in the same way."""
    folder, cwd, rows, cols, *command = argv
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    host = PtyHost(folder, cwd, int(rows), int(cols), command)
    status = host.run()
    host.keep_scrollback()
    return end_like(status)


def end_like(status: int) -> int:
    """Return the exit code of a wait status, or end this process by the same signal."""
    code, number = split_status(status)
    if number:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # the handling of KILL cannot be set
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return int(code)
