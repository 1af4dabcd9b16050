"""Requests that open streams, and messages about open streams; part of the protocol."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from warpdeck.model import PtySide

from . import results
from .request_base import (
    MAX_WORDS,
    Channel,
    Message,
    Name,
    Number,
    Offset,
    Page,
    Port,
    Reference,
    RequestMessage,
    Size,
    Word,
)


class Log(RequestMessage[results.LogOpened], frozen=True, kw_only=True, tag="log"):
    """Read a job's log, beginning at `offset`. A negative offset counts bytes back from the end.

    With `follow` the stream continues with new output until the job ends. The stream's end carries the job's
    exit status.

    Answer: {"offset": int, "size_bytes": int, "path": str, "node": str}, followed by the data
    """

    job: Reference
    channel: Channel = "out"
    offset: Offset = 0
    follow: bool = False
    node: Name = ""


class Attach(RequestMessage[dict[str, Any]], frozen=True, kw_only=True, tag="attach"):
    """Join the terminal of an interactive job. The request waits for the job's start and reports progress.

    Close detaches, and the job keeps running. The stream's end carries the exit status if the job ended. With
    `watch` the client only reads; other users may also watch if the site allows it.

    Answer: {"node": str}, followed by bytes in both directions
    """

    job: Reference
    watch: bool = False
    rows: PtySide = 24
    cols: PtySide = 80
    offset: Size = 0


class Tunnel(RequestMessage[dict[str, Any]], frozen=True, kw_only=True, tag="tunnel"):
    """Open a byte stream to a job's node. The request waits for the job's start and reports progress.

    The stream leads to a port on the node's loopback. Without a port it leads to `argv`, started inside the
    job as the job's user. It ends with the job.

    Answer: {"node": str}, followed by bytes in both directions
    """

    job: Reference
    node: Name = ""
    """Node of a multi-node job; "" means its first node."""
    port: Port | None = None
    argv: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_WORDS)] = ()
    forward: Size = 0
    """Number of the caller's own Forward to which this connection belongs."""


class Forward(RequestMessage[dict[str, Any]], frozen=True, kw_only=True, tag="forward"):
    """Register that the client forwards its own loopback's `local_port` to the job's `port`.

    The user's other clients can then list it. The stream ends with the job or after a ForwardEnd request.

    Answer: {"number": int, "node": str}
    """

    job: Reference
    node: Name = ""
    port: Port
    local_port: Port
    host: Name = ""
    """Host name of the client's machine."""
    purpose: Name = ""
    """Program that listens there, such as "jupyter"; "" if unknown."""
    page: Page = ""
    """Part of its URL after the host, with its token. Only the user who owns the forward can read it."""


class Forwards(RequestMessage[results.ForwardList], frozen=True, kw_only=True, tag="forwards"):
    """Ask for the caller's own forwards. An admin gets the forwards of all users.

    Answer: {"forwards": [rows.ForwardRow]}
    """


class ForwardPage(RequestMessage[results.ForwardedPage], frozen=True, kw_only=True, tag="forward_page"):
    """Ask for the part of a URL after the host, with its token, of one of the caller's own forwards.

    Answer: {"page": str}
    """

    number: Size


class ForwardEnd(RequestMessage[results.Result], frozen=True, kw_only=True, tag="forward_end"):
    """End a forward of this user, whichever client keeps it. Answer: {}"""

    number: Size


class Resize(Message, frozen=True, kw_only=True, tag="resize"):
    """Set the size of a stream's terminal. It has no answer."""

    stream: Number
    rows: PtySide
    cols: PtySide


class Ack(Message, frozen=True, kw_only=True, tag="ack"):
    """Acknowledge bytes of a stream. It has no answer."""

    stream: Number
    size: Size


class Close(Message, frozen=True, kw_only=True, tag="close"):
    """End a stream or subscription from the client's side. It has no answer."""

    stream: Number


class End(Message, frozen=True, kw_only=True, tag="end"):
    """Mark the end of an upload. It has no answer of its own."""

    stream: Number


class Subscribe(RequestMessage[results.Result], frozen=True, kw_only=True, tag="subscribe"):
    """Subscribe to changes of the `topics` "jobs" and "nodes".

    Rows of finished jobs are included if they ended within the last `finished_s` seconds.

    Answer: {}, followed by Delta messages
    """

    topics: tuple[str, ...] = ("jobs", "nodes")
    user: str | None = None
    finished_s: float = 3600.0
