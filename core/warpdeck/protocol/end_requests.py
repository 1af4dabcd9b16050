"""Requests of clients that wait for the ends of jobs. They are part of the protocol; see protocol.py."""

from __future__ import annotations

from .request_base import Message, Name, Number, Numbers, RequestMessage
from .results import Result


class AwaitEnds(RequestMessage[Result], frozen=True, kw_only=True, tag="await_ends"):
    """Wait for submissions, named by their numbers in `jobs`.

    The controller sends Ends messages forever. It first reports the jobs that have already ended. Then it
    reports each job when it ends, and finally that the whole submission has ended. `begun` reports starts,
    too. `fields` selects the fields of the rows, as in Jobs.

    Answer: {}, followed by Ends messages
    """

    jobs: Numbers = ()
    begun: bool = False
    fields: tuple[Name, ...] = ()


class AwaitMore(Message, frozen=True, kw_only=True, tag="await_more"):
    """Wait for these submissions, too, after AwaitEnds was answered. It has no answer."""

    stream: Number
    jobs: Numbers


class Settle(RequestMessage[Result], frozen=True, kw_only=True, tag="settle"):
    """Wait until the output of a finished job or array has arrived from nodes that do not see its folder.

    The answer also comes if this takes longer than a moment. Answer: {}
    """

    job: Number
