"""Base classes and field types of the requests, and the messages that are pushed to clients.

The field types limit untrusted input.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

MAX_REFERENCES = 100_000
"""Maximum number of jobs that one request may name."""

Number = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
"""A request id or stream id. Its range is the range that a data frame can carry."""
Size = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Offset = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
Reference = Annotated[str, msgspec.Meta(max_length=1024)]
References = Annotated[tuple[Reference, ...], msgspec.Meta(max_length=MAX_REFERENCES)]
MAX_WORDS = 64
"""Maximum number of arguments of a command that is started inside a job."""
Word = Annotated[str, msgspec.Meta(max_length=64 * 1024)]
Numbers = Annotated[tuple[Number, ...], msgspec.Meta(max_length=MAX_REFERENCES)]
"""Numbers of submissions."""
Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
Name = Annotated[str, msgspec.Meta(max_length=256)]
Page = Annotated[str, msgspec.Meta(max_length=2048, pattern=r"\A(/[!-~]*)?\Z")]
"""The part of a URL after the host. It is printable, and no longer than browsers accept."""
MAX_NAMES = 10_000
"""Maximum number of names in one filter: enough for all nodes of a large site."""
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_NAMES)]
GpuIndices = Annotated[tuple[Annotated[int, msgspec.Meta(ge=0, le=1023)], ...], msgspec.Meta(max_length=1024)]
Channel = Annotated[str, msgspec.Meta(pattern=r"\A(out|err)\Z")]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", forbid_unknown_fields=False):
    """Base class of all requests."""

    id: Number = 0


Nonce = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{32})?\Z")]


class Creating(Message, frozen=True, kw_only=True):
    """Base class of all requests that create something.

    `nonce` is 32 hexadecimal digits that the client chose at random. A request with a nonce that was already
    used, over any connection, creates nothing more and gets the same answer. It is "" if the client never
    repeats the request.
    """

    nonce: Nonce = ""


class OnJobs(Message, frozen=True, kw_only=True):
    """Base class of orders for jobs.

    Answer: {"jobs": [label], "errors": [str], "parts": {job: {tasks: code}}}

    `parts` lists the arrays for which the order succeeded for some tasks only. The code is "" for changed
    tasks, and the reason of the refusal for the others. If no task of a single array was changed, these parts
    are the error's details.
    """

    jobs: References


class Delta(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", tag="delta"):
    """Pushed to a subscriber: new or changed rows, and the ids of removed ones.

    The first messages, up to the one with `ready`, carry all rows. `jobs` are rows.JobRow and `nodes` are
    noderows.NodeRow, as JSON objects.
    """

    id: int
    jobs: list[Any] = []
    gone_jobs: list[int] = []
    nodes: list[Any] = []
    gone_nodes: list[str] = []
    ready: bool = False


class Ends(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", tag="ends"):
    """Pushed to a client that sent AwaitEnds: jobs that have started and jobs that have ended.

    `done` lists the submissions that have nothing left to wait for. `unknown` lists those of them that the
    controller does not know, or no longer knows. A row is sent once for each start of its job.
    """

    id: int
    begun: list[Any] = []
    ended: list[Any] = []
    done: list[int] = []
    unknown: list[int] = []
