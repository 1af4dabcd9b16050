"""The clients on the standby's machine, which the controller serves over the connection to the standby.

The receiver listens on the socket of its home, as a controller would. So clients there use the site before a takeover, and
come back to the new controller after it. The kernel names the user of each client. The controller believes the receiver,
which has its database and its keys anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable

from warpdeck.base.paths import Paths

from .messages import ClientClosed, ClientData, ClientOpened, StandbyMessage

CHUNK_BYTES = 64 * 1024
MAX_CLIENTS = 512
"""Maximum number of clients of one standby."""
MAX_UNREAD_BYTES = 16 * 1024 * 1024
"""A client that leaves so many bytes unread is disconnected, so that it cannot fill the memory."""


class ClientRelay:
    """Listens in a thread of its own. `send` sends a message to the controller, from any thread."""

    def __init__(self, paths: Paths, send: Callable[[StandbyMessage], None], *, is_shared: bool) -> None:
        self._paths = paths
        self._send = send
        self._is_shared = is_shared
        self._loop = asyncio.new_event_loop()
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._last = 0

    def start(self) -> None:
        """Begin to accept clients. Raises OSError."""
        address = self._paths.socket
        with contextlib.suppress(FileNotFoundError):
            os.unlink(address)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(address)
        os.chmod(address, 0o666 if self._is_shared else 0o600)
        threading.Thread(target=self._run, args=(listener,), daemon=True).start()

    def deliver(self, message: ClientData | ClientClosed) -> None:
        """Pass a message of the controller to its client."""
        self._loop.call_soon_threadsafe(self._deliver, message)

    def stop(self) -> None:
        """Remove the socket. The clients are disconnected when the process ends."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._paths.socket)

    def _run(self, listener: socket.socket) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.create_task(asyncio.start_unix_server(self._serve, sock=listener))
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer: socket.socket = writer.get_extra_info("socket")
        _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if len(self._writers) >= MAX_CLIENTS:
            writer.close()
            return
        self._last += 1
        stream = self._last
        self._writers[stream] = writer
        try:
            self._send(ClientOpened(stream=stream, uid=uid, is_owner=uid == os.geteuid()))
            while data := await reader.read(CHUNK_BYTES):
                self._send(ClientData(stream=stream, data=data))
        except OSError:
            pass  # The client was killed.
        finally:
            self._writers.pop(stream, None)
            self._send(ClientClosed(stream=stream))
            writer.close()

    def _deliver(self, message: ClientData | ClientClosed) -> None:
        writer = self._writers.get(message.stream)
        if writer is None:
            return
        if isinstance(message, ClientClosed) or writer.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            writer.close()
        else:
            writer.write(message.data)
