"""Decides when which command may ask slurmctld again, so that the load stays below a fixed number of requests.

A command causes one or more requests (RPCs), as `sdiag` of the real daemons counts them. While nobody looks, all commands
together cause at most one request a minute; while somebody looks, at most six a minute, for all users of the gateway.
When slurmctld answers slowly, the intervals grow with the time that it takes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

LOOKING_RPCS_A_MINUTE = 6.0
IDLE_RPCS_A_MINUTE = 1.0
SLOW_SHARE = 0.02
"""Maximum share of the time for which slurmctld may be busy with our commands: an answer after 2 s is asked for again
after 100 s.
"""
MAX_INTERVAL_S = 600.0


class Source(StrEnum):
    """A command that reads a part of Slurm's state."""

    JOBS = "jobs"
    NODES = "nodes"


class Plan(NamedTuple):
    """The requests that a command causes, and its share of all requests while somebody looks."""

    rpcs: int
    share: float


PLANS = {Source.JOBS: Plan(rpcs=2, share=2 / 3), Source.NODES: Plan(rpcs=2, share=1 / 3)}
"""squeue asks for jobs and partitions, `scontrol show node` for nodes and partitions. Every second look is at the nodes."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """When a command was last started, and how long its answer took. Times are seconds of a monotonic clock."""

    started: float
    took_s: float


def interval_s(source: Source, last: Asked | None, *, looking: bool) -> float:
    """Return the number of seconds from one start of the command to the next."""
    plan = PLANS[source]
    allowed = (LOOKING_RPCS_A_MINUTE if looking else IDLE_RPCS_A_MINUTE) * plan.share
    usual = 60.0 * plan.rpcs / allowed
    return min(MAX_INTERVAL_S, max(usual, last.took_s / SLOW_SHARE if last else 0.0))


def due_in_s(source: Source, last: Asked | None, *, looking: bool, now: float) -> float:
    """Return the number of seconds until the command may run; 0 means now.

    The interval counts from the last start whoever looked at that time, so that opening and closing the app again and
    again does not cause more requests.
    """
    if last is None:
        return 0.0
    return max(0.0, last.started + interval_s(source, last, looking=looking) - now)


def rpcs_a_minute(*, looking: bool, asked: dict[Source, Asked]) -> float:
    """Return the rate of requests at the present intervals, which the app shows."""
    return sum(
        60.0 * PLANS[each].rpcs / interval_s(each, asked.get(each), looking=looking) for each in Source
    )
