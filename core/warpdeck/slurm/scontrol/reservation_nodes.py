"""Nodes and parts of nodes that `scontrol create|update reservation` selects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from warpdeck.base.cluster import ALL_NODES
from warpdeck.base.errors import UserError
from warpdeck.notation.filters.reservations import BadTres, Tres, parse_tres
from warpdeck.notation.values.hostlist import expand
from warpdeck.slurm.format.reservation_keys import (
    MAX_COUNT_DIGITS,
    ReservationRefused,
    ReservationSyntaxError,
)


def asked_tres(given: dict[str, str]) -> Tres:
    """Return the resources that TRES and NodeCnt request; 0 nodes means that the nodes are named.

    Raises ReservationSyntaxError.
    """
    try:
        tres = parse_tres(given.get("tres", ""))
    except BadTres as error:
        raise ReservationSyntaxError(error.message, alone=True) from error
    text = given.get("nodecnt", "")
    if not text:
        return tres
    digits, times = (text[:-1], 1024) if text[-1:] in "kK" else (text, 1)
    if not digits.isdecimal() or len(digits) > MAX_COUNT_DIGITS:
        raise ReservationSyntaxError(f"Invalid node count {text}.")
    return tres._replace(nodes=int(digits) * times)


def cores(given: dict[str, str]) -> list[int]:
    """Return the requested CPUs: one total, or one number per node. Raises ReservationSyntaxError."""
    text = given.get("corecnt", given.get("cpucnt", ""))
    if not text:
        tres = asked_tres(given)
        return [tres.cpus] if tres.cpus else []
    words = text.split(",")
    wrong = next((word for word in words if not word.isdecimal() or len(word) > MAX_COUNT_DIGITS), None)
    if wrong is not None:
        raise ReservationSyntaxError(f"Invalid core count {wrong}", alone=True)
    return [int(word) for word in words]


def chosen_nodes(
    client: Any,
    given: dict[str, str],
    *,
    count: int,
    times: tuple[float, float | None],
    own: Sequence[str] = (),
    name: str = "",
    of_parts: bool = False,
) -> list[str] | None:
    """Return the named nodes, or `count` nodes for the reservation; None stands for all nodes.

    With `count`, nodes in `own` are preferred, and nodes that other reservations hold in the given time are
    left out. With `of_parts` and without named nodes, the controller takes what it needs from the nodes
    returned.
    """
    if not count and given.get("nodes", "").upper() not in ("", "ALL"):
        return list(dict.fromkeys(expand(given["nodes"])))
    partition = given.get("partitionname") or (
        partition_of(client, given) if count or (of_parts and not given.get("nodes")) else ""
    )
    pool = pool_of(client, partition) if partition else None
    if given.get("features") and not given.get("nodes"):
        pool = [
            row["name"]
            for row in _with_features(client, given["features"])
            if pool is None or row["name"] in pool
        ]
    if not count:
        return pool
    taken = _taken(client, times, besides=name)
    rows = [row for row in client.call("nodes")["nodes"] if pool is None or row["name"] in pool]
    rows = [row for row in rows if row["name"] not in taken]
    if own and count <= len(own):  # If the reservation shrinks, it gives up its idle nodes first.
        mine = sorted(
            (row for row in rows if row["name"] in own), key=lambda row: (row["state"] != "idle", row["name"])
        )
        return [row["name"] for row in mine[len(mine) - count :]]
    # Prefer idle nodes, so that the reservation conflicts with as few jobs as possible.
    rows.sort(key=lambda row: (row["name"] not in own, row["state"] != "idle", row["name"]))
    if len(rows) < count:
        raise ReservationRefused("Requested node configuration is not available")
    return [row["name"] for row in rows[:count]]


def _with_features(client: Any, text: str) -> list[dict[str, Any]]:
    """Return the nodes that satisfy a feature expression with the syntax of --constraint. Raises ReservationRefused."""
    from warpdeck.policy.resources.features import with_features

    rows: list[dict[str, Any]] = client.call("nodes")["nodes"]
    known = {feature for row in rows for feature in row["features"]}
    unknown = next((word for word in re.split(r"[&|,()\[\]\s]+", text) if word and word not in known), "")
    if unknown:
        raise ReservationRefused(f"Invalid feature specification\nno node has the feature {unknown}")
    try:
        met = with_features(text, {row["name"]: frozenset(row["features"]) for row in rows})
    except UserError as error:
        raise ReservationRefused(f"Invalid feature specification\n{error.message}") from error
    return [row for row in rows if row["name"] in met]


def _taken(client: Any, times: tuple[float, float | None], *, besides: str) -> set[str]:
    """Return the nodes that other reservations hold in that time."""
    start, end = times
    meet = [
        row
        for row in client.call("reservations")["reservations"]
        if row["name"] != besides
        and (end is None or (row["start"] or 0.0) < end)
        and (row["end"] is None or row["end"] > start)
    ]
    return {name for row in meet for name in expand(row["node_list"])}


def partition_of(client: Any, given: dict[str, str]) -> str:
    """Return the partition from which counted nodes are taken, or "" if the site has none."""
    if "partitionname" in given:
        return given["partitionname"]
    parts = client.call("partitions")["partitions"]
    return next((row["name"] for row in parts if row["default"] and row["name"] != ALL_NODES), "")


def pool_of(client: Any, partition: str) -> list[str]:
    parts = client.call("partitions")["partitions"]
    own = next((expand(row["node_list"]) for row in parts if row["name"] == partition), None)
    if own is None:
        raise ReservationRefused("Invalid partition name specified")
    return own
