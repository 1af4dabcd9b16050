"""Looks at a single node a few times after a user has changed its state.

The nodes are read a few times in ten minutes only. A node that was down counts as down until slurmd has answered
slurmctld's next ping, which comes some seconds after the order.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.cluster.node_reading import told_reasons
from warpdeck.engines.slurm.cluster.polling import Allowance
from warpdeck.engines.slurm.cluster.questions import NODES
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.reading.node_table import flags_of, node_fields, partitions_of, read_nodes
from warpdeck.model import NodeName
from warpdeck.protocol.node_rows import NodeRow

PAUSES_S = (2.0, 4.0, 8.0, 16.0)
"""Seconds between the looks. Each costs one request; after the last one, the usual looks must suffice."""
MAX_FOLLOWED = 16
"""Maximum number of nodes that are looked at in this way at once. A script may resume hundreds."""
NODE_RPCS = 1
_UNSETTLED = frozenset({"down", "connecting"})


@dataclass(kw_only=True)
class NodeLooks:
    """Reads single nodes into the copy of the cluster. `monotonic` returns seconds of a clock that never jumps."""

    cluster: Cluster
    commands: SlurmCommands
    allowance: Allowance
    monotonic: Callable[[], float] = time.monotonic
    _followed: dict[NodeName, asyncio.Task[None]] = field(default_factory=dict, init=False)

    async def look(self, name: NodeName) -> NodeRow:
        """Read one node, and return its row. Raises UserError."""
        self._count(NODE_RPCS)
        text = await self.commands.read(*NODES, name)
        reasons = await told_reasons(self.commands, text, count=self._count)
        fields = node_fields(text, reasons)
        found = read_nodes(fields, at=self.cluster.clock())
        if not found:
            raise UserError(f"Slurm has no node {name} any more", "see `warpdeck node ls`", code="not_found")
        await self.cluster.put_node(found[0], partitions_of(fields), flags_of(fields))
        row = self.cluster.nodes.row(name)
        assert row is not None
        return row

    def _count(self, rpcs: int) -> None:
        self.allowance.count_action(rpcs, self.monotonic())

    def follow(self, name: NodeName) -> None:
        """Look at the node again until its state is settled, but only a few times."""
        if (before := self._followed.pop(name, None)) is not None:
            before.cancel()
        if len(self._followed) < MAX_FOLLOWED:
            task = self._followed[name] = asyncio.create_task(self._follow(name))
            task.add_done_callback(lambda ended: self._forget(name, ended))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """End all looks at the end of the block."""
        try:
            yield
        finally:
            tasks = list(self._followed.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, name: NodeName, task: asyncio.Task[None]) -> None:
        if self._followed.get(name) is task:
            del self._followed[name]

    async def _follow(self, name: NodeName) -> None:
        with suppress(UserError):  # The usual looks tell the problem.
            for pause_s in PAUSES_S:
                await asyncio.sleep(pause_s)
                if (await self.look(name)).state not in _UNSETTLED:
                    return
