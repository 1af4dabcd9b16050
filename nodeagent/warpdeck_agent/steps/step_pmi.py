"""The PMI exchange of a step's ranks on this node, and its part that goes through the controller."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import Executor
from typing import Any, Callable, Dict, Sequence

from warpdeck_agent.launch.launch import Step
from warpdeck_agent.supervisor.descriptor_store import Lines
from warpdeck_agent.tasks.pmi_exchange import Exchange
from warpdeck_agent.wire.steps import (
    FENCE_PIECE_BYTES,
    Pmi,
    StepFence,
    StepFenced,
    TaskEnded,
    pieces,
)

from .task_start import line_name

NOTES = "pmi"
"""The file with the PMI messages of a step's ranks, one per line."""


class StepPmi:
    """The PMI exchanges of steps. `lines` keeps their ranks' connections for a later agent."""

    def __init__(self, tell: Callable[[Any], None], lines: Lines, pool: Executor) -> None:
        self._tell = tell
        self._lines = lines
        self._pool = pool

    def open(self, step: Step, request: Pmi, ranks: Sequence[int]) -> None:
        """Begin the exchange of a step's ranks."""
        step.exchange = Exchange(
            request,
            ranks,
            fence=lambda number, values: self._tell_fence(step, number, values),
            lost=lambda rank, code, why: self._abort(step, rank, code, why),
            note=lambda said: _store(step, said),
        )

    def rejoin(self, step: Step, request: Pmi, ranks: Sequence[int]) -> None:
        """Reconnect the step's ranks to this agent.

        The previous agent stored their PMI connections and messages.
        """
        kept = self._lines.take(line_name(step))
        lines = {int(name.rpartition("/")[2]): line for name, line in kept.items()}
        lost = [rank for rank in ranks if step.tasks[rank].ended is None and rank not in lines]
        self.open(step, request, ranks)
        assert step.exchange is not None
        step.exchange.replay(lines, map(json.loads, step.folder.read_lines(NOTES)))
        for rank in ranks:
            ended = step.tasks[rank].ended
            if ended is not None:
                step.exchange.ended(rank, *ended)
        if lost:
            self._abort(
                step, lost[0], 1, "the PMI connections of the ranks were lost when the agent restarted"
            )

    def fenced(self, step: Step, said: StepFenced) -> None:
        """Handle the message that all ranks of a step have reached a fence."""
        if step.exchange is not None:
            step.exchange.fenced(said.number, said.values, last=said.last)

    def repeat_fences(self, step: Step) -> None:
        """Repeat all fences to a controller that may not have received them."""
        if step.exchange is not None:
            step.exchange.repeat()

    def close(self, step: Step) -> None:
        """End the exchange of a step that has ended."""
        if step.exchange is not None:
            step.exchange.close()
            self._pool.submit(self._lines.drop, line_name(step))

    def _tell_fence(self, step: Step, number: int, values: Dict[str, str]) -> None:
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

    def _abort(self, step: Step, rank: int, code: int, why: str) -> None:
        """Record that one of the step's ranks aborts the step or can no longer take part.

        Only the first abort counts.
        """
        if step.failure.abort is None and not step.progress.is_ending and not step.launch.end.cause:
            step.failure.abort = TaskEnded(rank, code=code)
            step.failure.message = why
            self._tell(step.report([]))


def _store(step: Step, said: Dict[str, Any]) -> None:
    """Store a PMI message.

    On a full disk the ranks continue; only a restarted agent would then have to end them.
    """
    with contextlib.suppress(OSError):
        step.folder.append(NOTES, json.dumps(said))
