"""The answers to questions about the whole cluster: from the site gateway where one serves, else from Slurm itself.

Slurm itself answers through slurmrestd if the user's settings name one, and through its commands otherwise.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from warpdeck.engines.slurm.commands import Record, SlurmCommands, new_mark, records_of
from warpdeck.engines.slurm.reading.marked_table import Column

from .polling import Allowance
from .questions import COMMANDS, Question


class AnswerLost(Exception):
    """The site gateway has ended while its answer was read. Slurm itself is asked the next time."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """An answer that is being read. Times are seconds of a monotonic clock."""

    begun: float
    """Time at which its command was started."""
    took_s: float | None = None
    """Duration of its command; None if it still runs."""
    mark: str
    """The end of each field, if the answer is a table of squeue."""
    pieces: AsyncGenerator[str, None]

    async def text(self) -> str:
        """Return the whole answer. Raises UserError or AnswerLost."""
        async with aclosing(self.pieces) as pieces:
            return "".join([text async for text in pieces])

    def records(self, columns: Sequence[Column]) -> AsyncGenerator[list[Record], None]:
        """Yield the records of a table. Raises UserError, MalformedTable or AnswerLost."""
        return records_of(self.pieces, columns, self.mark)


class SharedAnswers(Protocol):
    """Answers that another process has read for all users."""

    def serves(self, question: Question) -> bool:
        """Return whether it is worth asking now."""
        ...

    async def ask(
        self, question: Question, *, newer_than: float | None, looking: bool, is_urgent: bool
    ) -> Reading | None:
        """Return an answer, or None if there is none yet. Its command was started after `newer_than`.

        Raises UserError if Slurm does not answer.
        """
        ...


class RestAnswers(Protocol):
    """Answers of slurmrestd, which is asked with the user's token."""

    def rpcs(self, question: Question) -> int:
        """Return the number of requests to slurmctld that an answer causes."""
        ...

    def serves(self, question: Question) -> bool:
        """Return whether it is to be asked now."""
        ...

    async def read(self, question: Question) -> Reading | None:
        """Return a complete answer, or None if the commands are to be run instead."""
        ...


class Answers:
    """Opens answers, and counts the requests of those that come from Slurm itself."""

    def __init__(
        self,
        commands: SlurmCommands,
        allowance: Allowance,
        *,
        shared: SharedAnswers | None = None,
        rest: RestAnswers | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._commands = commands
        self._allowance = allowance
        self._shared = shared
        self._rest = rest
        self._monotonic = monotonic
        self._newest: dict[Question, float] = {}
        """Times at which the commands of the newest complete answers were started."""
        self.is_looking: Callable[[], bool] = lambda: True

    def are_shared(self, question: Question) -> bool:
        """Return whether the next answer will come from the site gateway, which costs no request of ours."""
        return self._shared is not None and self._shared.serves(question)

    async def open(
        self,
        question: Question,
        *,
        is_urgent: bool = False,
        is_own: bool = False,
        any_age: bool = False,
    ) -> Reading | None:
        """Return an answer, or None if the site gateway has no newer one than the last. Raises UserError.

        `is_own` asks Slurm itself, because the answer shall show the result of a user's action. With `any_age`, an
        answer that was read before is returned again.
        """
        if self._shared is None or is_own or not self._shared.serves(question):
            return await self._own(question)
        found = await self._shared.ask(
            question,
            newer_than=None if any_age else self._newest.get(question),
            looking=self.is_looking(),
            is_urgent=is_urgent,
        )
        return None if found is None else self._noted(question, found)

    async def _own(self, question: Question) -> Reading:
        if self._rest is not None and self._rest.serves(question):
            self._allowance.count(self._rest.rpcs(question), self._monotonic())
            if (found := await self._rest.read(question)) is not None:
                return self._noted(question, found)
        command, mark, begun = COMMANDS[question], new_mark(), self._monotonic()
        self._allowance.count(command.rpcs, begun)
        pieces = self._commands.pieces(command.words(mark))
        return self._noted(question, Reading(begun=begun, mark=mark, pieces=pieces))

    def _noted(self, question: Question, reading: Reading) -> Reading:
        """Return the reading. When it was read to its end, the next one must be newer."""

        async def pieces() -> AsyncGenerator[str, None]:
            async with aclosing(reading.pieces) as source:
                async for text in source:
                    yield text
                    await asyncio.sleep(0)
            self._newest[question] = max(reading.begun, self._newest.get(question, reading.begun))

        return Reading(begun=reading.begun, took_s=reading.took_s, mark=reading.mark, pieces=pieces())
