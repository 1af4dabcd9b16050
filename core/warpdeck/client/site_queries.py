"""What is asked of a site, and changed of it, over a client's connection: its tables, who is owed what, what happened, its rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import Reservation
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import EventRow
from warpdeck.protocol.site_rows import PartitionRow, PriorityRow, QosRow, ReservationRow, ShareRow

from .client import Client


class Priorities(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that wait, highest first; `weights`: part -> the most that it can be."""

    jobs: list[PriorityRow]
    weights: dict[str, float] = {}
    queue_order: str = ""


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """The tree of accounts; `half_life_s` None: no use is forgotten."""

    shares: list[ShareRow]
    half_life_s: float | None = None


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    """What a new config.toml has changed, in words, and what in it may not be meant."""

    changes: list[str] = []
    warnings: list[str] = []


class _Partitions(msgspec.Struct, frozen=True):
    partitions: list[PartitionRow]


class _Reservations(msgspec.Struct, frozen=True):
    reservations: list[ReservationRow]


class _Qos(msgspec.Struct, frozen=True):
    qos: list[QosRow]


class _Events(msgspec.Struct, frozen=True):
    events: list[EventRow]


class SiteClient:
    """The site behind a client. Every call raises UserError."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def partitions(self) -> list[PartitionRow]:
        return (await self._client.request(ask.Partitions(), _Partitions)).partitions

    async def reservations(self) -> list[ReservationRow]:
        return (await self._client.request(ask.Reservations(), _Reservations)).reservations

    async def qos(self) -> list[QosRow]:
        return (await self._client.request(ask.QosList(), _Qos)).qos

    async def shares(self) -> Shares:
        return await self._client.request(ask.Shares(), Shares)

    async def priorities(self, jobs: Sequence[str] = ()) -> Priorities:
        """Of those jobs, or of all that wait."""
        return await self._client.request(ask.Priorities(ids=tuple(jobs)), Priorities)

    async def events(self) -> list[EventRow]:
        """What happened to jobs lately, the latest first."""
        return (await self._client.request(ask.Events(), _Events)).events

    async def reserve(self, wanted: Mapping[str, object], *, instead: bool) -> None:
        """Sets nodes aside (notation.reservations); `instead`: the reservation of that name becomes this one."""
        try:
            reservation = msgspec.convert(wanted, Reservation)
        except msgspec.ValidationError as error:
            name = wanted.get("name")
            raise UserError(
                f"{name!r} cannot be reserved so: {error}", "see `warpdeck reservation`"
            ) from error
        await self._client.request(
            ask.ReservationMake(reservation=reservation, instead=instead), dict[str, Any]
        )

    async def unreserve(self, name: str) -> None:
        await self._client.request(ask.ReservationRemove(name=name), dict[str, Any])

    async def reload(self) -> Reloaded:
        """config.toml is in force. The error "config" changes nothing and has all problems in its details."""
        return await self._client.request(ask.Reload(), Reloaded)
