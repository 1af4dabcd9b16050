"""The agent's side of a terminal: a relay between the controller's stream and the terminal's host process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
from typing import Iterator, Tuple

from warpdeck_agent.linux.file_reading import LogError
from warpdeck_agent.linux.mounts import mount_of
from warpdeck_agent.linux.safe_paths import FOLDER
from warpdeck_agent.wire.frames import (
    BINARY,
    DATA_CHUNK_BYTES,
    WireError,
    data_frame,
    json_frame,
    parse_json,
    read_frame,
    split_data,
)
from warpdeck_agent.wire.messages import OpenPty, StreamOpened
from warpdeck_agent.wire.opening import FELL_BEHIND

from .streams import OutStream

UCRED = struct.Struct("3i")
"""pid, uid, gid in the format of SO_PEERCRED."""
CONNECT_S = 10.0
"""How long a newly started terminal may take to listen, in seconds."""


async def connect(folder: str, uid: int) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the terminal's host, waiting for it to start.

    Raises OSError. The folder belongs to its user, who may put a link to another user's socket there. So the
    listening process must belong to that user.
    """
    deadline = asyncio.get_running_loop().time() + CONNECT_S
    while True:
        try:
            with _socket_in(folder) as descriptor:
                reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{descriptor}")
            if _listener(writer) != uid:
                writer.close()
                raise PermissionError("the terminal's socket does not belong to the job's user")
            return reader, writer
        except (FileNotFoundError, ConnectionRefusedError):
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(0.01)


@contextlib.contextmanager
def _socket_in(folder: str) -> Iterator[int]:
    """Yield a descriptor of the terminal's socket itself.

    Raises OSError. No link is followed, and no file system is accessed that was mounted in its path.
    """
    with contextlib.ExitStack() as closing:
        at = [os.open(folder, FOLDER)]
        closing.callback(os.close, at[0])
        for name, flags in (("terminal", FOLDER), ("pty.sock", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)):
            at.append(os.open(name, flags, dir_fd=at[-1]))
            closing.callback(os.close, at[-1])
            if mount_of(at[-1]) != mount_of(at[0]):
                raise PermissionError("a file system is mounted over the terminal's socket")
        if not stat.S_ISSOCK(os.fstat(at[-1]).st_mode):
            raise PermissionError("the terminal's socket does not belong to the job's user")
        yield at[-1]


def _listener(writer: asyncio.StreamWriter) -> int:
    """Return the uid of the process that listens at the other end."""
    found = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, UCRED.size)
    return int(UCRED.unpack(found)[1])


class Terminal:
    """One attached viewer. A watching viewer cannot type."""

    def __init__(self, writer: asyncio.StreamWriter, *, watches: bool) -> None:
        self._writer = writer
        self._watches = watches

    def type(self, data: bytes) -> None:
        """Send keyboard input."""
        if self._watches:
            return
        for start in range(0, len(data), DATA_CHUNK_BYTES):
            self._writer.write(data_frame(1, data[start : start + DATA_CHUNK_BYTES]))

    def resize(self, rows: int, cols: int) -> None:
        if not self._watches:
            self._writer.write(json_frame({"t": "resize", "rows": rows, "cols": cols}))

    def close(self) -> None:
        """Detach the viewer. The terminal continues."""
        self._writer.close()


async def show(folder: str, message: str, *, uid: int) -> None:
    """Show a line to all viewers of the terminal. Raises OSError."""
    _, writer = await connect(folder, uid)
    writer.write(json_frame({"t": "notice", "text": f"[warpdeck: {message}]"}))
    await writer.drain()
    writer.close()


async def attach(
    folder: str, request: OpenPty, *, uid: int
) -> Tuple[Terminal, asyncio.StreamReader, StreamOpened]:
    """Attach a viewer.

    Returns it, the reader of its output, and the message with the start of its scrollback.
    """
    if request.watcher:
        await show(folder, f"{request.watcher} watches", uid=uid)
    reader, writer = await connect(folder, uid)
    hello = {
        "t": "attach",
        "offset": request.offset,
        "rows": request.rows,
        "cols": request.cols,
        "watch": request.watch,
    }
    writer.write(json_frame(hello))
    _, payload = await read_frame(reader)
    answer = parse_json(payload)
    offset, total = answer.get("offset"), answer.get("total")
    if not (isinstance(offset, int) and isinstance(total, int) and min(offset, total) >= 0):
        # a user's process may have answered, so check the answer
        raise WireError("the terminal's host sent an invalid answer")
    opened = StreamOpened(stream=request.stream, offset=offset, size_bytes=total)
    return Terminal(writer, watches=request.watch), reader, opened


async def pump(out: OutStream, reader: asyncio.StreamReader) -> None:
    """Copy terminal output to the controller until the terminal ends.

    Raises LogError if it ends without an exit message.
    """
    while True:
        try:
            kind, payload = await read_frame(reader)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            message = "the viewer read too slowly and was disconnected; attach again"
            raise LogError(message, code=FELL_BEHIND) from error
        if kind == BINARY:
            await out.send(split_data(payload)[1])
        elif parse_json(payload)["t"] == "exit":
            return
