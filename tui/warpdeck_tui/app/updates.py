"""Applies the controller's updates to the client state, and has them drawn."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.results import Delta, Welcome
from warpdeck.protocol.site_rows import EngineRow
from warpdeck_tui.data.client_state import ClientState

from .desktop_notifications import DesktopNotifications
from .refresher import Refresher

READINGS_S = 1.0
"""Seconds after which new readings, such as the utilization of a GPU, are drawn. Clocks are redrawn as often."""


def has_readings_only(delta: Delta, board: ClientState) -> bool:
    """Return whether only measurements differ from the client state, so that nobody waits for the redraw."""
    if not board.ready or delta.ready or delta.gone_jobs or delta.gone_nodes:
        return False
    return all(_is_reading(board.jobs.get(row.id), row) for row in delta.jobs) and all(
        _state_of(board.nodes.get(node.name)) == _state_of(node) for node in delta.nodes
    )


def _is_reading(before: JobRow | None, row: JobRow) -> bool:
    if before is None:
        return False
    again = msgspec.structs.replace(before, gpu_util_pct=row.gpu_util_pct, gpu_mem_bytes=row.gpu_mem_bytes)
    return again == row


def _state_of(node: NodeRow | None) -> object:
    """Return the facts of a node that are no measurements."""
    if node is None:
        return None
    held = [(gpu.index, gpu.job) for gpu in node.gpus]
    return node.state, node.reason, node.jobs, node.cpus_used, node.health, node.owner, held


class Updates:
    """Listener of the connection (`data.connection.Listener`).

    `load_later` is called once there is something to look at. It starts to load the remaining modules.
    `on_ready` is called when the complete state of a connection has arrived.
    """

    def __init__(
        self,
        board: ClientState,
        refresher: Refresher,
        notifications: DesktopNotifications,
        *,
        load_later: Callable[[], object],
        on_ready: Callable[[], object],
    ) -> None:
        self._board = board
        self._refresher = refresher
        self._notifications = notifications
        self._load_later = load_later
        self._on_ready = on_ready
        self._has_begun = False

    def linked(self, welcome: Welcome) -> None:
        self._board.user, self._board.away = welcome.user, ""
        self._board.use_limits(welcome.impossible, is_admin=welcome.admin)
        self._board.restart()
        self._refresher.redraw()
        self._refresher.hurry()  # draw the first rows at once, without waiting for the refresh interval

    def told(self, delta: Delta) -> None:
        self._notifications.look(delta)
        within_s = READINGS_S if has_readings_only(delta, self._board) else 0.0
        self._board.apply(delta)
        cluster = self._board.cluster
        cluster.trend.note(cluster.totals.util_pct, time.time())
        self._begin()
        if delta.ready:
            self._on_ready()
        self._refresher.redraw_later(within_s=within_s)

    def looked(self, engine: EngineRow) -> None:
        self._board.use_engine(engine)
        self._refresher.redraw_later(within_s=READINGS_S)

    def went_away(self, words: str) -> None:
        self._board.away = words
        self._refresher.redraw()
        self._begin()

    def came_back(self) -> None:
        self.went_away("")

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._load_later()
