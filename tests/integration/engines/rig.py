"""The rig of a test of an engine: the engine with its users, and the client ends of streams."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import WAIT_S

from warpdeck.base.errors import UserError
from warpdeck.model import Request
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine import Engine
from warpdeck.ports.engine_streams import ByteSource, RunningStep, StreamEnd
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import JobDetail, JobRow
from warpdeck.protocol.results import LogOpened
from warpdeck_agent.client.keys import SIZE, keys_frame
from warpdeck_agent.wire.steps import EVERY_TASK, TASK_HEADER


@dataclass(frozen=True, kw_only=True)
class Rig:
    """A running engine with one node.

    Jobs of `user` really run. `other` is another user, and `folder` a folder in which `user` may write.
    """

    engine: Engine
    user: Caller
    other: Caller
    admin: Caller
    node: str
    folder: Path

    def request(self, script: str, **fields: Any) -> Request:
        """Return a request for a batch job with these lines."""
        made = {"name": "job", "submit_dir": str(self.folder), "env": {"PATH": "/usr/bin:/bin"}, **fields}
        return Request(script=f"#!/bin/sh\n{script}\n", **made)

    async def submit(self, script: str, **fields: Any) -> str:
        """Submit a job of the user and return its label."""
        message = ask.Submit(request=self.request(script, **fields))
        return (await self.engine.submissions.submit(self.user, message)).label

    async def held(self, **fields: Any) -> str:
        """Submit a job that does not start, and return its label."""
        return await self.submit("true", hold=True, **fields)

    async def detail(self, job: str) -> JobDetail:
        return await self.engine.jobs.detail(self.user, ask.JobInfo(job=job))

    async def state(self, job: str) -> str:
        return (await self.detail(job)).row.state

    async def cancel(self, *jobs: str, caller: Caller | None = None) -> Any:
        return await self.engine.orders.cancel(caller or self.user, ask.Cancel(jobs=jobs))

    async def reached(self, job: str, *, start: bool = False) -> None:
        """Wait until the job has ended, or with `start` until it runs."""
        feed = self.engine.jobs.ends(self.user, ask.AwaitEnds(jobs=(int(job),), begun=start))
        try:
            async with asyncio.timeout(WAIT_S), contextlib.aclosing(feed.messages()) as messages:
                async for message in messages:
                    if message.done or (start and message.begun):
                        return
        finally:
            feed.close()

    async def until(self, job: str, reached: Callable[[JobRow], bool]) -> None:
        """Wait until the job's row satisfies the condition."""
        changes = self.engine.jobs.changes(self.user, ask.Subscribe(topics=("jobs",)))
        async with asyncio.timeout(WAIT_S), contextlib.aclosing(changes):
            async for build in changes:
                if any(row.label == job and reached(row) for row in (await build()).jobs):
                    return

    async def ran(self, script: str, **fields: Any) -> str:
        """Return a job that has ended."""
        job = await self.submit(script, **fields)
        await self.reached(job)
        return job

    async def running(self, script: str = "sleep 600", **fields: Any) -> str:
        """Return a job that runs until it is canceled."""
        job = await self.submit(script, **fields)
        await self.reached(job, start=True)
        return job


@dataclass
class Client:
    """A client's end of a stream: a ByteSink and StepSink that keeps all data."""

    is_open: bool = True
    log: LogOpened | None = None
    chunks: list[bytes] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    acknowledged: int = 0
    end: StreamEnd | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def received(self) -> bytes:
        return b"".join(self.chunks)

    async def opened(self, log: LogOpened) -> None:
        self.log = log
        self.changed.set()

    async def data(self, chunk: bytes) -> None:
        self.chunks.append(chunk)
        self.changed.set()

    def ended(self, end: StreamEnd) -> None:
        assert self.end is None, "a stream ends once"
        self.is_open, self.end = False, end
        self.changed.set()

    def note(self, line: str) -> None:
        self.notes.append(line)

    def taken(self, size: int) -> None:
        self.acknowledged += size

    async def progress(self, line: str) -> None:
        self.lines.append(line)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until data or the end of the stream satisfies the condition."""
        async with asyncio.timeout(WAIT_S):
            while not reached():
                self.changed.clear()
                await self.changed.wait()

    async def all(self, source: ByteSource) -> bytes:
        """Start the stream and return all of its data."""
        await source(self)
        await self.until(lambda: self.end is not None)
        return self.received


class Keyboard:
    """Sends the input of a step on a terminal."""

    def __init__(self, step: RunningStep) -> None:
        self.step, self.offset = step, 0

    def send(self, frame: bytes) -> None:
        self.step.incoming(TASK_HEADER.pack(EVERY_TASK, 0, self.offset) + frame)
        self.offset += len(frame)

    def resize(self, rows: int, cols: int) -> None:
        self.send(bytes([SIZE]) + rows.to_bytes(2, "big") + cols.to_bytes(2, "big"))

    def type(self, text: str) -> None:
        self.send(keys_frame(text.encode()))


def labels(rows: Sequence[Any]) -> list[str]:
    return [row["label"] if isinstance(row, dict) else row.label for row in rows]


def nonce() -> str:
    return secrets.token_hex(16)


def code(refused: pytest.ExceptionInfo[UserError]) -> str:
    return refused.value.code
