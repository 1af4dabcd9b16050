"""The messages between a controller and the receiver on its standby: msgpack, each behind its length in four bytes.

The receiver prints READY, and the controller begins with Opening. The receiver answers with Greeting or Refused. Then the
controller sends what the receiver lacks, and the receiver acknowledges batches by their number. Beat comes once a second.
"""

from __future__ import annotations

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.base.standby_files import MOVED

READY = "WARPDECK-STANDBY READY"
"""The line that the receiver prints before its first message. Shell startup files may print other lines before it."""
LENGTH_BYTES = 4
MAX_MESSAGE_BYTES = 512 * 1024 * 1024
"""Largest message. A batch with many large requests takes some megabytes."""
PIECE_BYTES = 256 * 1024
"""Size of a piece of a file, so that other messages do not wait long behind it."""
BEAT_S = 1.0
"""Seconds between two beats."""
SILENCE_S = 15.0
"""Seconds without a message after which the other side counts as lost."""


class StandbyMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A message."""


class Opening(StandbyMessage, frozen=True, kw_only=True):
    """The first message of a controller."""

    host: str
    home: str
    controller_id: str
    generation: int
    mode: str
    probe: str
    """The content of the file PROBE_FILE in the controller's home. A receiver that finds it in its own home shares the folder."""
    is_shared: bool = False
    """Whether the controller serves all users of its machine."""
    only_asks: bool = False
    """Whether the controller only wants to know if the standby has taken over."""


class Greeting(StandbyMessage, frozen=True, kw_only=True):
    """The state of the standby's database and the files that it has, each with its size and time."""

    number: int
    chain: str
    schema: int
    files: dict[str, tuple[int, int]]


class Refused(StandbyMessage, frozen=True, kw_only=True):
    """The receiver ends. `successor` is the machine that has taken over, or ""."""

    reason: str
    hint: str = ""
    successor: str = ""


class CopyBegin(StandbyMessage, frozen=True):
    """A full copy of the database follows."""


class CopyPiece(StandbyMessage, frozen=True, kw_only=True):
    """The next piece of the copy."""

    data: bytes


class CopyEnd(StandbyMessage, frozen=True, kw_only=True):
    """The copy is complete."""

    size_bytes: int


class BatchSent(StandbyMessage, frozen=True, kw_only=True):
    """One batch of the store."""

    number: int
    chain: str
    payload: bytes


class FilePiece(StandbyMessage, frozen=True, kw_only=True):
    """A piece of a file of the home. The last one puts the file in place, with this time."""

    path: str
    data: bytes
    is_first: bool
    is_last: bool
    mtime_ns: int


class FileGone(StandbyMessage, frozen=True, kw_only=True):
    """A file that the controller no longer has."""

    path: str


class Beat(StandbyMessage, frozen=True, kw_only=True):
    """The controller lives, and its last batch has this number. `waits` tells whether its commits wait for the standby."""

    number: int
    waits: bool


class Farewell(StandbyMessage, frozen=True):
    """The controller was stopped by a person. A watchdog does not take over."""


class Acknowledged(StandbyMessage, frozen=True, kw_only=True):
    """All batches up to this one are on the standby's disk."""

    number: int


class Trouble(StandbyMessage, frozen=True, kw_only=True):
    """The standby cannot write. Its receiver ends."""

    reason: str


class ClientOpened(StandbyMessage, frozen=True, kw_only=True):
    """A client on the standby's machine has connected. `is_owner` is set for the account of the receiver."""

    stream: int
    uid: int
    is_owner: bool


class ClientData(StandbyMessage, frozen=True, kw_only=True):
    """Bytes from or to a client on the standby's machine."""

    stream: int
    data: bytes


class ClientClosed(StandbyMessage, frozen=True, kw_only=True):
    """One side has ended the connection of a client on the standby's machine."""

    stream: int


_FromBoth = ClientData | ClientClosed
_Writes = CopyBegin | CopyPiece | CopyEnd | BatchSent | FilePiece | FileGone
Sent = Opening | _Writes | Beat | Farewell | _FromBoth
"""Messages of the controller."""
Answer = Greeting | Refused | Acknowledged | Trouble | ClientOpened | _FromBoth
"""Messages of the receiver."""

_ENCODER = msgspec.msgpack.Encoder()
_SENT: msgspec.msgpack.Decoder[Sent] = msgspec.msgpack.Decoder(Sent)
_ANSWER: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


class MessageError(Exception):
    """The other side sent something that is no message."""


class Superseded(UserError):
    """The standby has taken over. `host` is its name."""

    def __init__(self, host: str, reason: str) -> None:
        hint = f"use warpdeck on {host}; `warpdeck standby` there makes this machine its standby"
        super().__init__(reason, hint, code=MOVED)
        self.host = host


def packed(message: StandbyMessage) -> bytes:
    """Return a message with its length."""
    data = _ENCODER.encode(message)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def length_of(header: bytes) -> int:
    """Return the length that a header announces. Raises MessageError."""
    size = int.from_bytes(header, "big")
    if size > MAX_MESSAGE_BYTES:
        raise MessageError(f"a message of {size} bytes is over the limit of {MAX_MESSAGE_BYTES}")
    return size


def sent(data: bytes) -> Sent:
    """Decode a message of the controller. Raises MessageError."""
    try:
        return _SENT.decode(data)
    except msgspec.DecodeError as error:
        raise MessageError(f"a message that cannot be decoded: {error}") from error


def answer(data: bytes) -> Answer:
    """Decode a message of the receiver. Raises MessageError."""
    try:
        return _ANSWER.decode(data)
    except msgspec.DecodeError as error:
        raise MessageError(f"a message that cannot be decoded: {error}") from error
