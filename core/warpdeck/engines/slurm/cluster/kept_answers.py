"""Answers of commands that a screen needs now and then, such as the reservations. They are kept for a while.

An answer that is too old is read anew if the allowance permits another request now. Otherwise the old one is shown.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.commands import SlurmCommands

from .poller import Poller
from .polling import Allowance

MAX_KEPT = 200
"""Maximum number of answers in memory."""
MAX_ERROR_S = 60.0
"""Seconds after which a command that has failed is tried again."""


class _Kept(NamedTuple):
    at: float
    answer: str | UserError


@dataclass(kw_only=True)
class KeptAnswers:
    """Runs reading commands. `monotonic` returns seconds of a clock that never jumps."""

    commands: SlurmCommands
    allowance: Allowance
    poller: Poller
    monotonic: Callable[[], float] = time.monotonic
    _kept: OrderedDict[tuple[str, ...], _Kept] = field(default_factory=OrderedDict)
    _running: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def read(self, *argv: str, keep_s: float, rpcs: int = 1) -> str:
        """Return the output of a command. Raises UserError.

        `rpcs` is the number of requests to slurmctld that the command causes.
        """
        async with self._running:
            kept, now = self._kept.get(argv), self.monotonic()
            if kept is None or self._is_due(kept, now, keep_s, rpcs):
                self.allowance.count(rpcs, now)
                try:
                    answer: str | UserError = await self.commands.read(*argv)
                except UserError as error:
                    answer = error
                kept = self._kept[argv] = _Kept(now, answer)
                self._kept.move_to_end(argv)
                while len(self._kept) > MAX_KEPT:
                    self._kept.popitem(last=False)
        if isinstance(kept.answer, UserError):
            raise kept.answer
        return kept.answer

    def forget(self, *argv: str) -> None:
        """Read the command anew the next time, because a user has changed its answer."""
        self._kept.pop(argv, None)

    def _is_due(self, kept: _Kept, now: float, keep_s: float, rpcs: int) -> bool:
        limit_s = min(keep_s, MAX_ERROR_S) if isinstance(kept.answer, UserError) else keep_s
        if now - kept.at < limit_s:
            return False
        return self.allowance.wait_s(rpcs, looking=self.poller.looking, now=now) <= 0
