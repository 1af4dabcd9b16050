"""Asks the agents for their measurements of a past time.

An agent keeps one day: ten minutes by the second, two hours by ten seconds, the rest by the minute. Processes on the
GPUs that belong to no job are kept by the minute. All nodes are asked at the same time, each with one small message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from warpdeck.base.chunking import in_slices
from warpdeck.base.errors import RemoteError
from warpdeck.controller.state.measurements import to_gpu_reading
from warpdeck.controller.state.state import replace
from warpdeck.engines.shared.past_nodes import NOTHING, PastAnswer
from warpdeck.model import GpuProcess, GpuReading, Node, NodeName, NodeReading
from warpdeck.ports.ports import Fleet
from warpdeck_agent.wire import messages as wire

ASKED_A_TURN = 25
"""Number of nodes asked at once. Sending takes a few milliseconds, and reading their answers as many."""


@dataclass(frozen=True, kw_only=True)
class AgentMeasurements:
    """The `PastMeasurements` of the agents. A node that does not answer in time has none, with the reason."""

    fleet: Fleet

    async def read(self, nodes: Sequence[Node], at_unix: float) -> list[PastAnswer]:
        """Ask all nodes at the same time.

        They are asked in small batches, so that not all answers arrive at once.
        """
        loop = asyncio.get_running_loop()

        def begin(some: Sequence[Node]) -> list[asyncio.Task[PastAnswer]]:
            return [loop.create_task(self._asked(node.name, at_unix)) for node in some]

        return list(await asyncio.gather(*await in_slices(nodes, begin, rows=ASKED_A_TURN)))

    async def _asked(self, name: NodeName, at_unix: float) -> PastAnswer:
        try:
            return _told(await self.fleet.past_state(name, at_unix=at_unix))
        except RemoteError as error:
            return NOTHING._replace(unknown=f"{name} does not answer: {error.cause}")


def _told(moment: wire.Moment) -> PastAnswer:
    strangers = {each.index: each for each in moment.strangers}
    measured = {gpu.index: gpu for gpu in moment.gpus}
    gpus = tuple(
        _gpu_reading(measured.get(index, wire.GpuSample(index)), strangers.get(index, wire.Strangers(index)))
        for index in sorted({*strangers, *measured})
    )
    return PastAnswer(
        reading=NodeReading(at_unix=moment.begin_unix, cpu_pct=0.0, mem_used_bytes=0, gpus=gpus),
        seen=frozenset(strangers),
        begin_unix=moment.begin_unix,
        step_s=moment.step_s,
        since_unix=moment.since_unix,
        cpu_pct=moment.cpu_pct,
        mem_used_bytes=moment.mem_used_bytes,
    )


def _gpu_reading(gpu: wire.GpuSample, seen: wire.Strangers) -> GpuReading:
    users = seen.mem_bytes.items()
    return replace(
        to_gpu_reading(gpu),
        processes=tuple(GpuProcess(pid=0, user=user, mem_bytes=mem_bytes) for user, mem_bytes in users),
        unexplained_bytes=seen.unexplained_bytes,
    )
