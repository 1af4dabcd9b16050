"""Nodes that an admin has set aside at run time; those of the configuration are in its own tables. Times in unix seconds."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .ids import NodeName
from .request import MAX_NODES, Moment, Word

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


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """`nodes` None: whatever nodes there are; `end_unix` None: until it is removed. `maintenance`: for nobody, or for
    who tries the nodes; it may overlap with others and goes before them."""

    name: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")]
    nodes: Annotated[tuple[NodeName, ...], msgspec.Meta(max_length=MAX_NODES)] | None = None
    start_unix: Moment
    end_unix: Moment | None = None
    users: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_NAMES)] = ()
    accounts: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_NAMES)] = ()
    maintenance: bool = False
    overlap: bool = False
    """It may overlap with others: whichever begins first has the nodes (OVERLAP)."""
    repeat: Repeat = ""
    """It comes again, with the same length, until it is removed: Slurm's HOURLY, DAILY, WEEKDAY, WEEKEND, WEEKLY."""
