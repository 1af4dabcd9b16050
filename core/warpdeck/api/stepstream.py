"""The streams of one step, between its nodes and its srun: pieces pass through unchanged, ends become notes and the exit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from signal import strsignal
from typing import TYPE_CHECKING, Any

from warpdeck.controller.events import StepEndAsked
from warpdeck.controller.ports import StepPipe
from warpdeck.errors import RemoteError, UserError
from warpdeck.model import Link, NodeName, format_ranges, ranges_of
from warpdeck.model.step import Step, StepShare, TaskEnd
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES
from warpdeck_agent.wire.steps import EVERY_TASK, TASK_HEADER, ForgetStep, OpenStep

from .connection import ClientStream, Connection
from .launchers import advice

if TYPE_CHECKING:
    from . import protocol

LOOK_S = 5.0
"""How often the step is looked at even if nothing was heard of it."""


class NodePart:
    """The step's streams on one node: a StreamSink for the fleet. Opened anew when the link comes back."""

    def __init__(self, stream: StepStream, share: StepShare) -> None:
        self._stream = stream
        self.share = share
        self.pipe: StepPipe | None = None
        self.taken = 0
        self.over = False
        self._pending: deque[bytes] = deque()  # bounded by the window of the client

    async def opened(self, offset: int, size_bytes: int, path: str) -> None:
        return None

    async def data(self, chunk: bytes) -> None:
        rank, channel, offset = TASK_HEADER.unpack_from(chunk)
        self._stream.have[f"{rank}.{channel}"] = str(offset + len(chunk) - TASK_HEADER.size)
        await self._stream.send(chunk)

    async def ended(self, error: str) -> None:
        self.pipe = None
        self.over = not error or self._stream.is_up(self.share.node)
        if error and self.over:
            self._stream.note(f"error: {self.share.node}: what its tasks wrote is not all here: {error}")
        if self.over:
            self.taken += sum(map(len, self._pending))
            self._pending.clear()
            self._stream.tell_taken()
        self._stream.changed.set()

    def give(self, piece: bytes) -> None:
        """Input for tasks of this node; it is kept until they have taken it."""
        if self.over:
            self.taken += len(piece)
            return
        self._pending.append(piece)
        if self.pipe is not None:
            self.pipe.write_piece(piece)

    def joined(self, pipe: StepPipe) -> None:
        """The way to the tasks is open, perhaps again."""
        self.pipe = pipe
        for piece in self._pending:
            pipe.write_piece(piece)

    def on_taken(self, size: int) -> None:
        """The node's tasks took a piece."""
        if self._pending:
            self._pending.popleft()
        self.taken += size
        self._stream.tell_taken()


class StepStream(ClientStream):
    """Joined to the step until it has ended and everything was sent."""

    def __init__(self, connection: Connection, number: int, step: Step, *, wait_s: int) -> None:
        super().__init__(connection, number)
        self._controller = connection.server.controller
        self._keeper = connection.server.steps
        self._step = step
        self._wait_s = wait_s
        self._key = (step.job_id, step.number)
        self._parts = {share.node: NodePart(self, share) for share in step.shares}
        self._told: set[int] = set()
        self._acknowledged = 0
        self._task = asyncio.current_task()
        self._first_end: float | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ordered: set[NodeName] = set()
        """Nodes that were sent their share of the step."""
        self.have: dict[str, str] = {}
        self.changed = asyncio.Event()
        self._keeper.joined(self._key)

    async def join(self, have: dict[str, str]) -> None:
        """Passes on until the end; the client learns the exit then."""
        self.have = dict(have)
        listener = self._controller.hub.listen()
        listener.changed = self.changed  # one event for both: what the nodes send, and what the state becomes
        for node in self._parts:
            self._spawn(self._note_order(node))
        try:
            while True:
                self.changed.clear()
                step = self._now()
                await self._open_parts(step)
                if not await self._is_committed(step):
                    continue
                self._tell_ends(step)
                if step.is_finished and self._is_sent(step):
                    break
                await self._limit_wait(step)
                await self._pause()
                listener.take()
        finally:
            self._controller.hub.leave(listener)
        await self._finish(step)

    def _now(self) -> Step:
        return self._controller.state.steps.get(self._key[0], {}).get(self._key[1], self._step)

    async def _is_committed(self, step: Step) -> bool:
        """Whether its ends are on disk, if it has any: a node may forget what was told. If not, it has changed meanwhile."""
        if any(part.ends for part in step.parts):
            await self._controller.commits.settled()
        return self._now() is step

    async def _note_order(self, node: NodeName) -> None:
        """Its streams are asked for right behind the step, and need not wait for the word that it has begun."""
        await self._controller.carried_out(node)
        self._ordered.add(node)
        self.changed.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(LOOK_S):
                await self.changed.wait()
        except TimeoutError:
            return

    async def _open_parts(self, step: Step) -> None:
        """Joins the nodes that have the step and are not joined."""
        phases = {part.node: part.phase for part in step.parts}
        for node, part in self._parts.items():
            if part.over or part.pipe is not None or not self._is_linked(node):
                continue
            if phases[node] == "launching" and node not in self._ordered:
                continue
            asked = OpenStep(
                stream=0,
                job_id=step.job_id,
                restarts=step.restarts,
                step=step.number,
                have={
                    key: size
                    for key, size in self.have.items()
                    if int(key.partition(".")[0]) in part.share.ranks
                },
            )
            try:
                pipe = await self._controller.fleet.open_step(node, asked, part, on_taken=part.on_taken)
            except RemoteError:
                continue  # its next Welcome tells
            part.joined(pipe)

    def _is_sent(self, step: Step) -> bool:
        """Whether all that the nodes have was sent; a node that is away keeps nobody waiting once the step has ended."""
        return all(
            part.over or (part.pipe is None and not self._is_linked(node))
            for node, part in self._parts.items()
        )

    def _is_linked(self, node: NodeName) -> bool:
        return self._controller.state.links.get(node) is Link.UP

    def _tell_ends(self, step: Step) -> None:
        """Tasks that ended badly, as srun tells them: those of one node together."""
        for share in step.shares:
            fresh: dict[str, list[int]] = {}
            for rank in share.ranks:
                end = step.ends().get(rank)
                if end is not None and rank not in self._told:
                    self._told.add(rank)
                    if end.shell_code():
                        fresh.setdefault(_how(end), []).append(rank)
            for how, ranks in fresh.items():
                self.note(f"error: {share.node}: {_tasks(ranks)}: {how}")
        if self._told and self._first_end is None:
            self._first_end = asyncio.get_running_loop().time()

    async def _limit_wait(self, step: Step) -> None:
        """--wait: so long after the first task has ended the others have to."""
        if not self._wait_s or self._first_end is None or step.ending_cause or step.is_finished:
            return
        left = self._first_end + self._wait_s - asyncio.get_running_loop().time()
        if left > 0:
            asyncio.get_running_loop().call_later(left, self.changed.set)
            return
        self.note(f"First task exited {self._wait_s}s ago")
        await self._end_step("cancelled")

    async def _finish(self, step: Step) -> None:
        """The last words, and the nodes may forget it."""
        exit_ = (
            {"code": 1, "signal": 0}
            if step.exit is None
            else {"code": step.exit.code, "signal": step.exit.signal}
        )
        message = step.exit.message if step.exit is not None else ""
        if step.ending_cause == "cancelled" and not message:
            self.note(f"error: StepId={step.label()} was cancelled")
        for node, part in self._parts.items():
            if not part.over:
                self.note(f"error: {node} is away: what its tasks wrote last is not here")
        if line := advice(step):
            self.note(line)
        self._keeper.left(self._key, cut_off=True)
        self.say_end(message, exit_)
        for node in self._parts:
            forget = ForgetStep(job_id=step.job_id, restarts=step.restarts, step=step.number)
            await self._controller.fleet.send(node, forget)

    def note(self, line: str) -> None:
        """A line of srun's own."""
        self.connection.send({"t": "note", "stream": self.number, "line": line})

    async def incoming(self, data: bytes) -> None:
        """Input with its header: to the node of that task, or to all."""
        if len(data) < TASK_HEADER.size or len(data) > DATA_CHUNK_BYTES:
            return
        rank = TASK_HEADER.unpack_from(data)[0]
        for part in self._parts.values():
            if rank == EVERY_TASK or rank in part.share.ranks:
                part.give(data)
            else:
                part.taken += len(data)
        self.tell_taken()

    def is_up(self, node: str) -> bool:
        """Whether there is a link to the node."""
        return self._controller.fleet.is_up(NodeName(node))

    def tell_taken(self) -> None:
        """What all nodes have taken of the input, the client need not keep."""
        taken = min(part.taken for part in self._parts.values())
        if taken > self._acknowledged:
            self.connection.send({"t": "ack", "stream": self.number, "size": taken - self._acknowledged})
            self._acknowledged = taken

    async def order(self, order: protocol.StepOrder) -> None:
        """What srun asks: a signal for all tasks, the end, or how they are."""
        if order.what == "status":
            self._tell_status()
        elif order.what == "end":
            await self._end_step("cancelled")
        elif order.signal:
            await self._end_step("", signal=order.signal)

    def _tell_status(self) -> None:
        step = self._now()
        ended = step.ends()
        for share in step.shares:
            for word, ranks in (
                ("running", [rank for rank in share.ranks if rank not in ended]),
                ("exited", [rank for rank in share.ranks if rank in ended]),
            ):
                if ranks:
                    self.note(f"StepId={step.label()} {_tasks(ranks)}: {word}")

    async def _end_step(self, cause: str, *, signal: int = 0) -> None:
        event = StepEndAsked(
            who=self.connection.who,
            job_id=self._key[0],
            number=self._key[1],
            cause=cause or "cancelled",
            signal=signal,
        )
        try:
            await self._controller.apply(event)
        except UserError:
            return  # it has ended meanwhile

    def end(self, *, finished: bool = False) -> None:
        """The client is gone: so is the step, unless it was only cut off."""
        if self.connection.streams.get(self.number) is not self:
            return
        super().end()
        caller = self.connection.caller
        self._keeper.left(self._key, cut_off=caller is not None and caller.lost.is_set())
        if self._task is not None:
            self._task.cancel()
        for part in self._parts.values():
            if part.pipe is not None:
                self._spawn(part.pipe.close())


def _how(end: TaskEnd) -> str:
    if end.oom:
        return "Out Of Memory"
    if end.signal:
        return strsignal(end.signal) or f"signal {end.signal}"
    return f"Exited with exit code {end.code}"


def _tasks(ranks: list[int]) -> str:
    """task 3, tasks 0-2,5."""
    return f"task{'s' if len(ranks) > 1 else ''} {format_ranges(ranges_of(ranks))}"
