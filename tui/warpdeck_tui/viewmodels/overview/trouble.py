"""Nodes that accept no jobs: those that are down, and those that were drained by an administrator or a health check.

The events of nodes in the last day follow them.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpdeck.protocol.node_rows import NodeEventRow, NodeRow
from warpdeck_tui.viewmodels.cells import Cell, age, plural
from warpdeck_tui.viewmodels.nodes.timeline import SIGNS, WORDS
from warpdeck_tui.widgets.cell_grid import node_role
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.columns import Column

from .links import MOST_ROWS, Link, PanelRows, Row, heading

COLUMNS = (
    Column("NODE", 8, flex=1, most=16),
    Column("STATE", 8),
    Column("FOR", 5, align="right"),
    Column("JOBS", 4, rank=2, align="right"),
    Column("REASON", 0, flex=4),
)
MOST_EVENTS = 30
TROUBLE = ("down", "drain", "fail", "unknown")
"""The beginnings of the states in which a node accepts no jobs although it should."""


def nodes_in_trouble(nodes: Iterable[NodeRow], events: Iterable[NodeEventRow], now: float) -> PanelRows:
    """Return the nodes in trouble, those that are down first, and then the events, the latest first."""
    found = [node for node in nodes if node.state.startswith(TROUBLE)]
    found.sort(key=lambda node: (not node.state.startswith("down"), -(_since(node) or 0.0), node.name))
    down = sum(node.state.startswith("down") for node in found)
    words = ", ".join(
        f"{count} {word}" for count, word in ((down, "down"), (len(found) - down, "drained")) if count
    )
    title = (
        Cell("Nodes in trouble", "title"),
        Cell(f"  {words}" if words else "", "warn" if down else "PENDING"),
    )
    rows = [_row(node, now) for node in found[:MOST_ROWS]]
    late = [_event(event, now) for event in events if event.kind in WORDS][-MOST_EVENTS:]
    if late:
        rows += [heading("events", ""), *reversed(late)]
    return PanelRows(title, rows, "All nodes accept jobs")


def _since(node: NodeRow) -> float | None:
    """Return the time since which the node is in trouble. For a node that is down, it is that of its last reading."""
    return node.at if node.state.startswith("down") and node.at is not None else node.reason_at


def _row(node: NodeRow, now: float) -> Row:
    since = _since(node)
    reason = printable(node.reason)
    if not reason and node.state.startswith("down"):
        reason = "no connection"
    checks = [check.check for check in node.health if check.verdict == "fail" and check.gpu is None]
    by = f" ({plural(len(checks), 'failed check')}: {', '.join(checks)})" if checks else ""
    cells = (
        Cell(printable(node.name), "accent"),
        Cell(node.state, node_role(node.state)),
        Cell("?" if since is None else age(now - since)),
        Cell(str(len(node.jobs)) if node.jobs else "·", "" if node.jobs else "muted"),
        Cell(reason + by, "muted"),
    )
    return Link("node", node.name).key, cells


def _event(event: NodeEventRow, now: float) -> Row:
    """Return the row of an event. It opens the map of GPUs at that time."""
    gpus = f"{plural(event.gpus, 'GPU')}  " if event.gpus else ""
    cells = (
        Cell(printable(event.node)),
        Cell(WORDS[event.kind], SIGNS[event.kind][1]),
        Cell(age(now - event.at), "muted"),
        Cell(""),
        Cell(gpus + printable(event.text), "muted"),
    )
    return Link("map", f"{event.at:.0f} {event.node}").key, cells
