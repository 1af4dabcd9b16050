"""Framing without I/O, for the agent link and the client socket.

It converts between bytes on a stream and messages.

  frame   = length (u32, big endian, of the payload) | kind (u8) | payload
  kind J  = one JSON object with a string field "t"
  kind B  = stream id (u32, big endian) | raw bytes: log text, terminal bytes, uploads

The side that asks for a stream chooses its id. The id is valid until an "end" or "close" message. The length
is checked before anything is buffered, so a peer cannot make us hold more than one frame.
"""

from __future__ import annotations

from . import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:  # Not imported from typing: every command-line verb would load typing for this one name.
    import asyncio
    from typing import Any, Dict, Iterator, Tuple

JSON = ord("J")
BINARY = ord("B")
MAX_FRAME_BYTES = 8 * 1024 * 1024
"""The largest accepted payload. A job script with its environment, or a page of 2,000 queue rows, fits
well.
"""

MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""The largest message that the controller accepts from a client. Messages that the controller derives from it
then fit into one frame.
"""

DATA_CHUNK_BYTES = 64 * 1024
"""The most stream data that a sender puts into one frame, so that other messages do not wait long behind
it.
"""

STREAM_WINDOW_BYTES = 1024 * 1024
"""The most bytes of one stream that may be sent before the receiver acknowledges them with "ack" messages."""

SENTINEL = "WARPDECK-AGENT "
"""Prefix of the one line that an agent command prints before its frames. Shell start files may print other
lines before it.
"""

HEADER_BYTES = 5
"""Size of the length and the kind. We convert integers with their own methods, because importing the module
struct takes half a millisecond, which matters to programs that start often.
"""
_ID_BYTES = 4
"""Size of a stream id and of a length."""


class WireError(Exception):
    """The peer sent data that is not a frame, is too large, or does not decode.

    The connection is then closed.
    """


def json_frame(message: Dict[str, Any]) -> bytes:
    """Return one J frame.

    `message` holds JSON values only. Raises WireError if the frame is over MAX_FRAME_BYTES.
    """
    payload = jsontext.dumps(message).encode("utf-8", "surrogatepass")
    return pack(JSON, payload)


def data_frame(stream: int, data: bytes) -> bytes:
    """Return one B frame that carries `data` on `stream`."""
    return pack(BINARY, stream.to_bytes(_ID_BYTES, "big") + data)


def pack(kind: int, payload: bytes) -> bytes:
    """Return a frame of any kind. Raises WireError if the payload is over MAX_FRAME_BYTES."""
    if len(payload) > MAX_FRAME_BYTES:
        raise WireError(f"a message of {len(payload)} bytes is over the limit of {MAX_FRAME_BYTES}")
    return b"%b%c%b" % (len(payload).to_bytes(_ID_BYTES, "big"), kind, payload)


def split_data(payload: bytes) -> Tuple[int, bytes]:
    """Return the stream id and the bytes of a B frame's payload. Raises WireError if it has no stream id."""
    if len(payload) < _ID_BYTES:
        raise WireError("a data frame without a stream id")
    return int.from_bytes(payload[:_ID_BYTES], "big"), payload[_ID_BYTES:]


def parse_header(header: bytes, max_bytes: int = MAX_FRAME_BYTES) -> Tuple[int, int]:
    """Return (payload length, kind) of a 5-byte header.

    Raises WireError for an unknown kind or a length over the limit.
    """
    length, kind = int.from_bytes(header[:_ID_BYTES], "big"), header[_ID_BYTES]
    if kind not in (JSON, BINARY):
        raise WireError(f"not a warpdeck frame (kind byte 0x{kind:02x})")
    if length > max_bytes:
        raise WireError(f"a frame of {length} bytes is over the limit of {max_bytes}")
    return length, kind


def parse_json(payload: bytes) -> Dict[str, Any]:
    """Return the JSON object of a J frame. Raises WireError unless it is an object with a string "t"."""
    try:
        message = jsontext.loads(payload.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise WireError(f"a frame that is not JSON: {error}") from error
    if not isinstance(message, dict) or not isinstance(message.get("t"), str):
        raise WireError('a message without a field "t"')
    return message


class FrameDecoder:
    """Incremental decoder of frames, for callers that read a socket themselves.

    It holds at most one frame.
    """

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Tuple[int, bytes]]:
        """Add received bytes and yield each complete (kind, payload).

        Raises WireError as soon as a header is wrong.
        """
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
    """Return the next (kind, payload).

    Raises WireError, or asyncio.IncompleteReadError if the peer closes the connection.
    """
    length, kind = parse_header(await reader.readexactly(HEADER_BYTES), max_bytes)
    return kind, await reader.readexactly(length)
