"""The tables of the "Site" screen, and the actions that apply only to some of them."""

from __future__ import annotations

from typing import NamedTuple

from warpdeck_tui.viewmodels.site import site_tables as tables
from warpdeck_tui.viewmodels.site.events import COLUMNS as EVENT_COLUMNS
from warpdeck_tui.viewmodels.site.rules import KINDS
from warpdeck_tui.viewmodels.site.what_if import COLUMNS
from warpdeck_tui.widgets.columns import Column


class Tab(NamedTuple):
    """A table of the site: its title, its columns, its text when empty, and the command that prints it.

    `advice` is added to the text of an empty table if the action `advised` is possible.
    """

    title: str
    columns: tuple[Column, ...]
    empty: str
    command: str
    advice: str = ""
    advised: str = ""


TABS = {
    "partitions": Tab("Partitions", tables.PARTITION_COLUMNS, "No partitions", "partitions"),
    "reservations": Tab(
        "Reservations",
        tables.RESERVATION_COLUMNS,
        "No reservations",
        "reservations",
        "Press n to create one",
        "new",
    ),
    "qos": Tab("QoS", tables.QOS_COLUMNS, "No QoS", "qos", "Press n to create one", "new"),
    "accounts": Tab(
        "Shares",
        tables.ACCOUNT_COLUMNS,
        "No accounts, so fair share is off",
        "share",
        "Press E to edit config.toml",
        "config",
    ),
    "priorities": Tab("Priorities", tables.PRIORITY_COLUMNS, "No pending jobs", "prio"),
    "drains": Tab("Drains", tables.DRAIN_COLUMNS, "No nodes", "nodes", "Press A to add one", "add"),
    "events": Tab("Events", EVENT_COLUMNS, "No events", ""),
    "what-if": Tab(
        "What if",
        COLUMNS,
        "No simulation",
        "simulate --history",
        "Press w to replay past jobs with more GPUs, another policy or other weights",
        "what_if",
    ),
}
NAMES = tuple(TABS)
FORMS = ("reservations", *KINDS)
USED_WITH = {
    "new": FORMS,
    "change": FORMS,
    "remove": FORMS,
    "drain": ("drains",),
    "filter": ("events",),
    "map_then": ("events",),
}
"""Maps actions that apply only to some tables to the names of these tables."""
