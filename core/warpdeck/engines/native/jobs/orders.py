"""Orders for jobs. Each is applied to many jobs in batches, and the refused jobs are reported."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import (
    Cancelled,
    CodeRecorded,
    CommentUpdated,
    Event,
    Held,
    NotifyJob,
    Released,
    Requeued,
    Resumed,
    StepEndRequested,
    Suspended,
    Updated,
)
from warpdeck.controller.reducers.comment_update import check_rights
from warpdeck.controller.state.state import State
from warpdeck.engines.native.outcomes import Apply
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.model import JobId
from warpdeck.notation.values.job_ids import is_job_id, parse_job_id
from warpdeck.notation.values.signals import parse_signal
from warpdeck.ports.caller import Caller, Principal
from warpdeck.ports.engine import JobOrder
from warpdeck.ports.store import Store
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results

from .submissions import NativeSubmissions

ORDERED_AT_ONCE = 100
"""Maximum number of jobs named in one event.

Each takes about a millisecond if it is an array with many records.
"""
EVENT_OF: dict[type[JobOrder], tuple[Callable[..., Event], tuple[str, ...]]] = {
    ask.Hold: (Held, ("for_owner",)),
    ask.Release: (Released, ()),
    ask.Requeue: (Requeued, ("hold", "special_exit", "unfinished_only")),
    ask.Pause: (partial(Requeued, saves=True), ("hold", "saving_s")),
    ask.Tell: (NotifyJob, ("text",)),
    ask.Suspend: (Suspended, ()),
    ask.Resume: (Resumed, ()),
    ask.JobUpdate: (Updated, ("change",)),
}
"""The event of each order, and the fields of the request that the event takes over."""


@dataclass(frozen=True, kw_only=True)
class NativeOrders:
    """The `EngineOrders` of the controller."""

    state: State
    store: Store
    apply: Apply
    lookup: JobLookup
    submissions: NativeSubmissions

    async def change(self, caller: Caller, message: JobOrder) -> results.Changed:
        event, fields = EVENT_OF[type(message)]
        order = partial(event, **{name: getattr(message, name) for name in fields})
        return await self._change(caller.who, message.jobs, order)

    async def record_code(self, caller: Caller, message: ask.CodeRecorded) -> results.Changed:
        snapshot = self.submissions.uploaded(caller.who, message.snapshot)
        order = partial(CodeRecorded, snapshot=snapshot, note=message.note)
        return await self._change(caller.who, message.jobs, order)

    async def cancel(self, caller: Caller, message: ask.Cancel) -> results.Canceled:
        number = parse_signal(message.signal) if message.signal else 0
        jobs = [word for word in message.jobs if "." not in word]
        done: list[str] = []
        parts: dict[str, dict[str, str]] = {}
        refused: list[tuple[str, str, str]] = []
        for word in message.jobs:
            if "." in word:
                try:
                    await self.apply(await self._step_end(caller.who, word, number))
                    done.append(word)
                except UserError as error:
                    refused.append((word, error.line, error.code))
        if jobs:
            order = partial(Cancelled, signal=number, target=message.whom, waiting_only=message.waiting_only)
            outcome = await self._on_each(caller.who, jobs, order)
            done += outcome.labels
            parts = outcome.parts
            refused += zip(outcome.refused, outcome.errors, outcome.codes, strict=True)
        if len(message.jobs) == 1 and refused:
            raise UserError(refused[0][1], code=refused[0][2])
        return results.Canceled(
            jobs=done,
            refused=[word for word, _, _ in refused],
            errors=[error for _, error, _ in refused],
            codes=[code for _, _, code in refused],
            parts=parts,
        )

    async def annotate(self, caller: Caller, message: ask.JobAnnotate) -> results.Result:
        known, who = self.state.jobs, caller.who
        ids = tuple(JobId(number) for number in message.ids)
        wanted = message.annotating.changed_fields()
        if not wanted:
            raise UserError("nothing to change", "give a comment or a derived exit code")
        ended = await self.store.jobs([number for number in ids if number not in known])
        if message.only_asks:
            for job in (*ended, *(known[number] for number in ids if number in known)):
                check_rights(who, job, wanted)
        else:
            await self.apply(
                CommentUpdated(principal=who, ids=ids, ended=tuple(ended), changes=message.annotating)
            )
        return results.Result()

    async def _change(
        self, who: Principal, references: Sequence[str], order: Callable[..., Event]
    ) -> results.Changed:
        outcome = await self._on_each(who, references, order)
        if outcome.errors and not outcome.labels:
            parts = outcome.parts.get(outcome.refused[0], {})
            raise UserError("; ".join(outcome.errors), code=outcome.codes[0], details=parts)
        return results.Changed(
            jobs=[*outcome.labels],
            errors=[*outcome.errors],
            parts=outcome.parts,
            refused=[*outcome.refused],
            codes=[*outcome.codes],
        )

    async def _on_each(
        self, who: Principal, references: Sequence[str], order: Callable[..., Event]
    ) -> Outcome:
        """Apply an order to all of these jobs in batches, so that other requests are served in between."""
        named = tuple(dict.fromkeys(references))
        done = []
        for at in range(0, len(named), ORDERED_AT_ONCE):
            some = named[at : at + ORDERED_AT_ONCE]
            numbers = [JobId(parse_job_id(word)[0]) for word in some if is_job_id(word)]
            event = order(principal=who, jobs=some, ended=await self.lookup.finished(numbers))
            done.append(await self.apply(event))
        return Outcome(
            labels=tuple(chain.from_iterable(each.labels for each in done)),
            errors=tuple(chain.from_iterable(each.errors for each in done)),
            codes=tuple(chain.from_iterable(each.codes for each in done)),
            refused=tuple(chain.from_iterable(each.refused for each in done)),
            parts=dict(ChainMap(*(each.parts for each in done))),
        )

    async def _step_end(self, who: Principal, word: str, signal: int) -> StepEndRequested:
        job_word, _, number = word.rpartition(".")
        if not number.isdecimal():
            raise UserError(f"{word!r} is not a step that can be canceled", "use JOB.STEP, such as 12.0")
        job = await self.lookup.find(job_word)
        return StepEndRequested(principal=who, job_id=job.id, number=int(number), signal=signal)
