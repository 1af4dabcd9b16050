"""The sources and destinations of srun's streams.

They are srun's own streams, or the files of --output, --error and --input, which srun opens itself. The files
are on srun's node and belong to srun's user. That includes the files of single tasks (%t), so that the other
nodes need not have the folder.
"""

from __future__ import annotations

import errno
import os

from warpdeck_agent.wire.frames import STREAM_WINDOW_BYTES, data_frame

from .access import CommandRefused

TYPE_CHECKING = False
if TYPE_CHECKING:  # Not imported from typing: the import takes longer than the start of a step.
    from typing import Any, Dict, List, Optional, Tuple

OUT, ERR = 1, 2
EVERY_TASK = 0xFFFFFFFF
NOTHING = -1
FOLDER_MODE = 0o777


class StepFiles:
    """The destinations by task and channel, and the source of input.

    `plan` is the controller's description of the step.
    """

    def __init__(self, plan: Dict[str, Any], stream: int) -> None:
        self._stream = stream
        self._append = bool(plan.get("append"))
        self._paths: Dict[str, Any] = plan.get("outputs") or {}
        self._open: Dict[str, int] = {}
        self._target = int(plan.get("input_rank", EVERY_TASK))
        self._sources = self._open_sources(plan.get("inputs") or [], bool(plan.get("reads")))
        self._sent = 0
        self._acknowledged = 0
        self._unacknowledged: List[Tuple[int, bytes]] = []
        self._offsets: Dict[int, int] = {}
        self.pty = bool(plan.get("pty"))
        self._open_sinks()

    def sink(self, rank: int, channel: int) -> int:
        """Return the descriptor for a task's output; below 0 it is dropped."""
        found = self._paths.get(str(channel), "")
        path = found.get(str(rank), "") if isinstance(found, dict) else found
        if not path:
            return channel
        if path == os.devnull:
            return NOTHING
        if path not in self._open:
            self._open[path] = self._make(path)
        return self._open[path]

    def _make(self, path: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_APPEND
        try:
            if os.path.dirname(path):
                os.makedirs(os.path.dirname(path), FOLDER_MODE, exist_ok=True)
            return os.open(path, flags if self._append else flags | os.O_TRUNC, 0o666)
        except OSError as error:
            raise _unwritable(path, error.errno) from error

    def _open_sources(self, named: List[List[Any]], reads: bool) -> List[Tuple[int, int]]:
        """Return (rank, descriptor) of the input sources, the last one first."""
        if not named:
            return [(self._target, 0)] if reads else []
        sources = []
        for rank, path in reversed(named):
            try:
                sources.append((int(rank), os.open(path, os.O_RDONLY | os.O_CLOEXEC)))
            except OSError as error:
                raise CommandRefused(f"cannot read {path}: {error.strerror}", "check --input") from error
        return sources

    def source(self) -> int:
        """Return the next descriptor to read; below 0 if there is none, or the window is full."""
        if not self._sources or self._sent - self._acknowledged >= STREAM_WINDOW_BYTES:
            return NOTHING
        return self._sources[-1][1]

    def read_frames(self, max_bytes: int) -> bytes:
        """Return the next piece of input in a frame. An empty piece is the end."""
        rank, descriptor = self._sources[-1]
        try:
            data = os.read(descriptor, max_bytes)
        except OSError:
            data = b""
        if not data:
            self._sources.pop()
        if self.pty and data:
            from .keys import keys_frame  # Imported here because only the few steps with a terminal need it.

            data = keys_frame(data)
        return self._send(rank, data)

    def size_frames(self) -> bytes:
        """Return a frame with the terminal's size, as a piece of input."""
        from .keys import size_frame  # Imported here because only the few steps with a terminal need it.

        return self._send(self._target, size_frame())

    def _send(self, rank: int, data: bytes) -> bytes:
        offset = self._offsets.get(rank, 0)
        self._offsets[rank] = offset + len(data)
        piece = rank.to_bytes(4, "big") + b"\0" + offset.to_bytes(8, "big") + data
        self._sent += len(piece)
        self._unacknowledged.append((self._sent, piece))
        return data_frame(self._stream, piece)

    def _open_sinks(self) -> None:
        """Open all files at once, so that an error is reported before any output is lost."""
        for found in self._paths.values():
            for path in found.values() if isinstance(found, dict) else [found]:
                if path and path != os.devnull and path not in self._open:
                    self._open[path] = self._make(path)

    def acknowledge(self, size: int) -> None:
        """Record that the tasks have read `size` more bytes."""
        self._acknowledged += size
        while self._unacknowledged and self._unacknowledged[0][0] <= self._acknowledged:
            self._unacknowledged.pop(0)

    def resend(self) -> bytes:
        """Return the unacknowledged input in frames, to send it again after the connection broke."""
        self._acknowledged = (
            self._unacknowledged[0][0] - len(self._unacknowledged[0][1])
            if self._unacknowledged
            else self._sent
        )
        return b"".join(data_frame(self._stream, piece) for _, piece in self._unacknowledged)


def try_to_write(path: str) -> None:
    """Check whether a path can be written, without creating or opening it.

    Raises CommandRefused. Opening a named pipe and closing it would show its reader an end. A path that ends in "/"
    is a folder.
    """
    at = path.rstrip("/") or "/"
    if os.path.exists(at):
        if path.endswith("/") != os.path.isdir(at):
            raise _unwritable(path, errno.ENOTDIR if path.endswith("/") else errno.EISDIR)
        modes = os.W_OK | os.X_OK if path.endswith("/") else os.W_OK
    else:
        while not os.path.exists(at):
            at = os.path.dirname(at) or "."
        if not os.path.isdir(at):
            raise _unwritable(path, errno.ENOTDIR)
        modes = os.W_OK | os.X_OK
    if not os.access(at, modes):
        read_only = os.statvfs(at).f_flag & os.ST_RDONLY
        raise _unwritable(path, errno.EROFS if read_only else errno.EACCES)


def _unwritable(path: str, number: Optional[int]) -> CommandRefused:
    return CommandRefused(
        f"cannot write {path}: {os.strerror(number or errno.EIO)}", "choose another --output"
    )
