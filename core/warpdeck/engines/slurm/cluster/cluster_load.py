"""Reads from sdiag how busy slurmctld is, so that the gateway asks less often while it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.reading.load_table import read_load

from .answers import Answers
from .polling import Allowance
from .questions import Question


@dataclass(frozen=True, kw_only=True)
class ClusterLoad:
    """A source that is read while somebody looks."""

    answers: Answers
    allowance: Allowance
    monotonic: Callable[[], float] = time.monotonic

    def is_needed(self) -> bool:
        return True

    async def read(self) -> None:
        """Read sdiag. A site may keep it from its users; then only the times of the answers count.

        Raises AnswerLost.
        """
        try:
            reading = await self.answers.open(Question.LOAD)
            if reading is None:
                return
            load = read_load(await reading.text())
        except UserError:
            load = None
        self.allowance.note_load(load, self.monotonic())
