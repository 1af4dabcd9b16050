"""What waiters for the ends of jobs may ask: part of the protocol, see there."""

from __future__ import annotations

from .request_base import Message, Name, Number, Numbers


class AwaitEnds(Message, frozen=True, kw_only=True, tag="await_ends"):
    """-> {} and then Ends messages, for ever: of each submission at once what has ended already, then each job when it ends, and
    last that all of it has. `jobs` are numbers of submissions. `begun` tells of starts too. `fields` of the rows, as for Jobs."""

    jobs: Numbers = ()
    begun: bool = False
    fields: tuple[Name, ...] = ()


class AwaitMore(Message, frozen=True, kw_only=True, tag="await_more"):
    """Waits for these submissions too, once AwaitEnds was answered. No answer."""

    stream: Number
    jobs: Numbers


class Settle(Message, frozen=True, kw_only=True, tag="settle"):
    """-> {} when what a job that has ended, or an array, wrote on nodes that do not see its folder is here; or after a moment."""

    job: Number
