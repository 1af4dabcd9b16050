"""What all requests are made of (their base, and types that carry the limits of what comes from outside), and what is pushed."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

MAX_REFERENCES = 100_000
"""Jobs that one request may name."""

Number = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
"""A request or stream id: what a data frame can carry."""
Size = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Offset = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
Reference = Annotated[str, msgspec.Meta(max_length=1024)]
References = Annotated[tuple[Reference, ...], msgspec.Meta(max_length=MAX_REFERENCES)]
MAX_WORDS = 64
"""Words of a command that is started inside a job."""
Word = Annotated[str, msgspec.Meta(max_length=64 * 1024)]
Numbers = Annotated[tuple[Number, ...], msgspec.Meta(max_length=MAX_REFERENCES)]
"""Of submissions."""
Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
Name = Annotated[str, msgspec.Meta(max_length=256)]
Page = Annotated[str, msgspec.Meta(max_length=2048, pattern=r"\A(/[!-~]*)?\Z")]
"""What of a URL follows the host: printable, and no longer than browsers take."""
MAX_NAMES = 10_000
"""Of one filter: all nodes of a large site."""
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_NAMES)]
GpuIndices = Annotated[tuple[Annotated[int, msgspec.Meta(ge=0, le=1023)], ...], msgspec.Meta(max_length=1024)]
Channel = Annotated[str, msgspec.Meta(pattern=r"\A(out|err)\Z")]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", forbid_unknown_fields=False):
    """Base of all requests."""

    id: Number = 0


Nonce = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{32})?\Z")]


class Creating(Message, frozen=True, kw_only=True):
    """Base of all requests that create something. `nonce`: 32 hexadecimal digits that the client chose at random; the same one
    sent again, over any connection, creates nothing more and gets the same answer. "" from a client that does not ask again."""

    nonce: Nonce = ""


class OnJobs(Message, frozen=True, kw_only=True):
    """Base of what is asked of jobs. -> {"jobs": [label], "errors": [str], "parts": {job: {tasks: code}}}

    `parts`: arrays of which it was done to some tasks (code ""), and why not to the others; of one of which it was done to none,
    they are the error's details.
    """

    jobs: References


class Delta(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", tag="delta"):
    """Pushed to a subscriber: rows that are new or changed, and what is gone. The first ones, up to the one with
    `ready`, carry everything there is. `jobs` are rows.JobRow, `nodes` noderows.NodeRow, as JSON objects."""

    id: int
    jobs: list[Any] = []
    gone_jobs: list[int] = []
    nodes: list[Any] = []
    gone_nodes: list[str] = []
    ready: bool = False


class Ends(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", tag="ends"):
    """Pushed to whoever asked AwaitEnds: rows of jobs that have begun, and that have ended; the submissions of which nothing is left
    to wait for (`done`); and of those the ones that nobody knows (any more). A row comes once for each start of its job."""

    id: int
    begun: list[Any] = []
    ended: list[Any] = []
    done: list[int] = []
    unknown: list[int] = []
