"""PMI fences of steps that run on several nodes.

At a fence, the ranks of a step exchange key-value pairs. The controller collects the pairs that the ranks of
each node have put, and sends the union to all nodes. The data is kept only in memory. Agents repeat their
last two fences on every new connection. A node that missed a completed fence therefore gets it again, and a
restarted controller collects the data again. Fences of different steps are separate, and messages of a node
on which the step does not run are ignored. The agent's part is in its module `pmi_exchange`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from warpdeck.controller.events.effects import Effect
from warpdeck.controller.events.events import BroadcastFence, KillStep
from warpdeck.controller.state.state import State
from warpdeck.model import JobId, NodeName
from warpdeck.model.step import Step
from warpdeck_agent.wire.steps import FENCE_PIECE_BYTES, StepFence, StepFenced, pieces

log = logging.getLogger("warpdeck.steps")

MAX_NODE_BYTES = 8 * 1024 * 1024
"""Maximum number of bytes that the ranks of a node may put before one fence, on average over the nodes.

Agents enforce a lower limit.
"""
MAX_FENCES = 2
"""Number of fences kept per step: the current one, and the one before it for nodes that have missed it."""
StepKey = tuple[JobId, int, int]


@dataclass
class _FenceData:
    values: dict[str, str] = field(default_factory=dict)
    size_bytes: int = 0
    complete: set[NodeName] = field(default_factory=set)
    """Nodes that have sent all of their pairs."""


class Fences:
    """The fences of all steps."""

    def __init__(self) -> None:
        self._steps: dict[StepKey, dict[int, _FenceData]] = {}

    def handle(self, node: NodeName, message: StepFence, state: State) -> list[Effect]:
        """Handle a fence message of a node and return the effects that follow."""
        step = state.steps.get(JobId(message.job_id), {}).get(message.step)
        if step is None or step.is_finished or step.restarts != message.restarts:
            return []
        if node not in step.node_names():
            return []
        known = self._of(step, state)
        if known and message.number < max(known) - 1:
            return []
        data = known.setdefault(message.number, _FenceData())
        for number in sorted(known)[:-MAX_FENCES]:
            del known[number]
        for key, value in message.values.items():
            data.size_bytes += len(value) + (0 if key in data.values else len(key))
            data.size_bytes -= len(data.values.get(key, ""))
        data.values.update(message.values)
        if data.size_bytes > MAX_NODE_BYTES * len(step.shares):
            log.warning("step %s: its ranks exchange too much data at a fence; ending the step", step.label())
            return _end(step)
        if not message.last:
            return []
        is_repeated = node in data.complete and len(data.complete) == len(step.shares)
        data.complete.add(node)
        if len(data.complete) < len(step.shares):
            return []
        return _broadcast(step, message.number, data, to=[node] if is_repeated else list(step.node_names()))

    def _of(self, step: Step, state: State) -> dict[int, _FenceData]:
        """Return the fences of this step. When the step is new, the fences of finished steps are dropped."""
        key = (step.job_id, step.restarts, step.number)
        if key not in self._steps:
            self._steps = {old: kept for old, kept in self._steps.items() if _runs(old, state)}
            self._steps[key] = {}
        return self._steps[key]


def _runs(key: StepKey, state: State) -> bool:
    step = state.steps.get(key[0], {}).get(key[2])
    return step is not None and not step.is_finished and step.restarts == key[1]


def _end(step: Step) -> list[Effect]:
    return [
        KillStep(node=name, job_id=step.job_id, restarts=step.restarts, number=step.number)
        for name in step.node_names()
    ]


def _broadcast(step: Step, number: int, data: _FenceData, *, to: list[NodeName]) -> list[Effect]:
    parts = pieces(data.values, FENCE_PIECE_BYTES)
    return [
        BroadcastFence(
            node=name,
            message=StepFenced(
                job_id=step.job_id,
                restarts=step.restarts,
                step=step.number,
                number=number,
                values=part,
                last=at == len(parts),
            ),
        )
        for name in to
        for at, part in enumerate(parts, 1)
    ]
