"""The state that all connections of the socket share, and that request handlers use."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any

from warpdeck.base.fair_semaphore import FairSemaphore
from warpdeck.base.paths import Paths
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine import Engine

from .audit.log_file import AuditLog
from .audit.recorder import Recorder
from .command_host import CommandHost
from .forwards import ForwardTable
from .loop_time import LoopTime
from .quotas import Quotas, StreamCounts

MAX_LOOKS_BACK, MAX_LOOKS_BACK_OF_USER = 4, 2
"""Maximum numbers of requests for past node states.

Each asks the store and all nodes; a further one waits.
"""
MAX_PAGES, MAX_PAGES_OF_USER = 16, 2
"""Maximum numbers of pages of long answers that are built at once, overall and per user.

A page is built in slices, and short requests are answered between two slices. A user who has to wait between two slices
(loop_time) keeps the slot, so there are more slots than a few such users can hold.
"""


class Services(ABC):
    """The engine, and everything that is counted or kept over all connections.

    `clock` returns Unix seconds.
    """

    def __init__(
        self, engine: Engine, paths: Paths, *, stop: asyncio.Event, clock: Callable[[], float]
    ) -> None:
        self.engine = engine
        self.paths = paths
        self.stop = stop
        self.clock = clock
        self.forwards = ForwardTable()
        self.started_at = clock()
        self.quotas = Quotas()
        self.loop_time = LoopTime()
        self.pages = FairSemaphore(MAX_PAGES, MAX_PAGES_OF_USER)
        self.commands = CommandHost()
        self.audit_searches = FairSemaphore(1, 1)
        self.audit = Recorder(AuditLog(paths.home), clock)
        self.looks_back = FairSemaphore(MAX_LOOKS_BACK, MAX_LOOKS_BACK_OF_USER)
        self.reloads: set[asyncio.Task[Any]] = set()
        """Configuration changes that are in progress."""

    @property
    @abstractmethod
    def connections(self) -> Collection[StreamCounts]:
        """All open connections of clients."""

    @abstractmethod
    def of_user(self, uid: int) -> Collection[StreamCounts]:
        """Return the user's connections."""

    @abstractmethod
    async def serve_beside(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, caller: Caller
    ) -> None:
        """Serve a second connection with the identity of a client that is already connected."""
