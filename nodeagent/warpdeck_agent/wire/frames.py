"""Framing, sans-io: how bytes on a stream become messages. Used on the agent channel and on the client socket.

    frame   = length (u32, big endian, of the payload) | kind (u8) | payload
    kind J  = one JSON object with a string field "t"
    kind B  = stream id (u32, big endian) | raw bytes: log text, terminal bytes, uploads

A stream id is chosen by the side that asks for the stream and lives until an "end" or "close" message.
The length is checked before anything is buffered, so a peer cannot make us hold more than one frame.
"""

from __future__ import annotations

from . import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing's own: every verb of the command line would import it for this alone
    import asyncio
    from typing import Any, Dict, Iterator, Tuple

JSON = ord("J")
BINARY = ord("B")
MAX_FRAME_BYTES = 8 * 1024 * 1024
"""The largest payload accepted: a job script with its environment, or a page of 2,000 queue rows, fits well."""

MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""The largest message that the controller takes from a client: what it makes of it fits into a frame with room to spare."""

DATA_CHUNK_BYTES = 64 * 1024
"""How much a sender of stream data puts in one frame, so that other messages wait little behind it."""

STREAM_WINDOW_BYTES = 1024 * 1024
"""How much of one stream may be sent before the receiver has acknowledged it ("ack" messages)."""

SENTINEL = "WARPDECK-AGENT "
"""Begins the one line that an agent command says before frames: shell start files may have printed before it."""

HEADER_BYTES = 5
"""Length and kind. Integers by their own methods: the module struct costs a program that starts often half a millisecond."""
_ID_BYTES = 4
"""Of a stream, and of a length."""


class WireError(Exception):
    """The peer sent something that is no frame, is too large, or does not decode. The connection is closed."""


def json_frame(message: Dict[str, Any]) -> bytes:
    """One J frame; `message` holds JSON values only. Raises WireError if it is over MAX_FRAME_BYTES."""
    payload = jsontext.dumps(message).encode("utf-8", "surrogatepass")
    return pack(JSON, payload)


def data_frame(stream: int, data: bytes) -> bytes:
    """One B frame that carries `data` on `stream`."""
    return pack(BINARY, stream.to_bytes(_ID_BYTES, "big") + data)


def pack(kind: int, payload: bytes) -> bytes:
    """A frame of any kind. Raises WireError if the payload is over MAX_FRAME_BYTES."""
    if len(payload) > MAX_FRAME_BYTES:
        raise WireError(f"a message of {len(payload)} bytes is over the limit of {MAX_FRAME_BYTES}")
    return b"%b%c%b" % (len(payload).to_bytes(_ID_BYTES, "big"), kind, payload)


def split_data(payload: bytes) -> Tuple[int, bytes]:
    """The stream id and bytes of a B frame's payload."""
    if len(payload) < _ID_BYTES:
        raise WireError("a data frame without a stream id")
    return int.from_bytes(payload[:_ID_BYTES], "big"), payload[_ID_BYTES:]


def parse_header(header: bytes, max_bytes: int = MAX_FRAME_BYTES) -> Tuple[int, int]:
    """(payload length, kind) of a 5-byte header. Raises WireError for an unknown kind or a length over the limit."""
    length, kind = int.from_bytes(header[:_ID_BYTES], "big"), header[_ID_BYTES]
    if kind not in (JSON, BINARY):
        raise WireError(f"not a warpdeck frame (kind byte 0x{kind:02x})")
    if length > max_bytes:
        raise WireError(f"a frame of {length} bytes is over the limit of {max_bytes}")
    return length, kind


def parse_json(payload: bytes) -> Dict[str, Any]:
    """The JSON object of a J frame. Raises WireError unless it is an object with a string "t"."""
    try:
        message = jsontext.loads(payload.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise WireError(f"a frame that is not JSON: {error}") from error
    if not isinstance(message, dict) or not isinstance(message.get("t"), str):
        raise WireError('a message without a field "t"')
    return message


class FrameDecoder:
    """Bytes in, frames out, for callers that read a socket themselves. Holds at most one frame."""

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Tuple[int, bytes]]:
        """Yields each complete (kind, payload). Raises WireError as soon as a header is wrong."""
        self._buffer += data
        while len(self._buffer) >= HEADER_BYTES:
            length, kind = parse_header(bytes(self._buffer[:HEADER_BYTES]), self._max_bytes)
            end = HEADER_BYTES + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[HEADER_BYTES:end])
            del self._buffer[:end]
            yield kind, payload


async def read_frame(reader: asyncio.StreamReader, max_bytes: int = MAX_FRAME_BYTES) -> Tuple[int, bytes]:
    """The next (kind, payload). Raises WireError, or asyncio.IncompleteReadError where the peer closes."""
    length, kind = parse_header(await reader.readexactly(HEADER_BYTES), max_bytes)
    return kind, await reader.readexactly(length)
