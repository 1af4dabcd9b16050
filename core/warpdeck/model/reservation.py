"""Reservations that admins create at run time. Reservations of the configuration are in its tables. Times are
Unix seconds.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .ids import NodeName
from .request import MAX_NODES, Seconds, Text, UnixTime, Word

MAX_NAMES = 10_000
"""Maximum number of users or accounts in one reservation."""


Repeat = Literal["", "hourly", "daily", "weekday", "weekend", "weekly"]
PERIOD_S: dict[Repeat, int] = {
    "hourly": 3600,
    "daily": 86_400,
    "weekday": 86_400,
    "weekend": 86_400,
    "weekly": 7 * 86_400,
}
"""Minimum time from one occurrence to the next, in seconds."""


Replacement = Literal["", "down", "busy"]
"""The nodes of a reservation that are replaced by free ones, if the reservation was created for a number of
nodes.

"": nodes that are down, but only if all of them can be replaced. "down" (REPLACE_DOWN): as many of the nodes
that are down as possible. "busy" (REPLACE): also the nodes that run jobs.
"""


class ReservedPart(msgspec.Struct, frozen=True, kw_only=True):
    """The reserved part of one node. The rest of the node is open to all jobs."""

    node: NodeName
    cpus: Annotated[int, msgspec.Meta(ge=0)]
    gpus: tuple[tuple[str, Annotated[int, msgspec.Meta(ge=1)]], ...] = ()
    """Pairs of (GPU type in lower case, count). If empty, no GPUs are reserved and the reservation's jobs
    share the node's GPUs with all others.
    """


class PartsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The amount that a partial reservation requests. The controller chooses how much of each node to
    reserve.

    `cpus` is one total, or one number for each node. If it is empty and GPUs are requested, the reservation
    gets the GPUs' share of each node's CPUs. `chosen` means that the reservation needs only some of its
    nodes; `nodes` is their number if it was given.
    """

    cpus: Annotated[tuple[Annotated[int, msgspec.Meta(ge=0)], ...], msgspec.Meta(max_length=MAX_NODES)] = ()
    gpus: Annotated[int, msgspec.Meta(ge=0)] = 0
    gpu_type: str = ""
    chosen: bool = False
    nodes: Annotated[int, msgspec.Meta(ge=0, le=MAX_NODES)] = 0


class ReservationSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a reservation that the stored reservation, the planner's view and the row share."""

    name: str
    maintenance: bool = False
    overlap: bool = False
    """True if the reservation may overlap with other reservations. The reservation that begins first gets the
    nodes (OVERLAP).
    """
    repeat: Repeat = ""
    """The interval at which the reservation recurs with the same length until it is removed. The values are
    Slurm's HOURLY, DAILY, WEEKDAY, WEEKEND, WEEKLY.
    """
    magnetic: bool = False
    """True if jobs that may use the reservation and name no reservation are placed in it first (MAGNETIC)."""
    flex: bool = False
    """True if jobs of the reservation may also use other nodes and other times. The reservation then only keeps
    other jobs off its nodes (FLEX).
    """
    any_nodes: bool = False
    """True if jobs of the reservation are bound to the time, but not to the nodes (ANY_NODES)."""
    hold_jobs_after: bool = True
    """True if jobs that still wait for the reservation when it ends are held. Otherwise they become ordinary
    jobs (NO_HOLD_JOBS_AFTER_END).
    """
    float_s: Seconds | None = None
    """Seconds from now until the begin of the reservation. The begin moves with the clock, so the reservation
    never begins and serves no user. Only the difference of `start_unix` and `end_unix` is used, as its length
    (TIME_FLOAT).
    """
    purge_after_s: Seconds | None = None
    """The reservation ends after no job has run in it or waited for it for this many seconds (PURGE_COMP)."""
    node_count: Annotated[int, msgspec.Meta(ge=0, le=MAX_NODES)] = 0
    """The requested number of nodes, if the controller chose the nodes; 0 if they were named."""
    partition: str = ""
    """The partition from which the nodes were chosen."""
    replace: Replacement = ""
    static: bool = False
    """True if the chosen nodes are never replaced (STATIC_ALLOC)."""
    groups: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_NAMES)] = ()
    """The groups for which the reservation was created. The members of the groups are in `users`."""
    features: Word = ""
    """The features that the chosen nodes have, in the syntax of --constraint."""
    licenses: Annotated[
        tuple[tuple[Word, Annotated[int, msgspec.Meta(ge=1)]], ...], msgspec.Meta(max_length=100)
    ] = ()
    """Licenses that other jobs cannot use while the reservation is active."""
    first_cores: bool = False
    """True if the flag FIRST_CORES was given. The reservation has whole nodes, which include their first
    cores.
    """
    burst_buffer: Text = ""
    watts: Annotated[int, msgspec.Meta(ge=0, lt=2**32)] = 0
    max_start_delay_s: Seconds = 0
    """This field, `watts` and `burst_buffer` are only displayed, because there are no burst buffers and no
    power management.
    """
    parts: Annotated[tuple[ReservedPart, ...], msgspec.Meta(max_length=MAX_NODES)] = ()
    """The reserved part of each node; empty if the nodes are reserved as a whole."""


class Reservation(ReservationSpec, frozen=True, kw_only=True):
    """One reservation.

    If `nodes` is None, it covers all existing nodes. If `end_unix` is None, it lasts until it is removed. A
    reservation with `maintenance` has no users, or only users who test the nodes. It may overlap with other
    reservations and has precedence.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")]
    nodes: Annotated[tuple[NodeName, ...], msgspec.Meta(max_length=MAX_NODES)] | None = None
    start_unix: UnixTime
    end_unix: UnixTime | None = None
    users: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_NAMES)] = ()
    accounts: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_NAMES)] = ()
    deny_users: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_NAMES)] = ()
    deny_accounts: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_NAMES)] = ()
    """Users and accounts that may not use the reservation. All others may use it, unless `users` and
    `accounts` restrict it.
    """
    idle_since_unix: UnixTime | None = None
    """Unix time since which no job has used the reservation. It is recorded only if `purge_after_s` needs
    it.
    """
    asked: PartsRequest | None = None
    """The requested parts, until the controller has chosen them. It is never set in a stored reservation."""
