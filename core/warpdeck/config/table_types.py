"""The base class of the tables of config.toml, and the types of keys that several tables have."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

MAX_COUNT = 2**53
"""Floats cannot represent all integers above this."""
MAX_SECONDS = 10**9
"""30 years; a larger number is a mistake."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=MAX_COUNT)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)]
CheckSeconds = Annotated[float, msgspec.Meta(ge=1, le=MAX_SECONDS)]
WholeSeconds = Annotated[int, msgspec.Meta(ge=0, le=MAX_SECONDS)]
Names = tuple[str, ...]
Private = Literal["accounts", "events", "jobs", "nodes", "partitions", "reservations", "usage", "users"]
"""A subject of Slurm's PrivateData."""
PreemptMode = Literal["", "off", "requeue", "suspend", "cancel"]
"""Action on a preempted job; "" leaves the choice to the more general setting."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of all tables of config.toml."""
