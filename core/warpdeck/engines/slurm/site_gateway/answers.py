"""The answers that the site gateway keeps, and the decision when to ask Slurm for newer ones.

Slurm is asked only when a user's gateway asks, one command at a time, and never more often than the settings allow for all
users together. All gateways that ask for the same thing get the same answer.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
import zlib
from collections.abc import Callable
from contextlib import aclosing
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.cluster import polling
from warpdeck.engines.slurm.cluster.polling import MINUTE_S, QUESTIONS, Allowance, Source
from warpdeck.engines.slurm.cluster.questions import COMMANDS, Question, form_of
from warpdeck.engines.slurm.commands import SlurmCommands, new_mark
from warpdeck.engines.slurm.reading.config_table import read_config
from warpdeck.engines.slurm.reading.load_table import read_load

from .policy_age import PolicyAge
from .privacy import withheld
from .wire import MAX_REASON, Asked, Outcome, Reply, cluster_of

log = logging.getLogger("warpdeck.site_gateway")

POLICY = (Question.CONFIG, Question.PARTITIONS)
"""The questions about the settings that hide parts of the cluster. They are read before anything else (`policy_age`)."""
KEEP_S = 120.0
"""Seconds for which other answers are kept, such as the reservations."""
WAIT_S = 8.0
"""Maximum seconds for which a question waits for Slurm. After that, the reply is that there is nothing new."""
RESERVED_RPCS = 2
"""Requests that remain after an early look. Otherwise, a user who asks again and again would delay the usual looks."""
RETRY_S, MAX_RETRY_S = 5.0, 60.0
LEVEL = 1
"""The fastest compression. squeue pads its fields, so even this makes its output ten times smaller."""
ALL_PARTITIONS = ("scontrol", "--all", "--oneliner", "show", "partition")
"""Shows the hidden partitions as well. Without such partitions, its output is that of Question.PARTITIONS."""
SOURCES = {question: source for source, question in QUESTIONS.items()}


class Kept(NamedTuple):
    """An answer. Times are seconds of a monotonic clock."""

    begun: float
    took_s: float
    mark: str
    parts: tuple[bytes, ...]
    """The compressed output."""


class Failure(NamedTuple):
    """An error of Slurm since the last answer."""

    since: float
    last: float
    times: int
    error: UserError


class Turns:
    """The questions that are due, in the order in which they became due. Times are seconds of a monotonic clock.

    The requests of those that are first are kept free. Otherwise, questions with few requests would always be faster.
    """

    def __init__(self) -> None:
        self._due: dict[Question, tuple[float, float]] = {}
        """The time since when each is due, and the time at which it was asked last."""

    def ahead_of(self, question: Question, *, is_due: bool, now: float) -> int:
        """Return the requests of the questions that come before this one."""
        self._due = {each: at for each, at in self._due.items() if now - at[1] < MINUTE_S}
        since = math.inf
        if is_due:
            since, _ = self._due.get(question, (now, now))
            self._due[question] = since, now
        return sum(COMMANDS[each].rpcs for each, (first, _) in self._due.items() if first < since)

    def has_begun(self, question: Question) -> None:
        self._due.pop(question, None)


class SiteAnswers:
    """The answers to all questions. `monotonic` returns seconds of a clock that never jumps."""

    def __init__(
        self,
        commands: SlurmCommands,
        allowance: Allowance,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._commands = commands
        self._allowance = allowance
        self._monotonic = monotonic
        self._kept: dict[Question, Kept] = {}
        self._failed: dict[Question, Failure] = {}
        self._running: dict[Question, asyncio.Task[None]] = {}
        self._turns = Turns()
        self._policy_age = PolicyAge(commands.environ.get("SLURM_CONF", ""))
        self._one_at_a_time = asyncio.Lock()
        self._looked: float | None = None
        """Time of the last question of a user who looks at the cluster."""
        self._config: dict[str, str] = {}
        self._withheld: dict[Question, str] = {}

    async def reply(self, asked: Asked) -> tuple[Reply, Kept | None]:
        """Return the first line of the reply, and the answer if it is to be sent."""
        question = next((each for each in Question if each == asked.question), None)
        if question is None or asked.form != form_of(question):
            return self._reply(Outcome.OTHER_VERSION, reason="it is another version of warpdeck"), None
        now = self._monotonic()
        if asked.looking:
            self._looked = now
        await self._policy_age.look(now)
        if self._policy_age.is_unsettled(now) and self._is_due(Question.CONFIG, asked, now):
            self._start(Question.CONFIG)
        if self._is_due(question, asked, now):
            self._start(question)
        running = self._running.get(question)
        if running is not None and not self._is_newer(question, asked):
            await asyncio.wait({running}, timeout=WAIT_S)
        return self._found(question, asked, now)

    @property
    def is_busy(self) -> bool:
        """Whether a command runs now."""
        return bool(self._running)

    async def close(self) -> None:
        """End the commands that run."""
        running = [*self._running.values()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def _found(self, question: Question, asked: Asked, asked_at: float) -> tuple[Reply, Kept | None]:
        now = self._monotonic()
        if reason := self._withheld.get(question):
            return self._reply(Outcome.WITHHELD, reason=reason), None
        # The question waited, so the client's answer has become older in the meantime.
        if self._is_newer(question, asked, waited_s=now - asked_at):
            kept = self._kept[question]
            reply = self._reply(
                Outcome.ANSWER,
                age_s=now - kept.begun,
                took_s=kept.took_s,
                mark=kept.mark,
                size_bytes=sum(map(len, kept.parts)),
            )
            return reply, kept
        if failure := self._failed.get(question):
            error = failure.error
            reply = self._reply(
                Outcome.PROBLEM,
                reason=error.message[:MAX_REASON],
                hint=error.hint[:MAX_REASON],
                age_s=now - failure.since,
            )
            return reply, None
        return self._reply(Outcome.NOTHING_NEW), None

    def _reply(
        self,
        outcome: Outcome,
        *,
        reason: str = "",
        hint: str = "",
        age_s: float = 0.0,
        took_s: float = 0.0,
        mark: str = "",
        size_bytes: int = 0,
    ) -> Reply:
        return Reply(
            outcome=outcome,
            reason=reason,
            hint=hint,
            cluster=cluster_of(self._config),
            requests_a_minute=float(self._allowance.sent(self._monotonic())),
            age_s=age_s,
            took_s=took_s,
            mark=mark,
            size_bytes=size_bytes,
        )

    def _is_newer(self, question: Question, asked: Asked, *, waited_s: float = 0.0) -> bool:
        """Return whether there is an answer that the client does not have yet."""
        kept = self._kept.get(question)
        if kept is None:
            return False
        return asked.newer_than_s is None or self._monotonic() - kept.begun < asked.newer_than_s + waited_s

    def _is_looking(self, now: float) -> bool:
        return self._looked is not None and now - self._looked < MINUTE_S

    def _is_policy_old(self, now: float) -> bool:
        read = [self._kept.get(each) for each in POLICY]
        max_age_s = self._policy_age.max_age_s(now)
        return any(kept is None or now - kept.begun >= max_age_s for kept in read)

    def _is_due(self, question: Question, asked: Asked, now: float) -> bool:
        """Return whether Slurm is to be asked now."""
        is_policy_old = self._is_policy_old(now)
        if question in self._running or (question in self._withheld and not is_policy_old):
            return False
        if (failure := self._failed.get(question)) is not None:
            pause_s = min(MAX_RETRY_S, RETRY_S * 2 ** (failure.times - 1))
            if now - failure.last < pause_s:
                return False
        is_early = asked.urgent and question in (Question.QUEUE, Question.NODES)
        is_usual = self._is_usual_time(question, now)
        if not is_usual and not is_early:
            return False
        ahead = self._turns.ahead_of(question, is_due=is_usual, now=now)
        rpcs = COMMANDS[question].rpcs + (len(POLICY) if is_policy_old else 0) + ahead
        rpcs += 0 if is_usual else RESERVED_RPCS
        return self._allowance.wait_s(rpcs, looking=self._is_looking(now), now=now) <= 0

    def _is_usual_time(self, question: Question, now: float) -> bool:
        """Return whether the last answer is as old as the settings provide for."""
        kept = self._kept.get(question)
        if question in POLICY:
            return self._is_policy_old(now)
        if kept is None:
            return True
        source = SOURCES.get(question)
        if source is None:
            return now - kept.begun >= KEEP_S
        last = polling.Asked(started=kept.begun, took_s=kept.took_s)
        allowed = self._allowance.allowed(looking=self._is_looking(now), now=now)
        wanted = source is Source.LOAD and polling.is_load_wanted(
            self._longest_s(), last, factor=self._allowance.load_factor(now), now=now
        )
        return polling.due_in_s(source, last, allowed=allowed, urgent=wanted, now=now) <= 0

    def _longest_s(self) -> float:
        """Return the duration of the slowest of the newest answers."""
        return max((kept.took_s for kept in self._kept.values()), default=0.0)

    def _start(self, question: Question) -> None:
        self._turns.has_begun(question)
        task = asyncio.create_task(self._run(question))
        self._running[question] = task
        task.add_done_callback(lambda _: self._running.pop(question, None))

    async def _run(self, question: Question) -> None:
        """Read the answer, and before it the policy if that is old. An error is kept for the clients."""
        try:
            async with self._one_at_a_time:
                if self._is_policy_old(self._monotonic()):
                    await self._read_policy()
                if question not in self._withheld and question not in POLICY:
                    await self._read(question)
        except UserError as error:
            self._note_failure(question, error)
        except Exception:
            log.exception("a bug stopped a look at Slurm")
            self._note_failure(
                question, UserError("the site gateway failed because of a bug of warpdeck", "see its log")
            )
        else:
            self._failed.pop(question, None)

    def _note_failure(self, question: Question, error: UserError) -> None:
        now, before = self._monotonic(), self._failed.get(question)
        since, times = (before.since, before.times) if before else (now, 0)
        self._failed[question] = Failure(since, now, min(times + 1, 10), error)
        log.warning("%s: %s", question, error.message)

    async def _read_policy(self) -> None:
        """Read the configuration and all partitions, and decide which answers are the same for all users."""
        config = read_config(_text(await self._ask(Question.CONFIG, COMMANDS[Question.CONFIG].words(""))))
        partitions = await self._ask(Question.PARTITIONS, [*ALL_PARTITIONS])
        self._config = config
        self._policy_age.note_config(config)
        found = withheld(config, _text(partitions))
        for question in found.keys() - self._withheld.keys():
            log.info("%s is not shared: %s", question, found[question])
        self._withheld = found
        for question in found.keys() - set(POLICY):
            self._kept.pop(question, None)

    async def _read(self, question: Question) -> None:
        mark = new_mark()
        kept = await self._ask(question, COMMANDS[question].words(mark), mark=mark)
        if question is Question.LOAD:
            self._allowance.note_load(read_load(_text(kept)), self._monotonic())

    async def _ask(self, question: Question, argv: list[str], *, mark: str = "") -> Kept:
        """Run a command and keep its output. Raises UserError."""
        begun, packer, parts = self._monotonic(), zlib.compressobj(LEVEL), list[bytes]()
        self._allowance.count(COMMANDS[question].rpcs, begun)
        async with aclosing(self._commands.pieces(argv)) as pieces:
            async for text in pieces:
                parts.append(packer.compress(text.encode()))
                await asyncio.sleep(0)
        parts.append(packer.flush())
        packed = tuple(part for part in parts if part)
        kept = self._kept[question] = Kept(begun, self._monotonic() - begun, mark, packed)
        return kept


def _text(kept: Kept) -> str:
    return zlib.decompress(b"".join(kept.parts)).decode()
