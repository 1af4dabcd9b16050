"""The tables of the site that the scheduler is asked for: partitions, reservations, QoS, shares and priorities."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from warpdeck.notation.values.hostlist import expand
from warpdeck.protocol import requests, results
from warpdeck.protocol.request_base import RequestMessage
from warpdeck.protocol.site_rows import PartitionRow, ReservationRow
from warpdeck_tui.viewmodels.site import site_tables as tables

from .server_requests import Core

REQUESTS: dict[str, RequestMessage[Any]] = {
    "partitions": requests.Partitions(),
    "reservations": requests.Reservations(),
    "qos": requests.QosList(),
    "accounts": requests.Shares(),
    "priorities": requests.Priorities(),
}
"""The request for the rows of each table."""


class SiteData:
    """The last answers. A table that was not asked for yet is empty."""

    def __init__(self) -> None:
        self._answers: dict[str, Any] = {
            "partitions": results.PartitionList(partitions=[]),
            "reservations": results.ReservationList(reservations=[]),
            "qos": results.QosLevels(qos=[]),
            "accounts": results.ShareTree(shares=[]),
            "priorities": results.PriorityList(jobs=[]),
        }

    async def ask(self, core: Core, table: str) -> None:
        self._answers[table] = await core.ask(REQUESTS[table])

    @property
    def partitions(self) -> list[PartitionRow]:
        answer: results.PartitionList = self._answers["partitions"]
        return answer.partitions

    @property
    def reservations(self) -> list[ReservationRow]:
        answer: results.ReservationList = self._answers["reservations"]
        return answer.reservations

    @property
    def qos(self) -> results.QosLevels:
        answer: results.QosLevels = self._answers["qos"]
        return answer

    @property
    def shares(self) -> results.ShareTree:
        answer: results.ShareTree = self._answers["accounts"]
        return answer

    @property
    def priorities(self) -> results.PriorityList:
        answer: results.PriorityList = self._answers["priorities"]
        return answer

    def rows(self, table: str, *, now: float) -> Sequence[tables.Row]:
        """Return the rows of a table."""
        match table:
            case "partitions":
                return tables.partition_rows(self.partitions)
            case "reservations":
                return tables.reservation_rows(self.reservations, now=now)
            case "qos":
                return tables.qos_rows(self.qos.qos)
            case "accounts":
                return tables.account_rows(self.shares.shares)
            case _:
                return tables.priority_rows(self.priorities.jobs)

    def words(self, table: str, key: str) -> str:
        """Return a description of the row with this key, or "" if there is none."""
        match table:
            case "partitions":
                return next((tables.partition_words(row) for row in self.partitions if row.name == key), "")
            case "reservations":
                row = self.reservation(key)
                return tables.reservation_words(row, now=time.time()) if row is not None else ""
            case "qos":
                return next((tables.qos_words(each) for each in self.qos.qos if each.name == key), "")
            case "accounts":
                shares, half = self.shares.shares, self.shares.half_life_s
                found = (each for each in shares if tables.share_key(each) == key)
                return next((tables.share_words(each, shares, half_life_s=half) for each in found), "")
            case _:
                jobs, weights = self.priorities.jobs, self.priorities.weights
                found_jobs = (each for each in jobs if str(each.number or each.label) == key)
                return next((tables.priority_words(each, weights) for each in found_jobs), "")

    def reservation(self, key: str) -> ReservationRow | None:
        return next((row for row in self.reservations if row.name == key), None)

    def node_names(self, table: str, key: str) -> Sequence[str]:
        """Return the nodes of the row with this key."""
        if table == "reservations":
            found = self.reservation(key)
            return expand(found.node_list) if found is not None and found.node_list else ()
        partitions = self.partitions if table == "partitions" else ()
        return next((expand(row.node_list) for row in partitions if row.name == key and row.node_list), ())
