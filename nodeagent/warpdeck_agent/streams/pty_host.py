"""The host of one terminal: a small process that outlives the agent, keeps the scrollback and serves viewers.

    ptyhost FOLDER CWD ROWS COLS COMMAND...

Viewers connect to FOLDER/terminal/pty.sock and speak the wire's frames: {"t": "attach", "offset", "rows", "cols", "watch"} first,
then data frames are keyboard input and {"t": "resize"} tells the viewer's size. They get {"t": "attached", "offset", "total"},
output as data frames, and {"t": "exit"} at the end. The terminal has the size of the viewer who typed last (or, before anybody
does, came last); who watches neither types nor counts. {"t": "notice", "text"} shows a line to all. At the end the scrollback is
kept in FOLDER/out.

The command goes as fast as the viewer who typed last takes what it says, as at any terminal, so that nothing of it is lost and a
Ctrl-C is not behind megabytes. Nobody else holds it up, nor that viewer once it takes nothing for STALL_S: it may be stopped or cut
off. Whoever falls behind what the scrollback holds is let go and may attach again. What is typed waits here until the command reads
it, and the output goes on meanwhile: a command that echoes what is pasted into it waits for its reader.

FOLDER/active is touched at every key and every output, so that anybody can see since when a session is idle; a notice is no use.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import resource
import select
import signal
import socket
import struct
import termios
import time
from typing import Any, Dict, List, Optional

from warpdeck_agent.client.modes import Modes
from warpdeck_agent.wire.frames import (
    JSON,
    FrameDecoder,
    WireError,
    data_frame,
    json_frame,
    parse_json,
    split_data,
)

from . import terminal_input
from .terminal_queries import without_queries

SCROLLBACK_BYTES = 1024 * 1024
AHEAD_BYTES = 128 * 1024
"""So much more than its viewer has taken is read of a command: two reads, so that a quick viewer never waits for us."""
STALL_S = 5.0
"""A viewer that takes nothing for so long holds nothing up: longer than a link of a healthy network keeps quiet."""
MAX_TYPED_BYTES = 4 * 1024 * 1024
"""What may be typed ahead of a command that does not read: any paste by hand."""
READ_BYTES = 64 * 1024
LINGER_S = 3.0
"""How long the end waits for viewers to take the last output."""
FIRST_VIEWER_S = 10.0
"""So long after its start a command that has ended already is kept for the viewer who is still on the way."""
TOUCH_S = 0.5
"""The least time between two touches of FOLDER/active: less than the second after which somebody may be warned, so that the key
typed then counts."""


class Viewer:
    """A connection to the terminal."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.decoder = FrameDecoder(1 << 20)
        self.unsent = bytearray()
        """In frames, or a part of one."""
        self.position = 0
        """Of the output it was given everything before this."""
        self.took_at = time.monotonic()
        """When it last took something, or had everything."""
        self.attached = False
        self.told_exit = False
        self.watches = False
        self.size = (0, 0)


class PtyHost:
    """One command on a terminal."""

    def __init__(self, folder: str, cwd: str, rows: int, cols: int, command: List[str]) -> None:
        self._folder = folder
        self._viewers: Dict[int, Viewer] = {}
        self._writer: Optional[Viewer] = None
        self._scrollback = bytearray()
        self._before = Modes()
        """What was set before the scrollback begins: an editor's screen, a mouse."""
        self._total = 0
        self._typed = bytearray()
        """What the command has not read yet, and its terminal has no room for."""
        self._answered = 0
        """So far somebody who types has seen it: what programs ask of the terminal before it was answered."""
        self._open = True
        self._seen = False
        self._exit = b""
        self._keep_until = time.monotonic() + FIRST_VIEWER_S
        self._touched = 0.0
        self._listener = self._listen()
        self._pid, self._master = self._fork(cwd, command)
        self._resize(rows, cols)

    def run(self) -> int:
        """Serves until the command has ended and its output is away. Returns the wait status."""
        status: Optional[int] = None
        deadline = 0.0
        while status is None or self._is_awaited(deadline):
            self._turn(0.2 if self._open or status is not None else 0.02)
            if status is None and not self._open:
                status = self._reap()
                if status is not None:
                    deadline = time.monotonic() + LINGER_S
                    self._say_exit(status)
        return status

    def _is_awaited(self, deadline: float) -> bool:
        """Whether somebody still has to take what an ended command has said."""
        if not self._seen:
            return time.monotonic() < self._keep_until
        lacking = any(v.unsent or not v.told_exit for v in self._viewers.values() if v.attached)
        return lacking and time.monotonic() < deadline

    def keep_scrollback(self) -> None:
        """Leaves the last output for `warpdeck logs`; a full disk must not cost the exit status that comes after it."""
        with contextlib.suppress(OSError), open(os.path.join(self._folder, "out"), "wb") as file:
            file.write(self._scrollback)

    def _listen(self) -> socket.socket:
        folder = os.open(os.path.join(self._folder, "terminal"), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
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

    def _fork(self, cwd: str, command: List[str]) -> Any:
        pid, master = pty.fork()
        if pid == 0:
            try:
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                os.chdir(cwd)
                os.environ.setdefault("TERM", "xterm-256color")
                os.execvp(command[0], command)
            except OSError as error:
                os.write(2, f"cannot run {command[0]}: {error.strerror}\r\n".encode())
            finally:
                os._exit(127)
        os.set_blocking(master, False)
        return pid, master

    def _turn(self, timeout_s: float) -> None:
        reads: List[Any] = [self._listener, *(viewer.link for viewer in self._viewers.values())]
        writes: List[Any] = [viewer.link for viewer in self._viewers.values() if viewer.unsent]
        if self._open and not self._is_held():
            reads.append(self._master)
        if self._open and self._typed:
            writes.append(self._master)
        ready, writable, _ = select.select(reads, writes, [], timeout_s)
        for source in ready:
            if source is self._listener:
                self._accept()
            elif source == self._master:
                self._read_terminal()
            elif source.fileno() in self._viewers:
                self._read_viewer(self._viewers[source.fileno()])
        for sink in writable:
            if sink == self._master:
                terminal_input.give(self._master, self._typed)
            elif sink.fileno() in self._viewers:
                self._flush(self._viewers[sink.fileno()])

    def _is_held(self) -> bool:
        """Whether the command has to wait for the viewer who typed last."""
        viewer = self._writer
        if viewer is None or time.monotonic() - viewer.took_at > STALL_S:
            return False
        return self._total - viewer.position + len(viewer.unsent) > AHEAD_BYTES

    def _accept(self) -> None:
        link, _ = self._listener.accept()
        link.setblocking(False)
        self._viewers[link.fileno()] = Viewer(link)

    def _read_terminal(self) -> None:
        try:
            data = os.read(self._master, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # EIO: the last process on the terminal is gone
            data = b""
        if not data:
            self._open = False
            return
        self._touch()
        self._show(data)

    def _show(self, data: bytes) -> None:
        self._total += len(data)
        self._scrollback += data
        over = max(0, len(self._scrollback) - SCROLLBACK_BYTES)
        self._before.feed(bytes(self._scrollback[:over]))
        del self._scrollback[:over]
        for viewer in list(self._viewers.values()):
            if viewer.attached:
                self._flush(viewer)

    def _touch(self) -> None:
        now = time.monotonic()
        if now - self._touched >= TOUCH_S:
            self._touched = now
            with contextlib.suppress(OSError):
                os.utime(os.path.join(self._folder, "active"))

    def _flush(self, viewer: Viewer) -> None:
        """Gives it as much as it takes now."""
        first = self._total - len(self._scrollback)
        while viewer.link.fileno() in self._viewers:
            if not viewer.unsent and not self._fill(viewer, first):
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

    def _fill(self, viewer: Viewer, first: int) -> bool:
        """The next piece for it, if there is any. `first`: where the scrollback begins; who is before that is let go."""
        if not viewer.attached:
            return False
        if viewer.position < first:
            self._drop(viewer)
        elif viewer.position < self._total:
            begin = viewer.position - first
            piece = bytes(self._scrollback[begin : begin + READ_BYTES])
            self._give(viewer, piece, viewer.position + len(piece))
        elif self._exit and not viewer.told_exit:
            viewer.told_exit = True
            viewer.unsent += self._exit
        return bool(viewer.unsent)

    def _give(self, viewer: Viewer, shown: bytes, position: int) -> None:
        viewer.unsent += data_frame(1, shown)
        viewer.position = position
        if not viewer.watches:
            self._answered = max(self._answered, position)

    def _drop(self, viewer: Viewer) -> None:
        self._viewers.pop(viewer.link.fileno(), None)
        viewer.link.close()
        if viewer is self._writer:
            others = [each for each in self._viewers.values() if each.attached and not each.watches]
            self._follow(others[-1] if others else None)

    def _read_viewer(self, viewer: Viewer) -> None:
        try:
            data = viewer.link.recv(READ_BYTES)
            if not data:
                raise ConnectionError
            for kind, payload in viewer.decoder.feed(data):
                if kind == JSON:
                    self._command(viewer, parse_json(payload))
                elif self._open and viewer.attached and not viewer.watches:
                    self._follow(viewer)
                    self._touch()
                    self._take_keys(split_data(payload)[1])
        except BlockingIOError:
            return
        except (OSError, WireError, KeyError, TypeError, ValueError):
            self._drop(viewer)

    def _command(self, viewer: Viewer, message: Dict[str, Any]) -> None:
        if message["t"] == "notice":
            self._show(b"\r\n" + str(message["text"]).encode("utf-8", "replace") + b"\r\n")
            return
        viewer.size = int(message["rows"]), int(message["cols"])
        if message["t"] == "attach":
            self._seen = True
            viewer.watches = bool(message.get("watch", False))
            first = self._total - len(self._scrollback)
            asked = int(message.get("offset", 0))
            replay = self._replay(min(max(asked, first), self._total), first)
            if asked < first:  # in the place of as many bytes
                replay = self._before.redo() + replay
            begin = self._total - len(replay)
            viewer.unsent += json_frame({"t": "attached", "offset": begin, "total": self._total})
            viewer.attached = True
            viewer.position = self._total
            if replay:
                self._give(viewer, replay, self._total)
            self._flush(viewer)
            if not viewer.watches:
                self._follow(viewer)
        elif viewer is self._writer:
            self._resize(*viewer.size)

    def _replay(self, offset: int, first: int) -> bytes:
        """From the offset on; what somebody's terminal has answered asks nothing any more. `first`: where the scrollback begins."""
        asks = max(offset, self._answered) - first
        return without_queries(bytes(self._scrollback[offset - first : asks])) + self._scrollback[asks:]

    def _follow(self, viewer: Optional[Viewer]) -> None:
        """The terminal takes the size of whoever writes."""
        if viewer is not self._writer:
            self._writer = viewer
            if viewer is not None:
                self._resize(*viewer.size)

    def _take_keys(self, data: bytes) -> None:
        room = MAX_TYPED_BYTES - len(self._typed)
        self._typed += data[:room]
        if 0 < room < len(data):  # said once until there is room again
            self._show(b"\r\n[warpdeck: too much is typed ahead, the rest is thrown away]\r\n")
        terminal_input.give(self._master, self._typed)

    def _resize(self, rows: int, cols: int) -> None:
        size = struct.pack("HHHH", min(max(rows, 1), 1000), min(max(cols, 1), 1000), 0, 0)
        try:
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)
        except OSError:
            return

    def _reap(self) -> Optional[int]:
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        return status if pid else None

    def _say_exit(self, status: int) -> None:
        code, number = split_status(status)
        self._exit = json_frame({"t": "exit", "code": code, "signal": number})
        for viewer in list(self._viewers.values()):
            self._flush(viewer)


def split_status(status: int) -> Any:
    """(exit code, signal) of a wait status."""
    if os.WIFSIGNALED(status):
        return 0, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0


def main(argv: List[str]) -> int:
    """Runs the command, and ends as it did."""
    folder, cwd, rows, cols, *command = argv
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    host = PtyHost(folder, cwd, int(rows), int(cols), command)
    status = host.run()
    host.keep_scrollback()
    code, number = split_status(status)
    if number:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # KILL has no other handling
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return int(code)
