"""Applies the controller's updates to the client state, and has them drawn."""

from __future__ import annotations

import time
from collections.abc import Callable

from warpdeck.protocol.results import Delta, Welcome
from warpdeck.protocol.site_rows import EngineRow
from warpdeck_tui.data.client_state import ClientState

from .desktop_notifications import DesktopNotifications
from .refresher import Refresher


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
        self._board.use_limits(welcome.impossible)
        self._board.restart()
        self._refresher.redraw()
        self._refresher.hurry()  # draw the first rows at once, without waiting for the refresh interval

    def told(self, delta: Delta) -> None:
        self._notifications.look(delta)
        self._board.apply(delta)
        cluster = self._board.cluster
        cluster.trend.note(cluster.totals.util_pct, time.time())
        self._begin()
        if delta.ready:
            self._on_ready()
        self._refresher.redraw_later()

    def looked(self, engine: EngineRow) -> None:
        self._board.use_engine(engine)
        self._refresher.redraw_later()

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
