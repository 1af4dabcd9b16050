"""The sending half of a connection to an agent."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from warpdeck_agent.wire import data_frame, json_frame
from warpdeck_agent.wire.messages import encode
from warpdeck_agent.wire.outbox import Outbox

from .transport import Outgoing

MAX_UNSENT_BYTES = 64 * 1024 * 1024
"""An agent that leaves this many bytes unread is disconnected, as it disconnects us.

After it reconnects, it is sent the current state again.
"""


class Writer(Protocol):
    """Protocol of the writing half of a connection."""

    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...


class FrameWriter:
    """Sends frames to one agent, and disconnects an agent that does not read them."""

    def __init__(self, writer: Writer, outgoing: Outgoing) -> None:
        self._writer = writer
        self._outgoing = outgoing
        self._outbox = Outbox(self._write)
        self.abort_reason = ""
        """Reason why this object has ended the connection; "" if it has not."""

    def send(self, message: Any) -> None:
        """Queue a message."""
        self._outbox.add(json_frame(encode(message)))

    def send_data(self, stream: int, data: bytes) -> None:
        """Queue data of a stream in one frame."""
        self._outbox.add(data_frame(stream, data))

    def flush(self) -> None:
        """Write all queued frames to the connection's buffer."""
        self._outbox.flush()

    def unsent_bytes(self) -> int:
        """Return the number of bytes in the connection's buffer that were not sent yet."""
        return self._outgoing.get_write_buffer_size()

    def close(self) -> None:
        """Write all queued frames, and close the connection."""
        self._outbox.flush()
        self._writer.close()

    def _write(self, data: bytes) -> None:
        if self.abort_reason:
            return
        if self.unsent_bytes() > MAX_UNSENT_BYTES:
            self.abort_reason = (
                f"its agent has not read {MAX_UNSENT_BYTES >> 20} MiB of messages; it may be stopped"
            )
            self._outgoing.abort()
            return
        with contextlib.suppress(OSError):  # The reader of the link reports that it broke.
            self._writer.write(data)
