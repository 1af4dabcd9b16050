"""The asyncio client's requests about the site: its tables, shares, priorities, events and configuration."""

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
    """The pending jobs, highest priority first. `weights` is the maximum of each part of the priority."""

    jobs: list[PriorityRow]
    weights: dict[str, float] = {}
    queue_order: str = ""


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """The tree of accounts. If `half_life_s` is None, past usage does not decay."""

    shares: list[ShareRow]
    half_life_s: float | None = None


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that a new config.toml has made, as text, and warnings about likely mistakes in it."""

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
        """Return the priorities of those jobs, or of all pending jobs."""
        return await self._client.request(ask.Priorities(ids=tuple(jobs)), Priorities)

    async def events(self) -> list[EventRow]:
        """Return recent events of jobs, the latest first."""
        return (await self._client.request(ask.Events(), _Events)).events

    async def reserve(self, wanted: Mapping[str, object], *, instead: bool) -> None:
        """Make a reservation of nodes (notation.reservations).

        With `instead` it replaces the one with the same name.
        """
        try:
            reservation = msgspec.convert(wanted, Reservation)
        except msgspec.ValidationError as error:
            name = wanted.get("name")
            raise UserError(f"invalid reservation {name!r}: {error}", "see `warpdeck reservation`") from error
        await self._client.request(
            ask.ReservationMake(reservation=reservation, instead=instead), dict[str, Any]
        )

    async def unreserve(self, name: str) -> None:
        await self._client.request(ask.ReservationRemove(name=name), dict[str, Any])

    async def reload(self) -> Reloaded:
        """Put config.toml into force.

        An error with the code "config" changes nothing and has all problems in its details.
        """
        return await self._client.request(ask.Reload(), Reloaded)
