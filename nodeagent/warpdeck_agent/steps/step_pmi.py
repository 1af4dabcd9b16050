"""The PMI exchange of a step's ranks on this node, and its part that goes through the controller."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import Executor
from typing import Any, Callable, Dict, Sequence

from warpdeck_agent.launch.launch import LocalStep
from warpdeck_agent.supervisor.descriptor_store import DescriptorClient
from warpdeck_agent.tasks.pmi_exchange import PmiExchange
from warpdeck_agent.wire.steps import (
    FENCE_PIECE_BYTES,
    Pmi,
    StepFence,
    StepFenced,
    TaskEnded,
    pieces,
)

from .task_start import descriptor_name

NOTES = "pmi"
"""The file with the PMI messages of a step's ranks, one per line."""


class StepPmi:
    """The PMI exchanges of steps. `descriptors` keeps their ranks' connections for a later agent."""

    def __init__(self, tell: Callable[[Any], None], descriptors: DescriptorClient, pool: Executor) -> None:
        self._tell = tell
        self._descriptors = descriptors
        self._pool = pool

    def open(self, step: LocalStep, request: Pmi, ranks: Sequence[int]) -> None:
        """Begin the exchange of a step's ranks."""
        step.exchange = PmiExchange(
            request,
            ranks,
            send_fence=lambda number, values: self._tell_fence(step, number, values),
            lost=lambda rank, code, why: self._abort(step, rank, code, why),
            store=lambda message: _store(step, message),
        )

    def rejoin(self, step: LocalStep, request: Pmi, ranks: Sequence[int]) -> None:
        """Reconnect the step's ranks to this agent.

        The previous agent stored their PMI connections and messages.
        """
        kept = self._descriptors.take(descriptor_name(step))
        descriptors = {int(name.rpartition("/")[2]): line for name, line in kept.items()}
        lost = [rank for rank in ranks if step.tasks[rank].ended is None and rank not in descriptors]
        self.open(step, request, ranks)
        assert step.exchange is not None
        step.exchange.replay(descriptors, map(json.loads, step.folder.read_lines(NOTES)))
        for rank in ranks:
            ended = step.tasks[rank].ended
            if ended is not None:
                step.exchange.rank_ended(rank, *ended)
        if lost:
            self._abort(
                step, lost[0], 1, "the PMI connections of the ranks were lost when the agent restarted"
            )

    def fenced(self, step: LocalStep, message: StepFenced) -> None:
        """Handle the message that all ranks of a step have reached a fence."""
        if step.exchange is not None:
            step.exchange.fenced(message.number, message.values, last=message.last)

    def repeat_fences(self, step: LocalStep) -> None:
        """Repeat all fences to a controller that may not have received them."""
        if step.exchange is not None:
            step.exchange.repeat()

    def close(self, step: LocalStep) -> None:
        """End the exchange of a step that has ended."""
        if step.exchange is not None:
            step.exchange.close()
            self._pool.submit(self._descriptors.drop, descriptor_name(step))

    def _tell_fence(self, step: LocalStep, number: int, values: Dict[str, str]) -> None:
        parts = pieces(values, FENCE_PIECE_BYTES)
        for at, part in enumerate(parts, 1):
            meta = step.launch.meta
            self._tell(
                StepFence(
                    job_id=meta.job_id,
                    restarts=meta.restarts,
                    step=step.number,
                    number=number,
                    values=part,
                    last=at == len(parts),
                )
            )

    def _abort(self, step: LocalStep, rank: int, code: int, why: str) -> None:
        """Record that one of the step's ranks aborts the step or can no longer take part.

        Only the first abort counts.
        """
        if step.failure.abort is None and not step.progress.is_ending and not step.launch.end.cause:
            step.failure.abort = TaskEnded(rank, code=code)
            step.failure.message = why
            self._tell(step.report([]))


def _store(step: LocalStep, message: Dict[str, Any]) -> None:
    """Store a PMI message for an agent that is restarted.

    A full disk is no error. The ranks continue, but an agent that is restarted must end them.
    """
    with contextlib.suppress(OSError):
        step.folder.append(NOTES, json.dumps(message))
