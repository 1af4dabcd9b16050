"""Nodes that an admin has set aside at run time; those of the configuration are in its own tables. Times in unix seconds."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .ids import NodeName
from .request import MAX_NODES, Moment, Seconds, Text, Word

MAX_NAMES = 10_000
"""Users or accounts of one reservation."""


Repeat = Literal["", "hourly", "daily", "weekday", "weekend", "weekly"]
PERIOD_S: dict[Repeat, int] = {
    "hourly": 3600,
    "daily": 86_400,
    "weekday": 86_400,
    "weekend": 86_400,
    "weekly": 7 * 86_400,
}
"""The least time from one occurrence to the next."""


Replacement = Literal["", "down", "busy"]
"""Which nodes of a reservation of so many nodes give way to others that are free: none but those that are down, where all of
these can be replaced; those that are down, as far as they can (REPLACE_DOWN); those that run jobs, too (REPLACE)."""


class ReservedPart(msgspec.Struct, frozen=True, kw_only=True):
    """What is set aside of one node; everybody has the rest of it."""

    node: NodeName
    cpus: Annotated[int, msgspec.Meta(ge=0)]
    gpus: tuple[tuple[str, Annotated[int, msgspec.Meta(ge=1)]], ...] = ()
    """(type in small letters, how many); () names none: its jobs share those of the node with everybody."""


class PartsAsked(msgspec.Struct, frozen=True, kw_only=True):
    """So much is asked for; the controller finds out how much of which node that is.

    `cpus`: in all, or of each node; () with GPUs is their share of the node. `chosen`: not all nodes of the reservation are
    meant but some of these, `nodes` of them if that is said.
    """

    cpus: Annotated[tuple[Annotated[int, msgspec.Meta(ge=0)], ...], msgspec.Meta(max_length=MAX_NODES)] = ()
    gpus: Annotated[int, msgspec.Meta(ge=0)] = 0
    gpu_type: str = ""
    chosen: bool = False
    nodes: Annotated[int, msgspec.Meta(ge=0, le=MAX_NODES)] = 0


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """`nodes` None: whatever nodes there are; `end_unix` None: until it is removed. `maintenance`: for nobody, or for
    who tries the nodes; it may overlap with others and goes before them."""

    name: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")]
    nodes: Annotated[tuple[NodeName, ...], msgspec.Meta(max_length=MAX_NODES)] | None = None
    start_unix: Moment
    end_unix: Moment | None = None
    users: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_NAMES)] = ()
    accounts: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_NAMES)] = ()
    deny_users: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_NAMES)] = ()
    deny_accounts: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_NAMES)] = ()
    """Everybody but these, as far as `users` and `accounts` name nobody."""
    maintenance: bool = False
    overlap: bool = False
    """It may overlap with others: whichever begins first has the nodes (OVERLAP)."""
    repeat: Repeat = ""
    """It comes again, with the same length, until it is removed: Slurm's HOURLY, DAILY, WEEKDAY, WEEKEND, WEEKLY."""
    magnetic: bool = False
    """Jobs that may use it and name no reservation are tried in it first (MAGNETIC)."""
    flex: bool = False
    """Its jobs are bound neither to its nodes nor to its time; it only keeps others off (FLEX)."""
    any_nodes: bool = False
    """Its jobs are bound to its time, and not to its nodes (ANY_NODES)."""
    hold_jobs_after: bool = True
    """Jobs that still wait for it when it is over wait on, held; else they run like any other (NO_HOLD_JOBS_AFTER_END)."""
    float_s: Seconds | None = None
    """It begins in so long from now, for ever, and is for nobody; of start and end only the length counts (TIME_FLOAT)."""
    purge_after_s: Seconds | None = None
    """It ends once no job has run in it or waited for it for so long (PURGE_COMP)."""
    idle_since_unix: Moment | None = None
    """Since when no job has, as far as that is asked for."""
    node_count: Annotated[int, msgspec.Meta(ge=0, le=MAX_NODES)] = 0
    """So many nodes were asked for, and these were chosen; 0: they were named."""
    partition: str = ""
    """From whose nodes they were chosen."""
    replace: Replacement = ""
    static: bool = False
    """The nodes that were chosen stay (STATIC_ALLOC)."""
    parts: Annotated[tuple[ReservedPart, ...], msgspec.Meta(max_length=MAX_NODES)] = ()
    """So much of each of its nodes; () is the nodes as a whole."""
    asked: PartsAsked | None = None
    """What the parts are to be, until they are found: never of one that is kept."""
    groups: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_NAMES)] = ()
    """It was made for their members, who are its `users`."""
    features: Word = ""
    """What the nodes that were chosen have, as --constraint says it."""
    licenses: Annotated[
        tuple[tuple[Word, Annotated[int, msgspec.Meta(ge=1)]], ...], msgspec.Meta(max_length=100)
    ] = ()
    """Those that others do without in its time."""
    first_cores: bool = False
    """Of nodes that it has whole: so it has their first cores, too (FIRST_CORES)."""
    burst_buffer: Text = ""
    watts: Annotated[int, msgspec.Meta(ge=0, lt=2**32)] = 0
    max_start_delay_s: Seconds = 0
    """These three are told, and do nothing: there are no burst buffers here, and nobody minds power."""
