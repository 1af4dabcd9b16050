"""Answers of commands that a screen needs now and then, such as the reservations. They are kept for a while.

An answer that is too old is read anew if the allowance permits another request now. Otherwise the old one is shown.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.commands import SlurmCommands

from .answers import AnswerLost, Answers
from .poller import Poller
from .polling import Allowance
from .questions import COMMANDS, Question

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
    answers: Answers
    poller: Poller
    monotonic: Callable[[], float] = time.monotonic
    _kept: OrderedDict[tuple[str, ...], _Kept] = field(default_factory=OrderedDict)
    _changed: set[Question] = field(default_factory=set)
    """Questions whose answers a user has changed, so that Slurm itself is asked the next time."""
    _running: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def read(self, *argv: str, keep_s: float, rpcs: int = 1) -> str:
        """Return the output of a command. Raises UserError.

        `rpcs` is the number of requests to slurmctld that the command causes.
        """
        async with self._running:
            kept, now = self._kept.get(argv), self.monotonic()
            if kept is None or self._is_due(kept, now, keep_s, rpcs):
                self.allowance.count(rpcs, now)
                kept = await self._keep(argv, now, self.commands.read(*argv))
        return _text(kept)

    async def answer(self, question: Question, *, keep_s: float) -> str:
        """Return the answer to a question about the whole cluster. Raises UserError."""
        command = COMMANDS[question]
        async with self._running:
            kept, now = self._kept.get(command.argv), self.monotonic()
            is_shared = self.answers.are_shared(question) and question not in self._changed
            if kept is None or self._is_due(kept, now, keep_s, 0 if is_shared else command.rpcs):
                answer = self._open(question)
                kept = await self._keep(command.argv, now, answer)
        return _text(kept)

    async def _open(self, question: Question) -> str:
        is_own = question in self._changed
        self._changed.discard(question)
        with suppress(AnswerLost):
            if reading := await self.answers.open(question, is_own=is_own, any_age=True):
                return await reading.text()
        reading = await self.answers.open(question, is_own=True)
        assert reading is not None
        return await reading.text()

    async def _keep(self, argv: tuple[str, ...], now: float, read: Awaitable[str]) -> _Kept:
        try:
            answer: str | UserError = await read
        except UserError as error:
            answer = error
        kept = self._kept[argv] = _Kept(now, answer)
        self._kept.move_to_end(argv)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return kept

    def forget(self, *argv: str) -> None:
        """Read the command anew the next time, because a user has changed its answer."""
        self._kept.pop(argv, None)

    def forget_answer(self, question: Question) -> None:
        """Ask Slurm itself the next time, because a user has changed the answer."""
        self._changed.add(question)
        self.forget(*COMMANDS[question].argv)

    def _is_due(self, kept: _Kept, now: float, keep_s: float, rpcs: int) -> bool:
        limit_s = min(keep_s, MAX_ERROR_S) if isinstance(kept.answer, UserError) else keep_s
        if now - kept.at < limit_s:
            return False
        return self.allowance.wait_s(rpcs, looking=self.poller.looking, now=now) <= 0


def _text(kept: _Kept) -> str:
    if isinstance(kept.answer, UserError):
        raise kept.answer
    return kept.answer
