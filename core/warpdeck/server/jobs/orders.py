"""Handles orders for jobs: applies each to many jobs in batches, and reports the jobs that were refused."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import (
    Cancelled,
    CodeRecorded,
    Event,
    Held,
    NotifyJob,
    Outcome,
    Released,
    Requeued,
    Resumed,
    StepEndRequested,
    Suspended,
    Updated,
)
from warpdeck.model import JobId
from warpdeck.notation.values.job_ids import is_job_id, parse_job_id
from warpdeck.notation.values.signals import parse_signal
from warpdeck.protocol import requests as ask
from warpdeck.protocol.request_base import OnJobs
from warpdeck.server.connection import Connection
from warpdeck.server.queries.job_lookup import find_job, finished_jobs

from .submissions import uploaded

ORDERED_AT_ONCE = 100
"""Maximum number of jobs named in one event.

Each takes about a millisecond if it is an array with many records.
"""
EVENT_OF: dict[type[OnJobs], tuple[Callable[..., Event], tuple[str, ...]]] = {
    ask.Hold: (Held, ("for_owner",)),
    ask.Release: (Released, ()),
    ask.Requeue: (Requeued, ("hold", "special_exit", "unfinished_only")),
    ask.Tell: (NotifyJob, ("text",)),
    ask.Suspend: (Suspended, ()),
    ask.Resume: (Resumed, ()),
    ask.JobUpdate: (Updated, ("change",)),
}
"""The event of each order, and the fields of the request that the event takes over."""


async def change(connection: Connection, message: OnJobs) -> dict[str, Any]:
    """Apply an order of EVENT_OF. Raises UserError if it was refused for all jobs."""
    event, fields = EVENT_OF[type(message)]
    order = partial(event, **{name: getattr(message, name) for name in fields})
    return await _change(connection, message.jobs, order)


async def record_code(connection: Connection, message: ask.CodeRecorded) -> dict[str, Any]:
    """Record the code of jobs that wait for it. Raises UserError."""
    snapshot = uploaded(connection, message.snapshot)
    order = partial(CodeRecorded, snapshot=snapshot, note=message.note)
    return await _change(connection, message.jobs, order)


async def cancel(connection: Connection, message: ask.Cancel) -> dict[str, Any]:
    """Cancel jobs and job steps ("12.0")."""
    number = parse_signal(message.signal) if message.signal else 0
    jobs = [word for word in message.jobs if "." not in word]
    done: list[str] = []
    parts: dict[str, dict[str, str]] = {}
    refused: list[tuple[str, str, str]] = []
    for word in message.jobs:
        if "." in word:
            try:
                await connection.server.controller.apply(await _step_end(connection, word, number))
                done.append(word)
            except UserError as error:
                refused.append((word, error.line, error.code))
    if jobs:
        order = partial(Cancelled, signal=number, target=message.whom, waiting_only=message.waiting_only)
        outcome = await _on_each(connection, jobs, order)
        done += outcome.labels
        parts = outcome.parts
        refused += zip(outcome.refused, outcome.errors, outcome.codes, strict=True)
    if len(message.jobs) == 1 and refused:
        raise UserError(refused[0][1], code=refused[0][2])
    names, errors, codes = zip(*refused, strict=True) if refused else ((), (), ())
    return {"jobs": done, "refused": names, "errors": errors, "codes": codes, "parts": parts}


async def _change(
    connection: Connection, references: Sequence[str], order: Callable[..., Event]
) -> dict[str, Any]:
    outcome = await _on_each(connection, references, order)
    if outcome.errors and not outcome.labels:
        parts = outcome.parts.get(outcome.refused[0], {})
        raise UserError("; ".join(outcome.errors), code=outcome.codes[0], details=parts)
    return {"jobs": list(outcome.labels), "errors": list(outcome.errors), "parts": outcome.parts}


async def _on_each(connection: Connection, references: Sequence[str], order: Callable[..., Event]) -> Outcome:
    """Apply an order to all of these jobs in batches, so that other requests are served in between."""
    named = tuple(dict.fromkeys(references))
    done = []
    for at in range(0, len(named), ORDERED_AT_ONCE):
        some = named[at : at + ORDERED_AT_ONCE]
        numbers = [JobId(parse_job_id(word)[0]) for word in some if is_job_id(word)]
        event = order(principal=connection.who, jobs=some, ended=await finished_jobs(connection, numbers))
        done.append(await connection.server.controller.apply(event))
    return Outcome(
        labels=tuple(chain.from_iterable(each.labels for each in done)),
        errors=tuple(chain.from_iterable(each.errors for each in done)),
        codes=tuple(chain.from_iterable(each.codes for each in done)),
        refused=tuple(chain.from_iterable(each.refused for each in done)),
        parts=dict(ChainMap(*(each.parts for each in done))),
    )


async def _step_end(connection: Connection, word: str, signal: int) -> StepEndRequested:
    job_word, _, number = word.rpartition(".")
    if not number.isdecimal():
        raise UserError(f"{word!r} is not a step that can be canceled", "use JOB.STEP, such as 12.0")
    job = await find_job(connection, job_word)
    return StepEndRequested(principal=connection.who, job_id=job.id, number=int(number), signal=signal)
