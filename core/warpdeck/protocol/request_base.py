"""Base classes and field types of the requests.

The field types limit untrusted input.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Generic, TypeVar, cast, get_args

import msgspec

from .results import Changed

R = TypeVar("R")

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
    """Base class of all messages of clients."""

    id: Number = 0


class RequestMessage(Message, Generic[R], frozen=True, kw_only=True):
    """Base class of the messages that get an answer. `R` is the type of the answer's `result`."""


Nonce = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{32})?\Z")]


class Creating(RequestMessage[R], Generic[R], frozen=True, kw_only=True):
    """Base class of all requests that create something.

    `nonce` is 32 hexadecimal digits that the client chose at random. A request with a nonce that was already
    used, over any connection, creates nothing more and gets the same answer. It is "" if the client never
    repeats the request.
    """

    nonce: Nonce = ""


class OnJobs(RequestMessage[Changed], frozen=True, kw_only=True):
    """Base class of orders for jobs.

    Answer: {"jobs": [label], "errors": [str], "parts": {job: {tasks: code}}}

    `parts` lists the arrays for which the order succeeded for some tasks only. The code is "" for changed
    tasks, and the reason of the refusal for the others. If no task of a single array was changed, these parts
    are the error's details.
    """

    jobs: References


def message_kinds(base: type[Message] = Message) -> Iterator[type[Message]]:
    """Yield the classes of messages that have no subclass. The others are only common bases."""
    for kind in base.__subclasses__():
        if kind.__subclasses__():
            yield from message_kinds(kind)
        else:
            yield kind


def result_type(kind: type[RequestMessage[R]]) -> type[R]:
    """Return the type of the results of this kind of request, which its base class RequestMessage names."""
    return cast(type[R], _declared_result(kind))


@cache
def _declared_result(kind: type) -> Any:
    for each in kind.__mro__:
        for base in vars(each).get("__orig_bases__", ()):
            for argument in get_args(base):
                if not isinstance(argument, TypeVar):
                    return argument
    raise TypeError(f"{kind.__name__} does not declare its result")
