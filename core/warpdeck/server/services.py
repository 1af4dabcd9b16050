"""The state that all connections of the socket share, and that request handlers use."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, Protocol

import msgspec

from warpdeck.base.fair_semaphore import FairSemaphore
from warpdeck.base.paths import Paths
from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.controller.loop.controller import Controller
from warpdeck.model import JobId, NodeName
from warpdeck.ports.caller import Principal

from .command_host import CommandHost
from .forwards import ForwardTable
from .quotas import Quotas, StreamCounts
from .step_leases import StepLeases

MAX_LOOKS_BACK, MAX_LOOKS_BACK_OF_USER = 4, 2
"""Maximum numbers of requests for past node states.

Each asks the store and all nodes; a further one waits.
"""
MAX_PAGES, MAX_PAGES_OF_USER = 4, 2
"""Maximum numbers of pages of long answers that are built at once, overall and per user.

A page is built in slices, and short requests are answered between two slices.
"""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """A job's process on one of our nodes that opened this connection.

    `lost` is set if the connection ended because the link to the node broke, not because the process ended
    it.
    """

    job_id: JobId
    node: NodeName
    lost: asyncio.Event


class Client(Protocol):
    """The identity of a connection. `caller` is set for processes of jobs."""

    who: Principal
    caller: Caller | None


class Services(ABC):
    """The controller, and everything that is counted or kept over all connections."""

    def __init__(
        self, controller: Controller, trees: TreeFiles, paths: Paths, *, stop: asyncio.Event
    ) -> None:
        self.controller = controller
        self.trees = trees
        self.paths = paths
        self.stop = stop
        self.forwards = ForwardTable()
        self.started_at = controller.clock()
        self.quotas = Quotas()
        self.pages = FairSemaphore(MAX_PAGES, MAX_PAGES_OF_USER)
        self.steps = StepLeases(controller)
        self.commands = CommandHost()
        self.looks_back = FairSemaphore(MAX_LOOKS_BACK, MAX_LOOKS_BACK_OF_USER)
        self.reloads: set[asyncio.Task[Any]] = set()
        """Configuration changes that are in progress."""
        self.amending = asyncio.Lock()
        """Held while config.toml is changed and reloaded."""

    @property
    @abstractmethod
    def connections(self) -> Collection[StreamCounts]:
        """All connections."""

    @abstractmethod
    def of_user(self, uid: int) -> Collection[StreamCounts]:
        """Return the user's connections."""

    @abstractmethod
    async def serve_beside(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asker: Client
    ) -> None:
        """Serve a second connection with the identity of `asker`."""
