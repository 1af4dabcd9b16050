"""Streams of one job step between its nodes and its srun.

Data passes through unchanged. The ends of tasks become notes for the user and srun's exit status.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from signal import strsignal
from typing import Any

from warpdeck.base.errors import RemoteError, UserError
from warpdeck.controller.events.events import StepEndRequested
from warpdeck.controller.loop.change_listeners import ChangeListeners
from warpdeck.controller.loop.commit_barrier import CommitBarrier
from warpdeck.controller.state.state import State
from warpdeck.engines.native.outcomes import Apply
from warpdeck.model import ExitStatus, Link, NodeName, format_ranges, ranges_of
from warpdeck.model.step import Step, StepShare, TaskEnd
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine_streams import StepSink, StreamEnd
from warpdeck.ports.ports import Fleet, StepPipe
from warpdeck.protocol.requests import StepOrder
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, STREAM_WINDOW_BYTES
from warpdeck_agent.wire.steps import EVERY_TASK, TASK_HEADER, ForgetStep, OpenStep

from .mpi_launchers import advice
from .step_leases import StepKey, StepLeases

LOOK_S = 5.0
"""Seconds after which the step is checked again even if no change was reported."""
MAX_INPUT_BYTES = 2 * STREAM_WINDOW_BYTES
"""Maximum number of input bytes that a node has not taken yet: the client's window plus one read ahead.

A client that sends more is disconnected.
"""


class NodePart:
    """The step's streams on one node: a StreamSink for the fleet.

    It is opened again when the link comes back.
    """

    def __init__(self, stream: StepStreams, key: StepKey, share: StepShare) -> None:
        self._stream = stream
        self.key = key
        self.share = share
        self.pipe: StepPipe | None = None
        self.taken = 0
        self.over = False
        self._pending: deque[bytes] = deque()  # Bounded by MAX_INPUT_BYTES.
        self.pending_bytes = 0

    async def opened(self, offset: int, size_bytes: int, path: str) -> None:
        return None

    async def data(self, chunk: bytes) -> None:
        rank, channel, offset = TASK_HEADER.unpack_from(chunk)
        self._stream.have[f"{rank}.{channel}"] = str(offset + len(chunk) - TASK_HEADER.size)
        await self._stream.sink.data(chunk)

    async def ended(self, error: str, code: str = "") -> None:
        self.pipe = None
        self.over = not error or self._stream.is_up(self.share.node)
        if error and self.over:
            self._stream.note(f"error: {self.share.node}: what its tasks wrote is not all here: {error}")
        if self.over:
            self.taken += sum(map(len, self._pending))
            self._pending.clear()
            self.pending_bytes = 0
            self._stream.tell_taken()
        self._stream.changed.set()

    def give(self, piece: bytes) -> None:
        """Queue input for the tasks of this node. It is kept until they have taken it."""
        if self.over:
            self.taken += len(piece)
            return
        self._pending.append(piece)
        self.pending_bytes += len(piece)
        if self.pipe is not None:
            self.pipe.write_piece(piece)

    def joined(self, pipe: StepPipe) -> None:
        """Record that the stream to the tasks is open, and send the pending input.

        This may happen again after a lost link.
        """
        self.pipe = pipe
        for piece in self._pending:
            pipe.write_piece(piece)

    def on_taken(self, size: int) -> None:
        """Record that the node's tasks have taken a piece of input."""
        if self._pending:
            self.pending_bytes -= len(self._pending.popleft())
        self.taken += size
        self._stream.tell_taken()


@dataclass(frozen=True, kw_only=True)
class StepContext:
    """The parts of the controller that steps use."""

    state: State
    fleet: Fleet
    hub: ChangeListeners
    apply: Apply
    commits: CommitBarrier
    leases: StepLeases
    flushed: Callable[[NodeName], Awaitable[None]]
    """Returns when all orders made until now were sent to the node."""


class StepStreams:
    """The streams of an srun's step, or of the steps of several components.

    `answer` is the answer to the srun, `have` the number of bytes that it has of each stream.
    """

    sink: StepSink

    def __init__(
        self,
        context: StepContext,
        caller: Caller,
        steps: Sequence[Step],
        *,
        wait_s: int,
        answer: dict[str, Any],
        have: Mapping[str, str] = {},
    ) -> None:
        self.answer = answer
        self.have = dict(have)
        self.changed = asyncio.Event()
        self._context = context
        self._caller = caller
        self._steps = {(step.job_id, step.number): step for step in steps}
        self._wait_s = wait_s
        self._parts = [
            NodePart(self, key, share) for key, step in self._steps.items() for share in step.shares
        ]
        self._told: set[int] = set()
        self._acknowledged = 0
        self._first_end: float | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ordered: set[NodeName] = set()
        """Nodes to which the start order of their part of the step was sent."""
        for key in self._steps:
            context.leases.joined(key)

    async def run(self, sink: StepSink) -> None:
        """Pass data on until the steps end and all output was sent, then report the exit status."""
        self.sink = sink
        listener = self._context.hub.listen()
        listener.changed = self.changed
        for node in dict.fromkeys(part.share.node for part in self._parts):
            self._spawn(self._note_order(node))
        try:
            while True:
                self.changed.clear()
                steps = self._now()
                await self._open_parts()
                if not await self._is_committed(steps):
                    continue
                for step in steps:
                    self._tell_ends(step)
                if all(step.is_finished for step in steps) and self._is_sent():
                    break
                await self._limit_wait(steps)
                await self._pause()
                listener.take()
        finally:
            self._context.hub.leave(listener)
        await self._finish(steps)

    def _now(self) -> list[Step]:
        """Return the steps in their current state.

        Steps that are no longer in memory have their last known state. A step leaves the memory when many
        later steps of its job have run.
        """
        known = self._context.state.steps
        for (job_id, number), step in self._steps.items():
            self._steps[job_id, number] = known.get(job_id, {}).get(number, step)
        return list(self._steps.values())

    async def _is_committed(self, steps: Sequence[Step]) -> bool:
        """Return whether the recorded ends of the steps are on disk and the steps have not changed meanwhile.

        Ends are reported only after the commit, because a node may then forget the step.
        """
        if any(part.ends for step in steps for part in step.parts):
            await self._context.commits.wait()
        return all(now is step for now, step in zip(self._now(), steps, strict=True))

    async def _note_order(self, node: NodeName) -> None:
        """Wait until the start order was sent to the node, so that its streams can be opened right after it.

        This avoids waiting for the node's message that the step has started.
        """
        await self._context.flushed(node)
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

    async def _open_parts(self) -> None:
        """Open the streams of nodes that have the step and are not connected yet."""
        now = dict(zip(self._steps, self._now(), strict=True))
        for part in self._parts:
            step, node = now[part.key], part.share.node
            phase = next(each.phase for each in step.parts if each.node == node)
            if part.over or part.pipe is not None or not self._is_linked(node):
                continue
            if phase == "launching" and node not in self._ordered:
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
                pipe = await self._context.fleet.open_step(node, asked, part, on_taken=part.on_taken)
            except RemoteError:
                continue  # It is tried again after the node's next Welcome.
            part.joined(pipe)

    def _is_sent(self) -> bool:
        """Return whether all output that the nodes have was sent.

        A node without a link does not delay an ended step.
        """
        return all(
            part.over or (part.pipe is None and not self._is_linked(part.share.node)) for part in self._parts
        )

    def _is_linked(self, node: NodeName) -> bool:
        return self._context.state.node_status.links.get(node) is Link.UP

    def _tell_ends(self, step: Step) -> None:
        """Send notes about failed tasks in srun's wording.

        All tasks of a node with the same failure share one note.
        """
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

    async def _limit_wait(self, steps: Sequence[Step]) -> None:
        """Cancel the steps if tasks still run --wait seconds after the first task ended."""
        running = any(not step.ending_cause and not step.is_finished for step in steps)
        if not self._wait_s or self._first_end is None or not running:
            return
        left = self._first_end + self._wait_s - asyncio.get_running_loop().time()
        if left > 0:
            asyncio.get_running_loop().call_later(left, self.changed.set)
            return
        self.note(f"First task exited {self._wait_s}s ago")
        await self._end_step("cancelled")

    async def _finish(self, steps: Sequence[Step]) -> None:
        """Send the final notes and the exit status, then let the nodes forget the steps.

        The exit status is the highest of all steps.
        """
        ends = [ExitStatus(code=1) if step.exit is None else step.exit for step in steps]
        worst = max(ends, key=lambda end: 128 + end.signal if end.signal else end.code)
        message = next((end.message for end in ends if end.message), "")
        if steps[0].ending_cause == "cancelled" and not message:
            self.note(f"error: StepId={steps[0].label()} was cancelled")
        for part in self._parts:
            if not part.over:
                self.note(f"error: {part.share.node} is away: what its tasks wrote last is not here")
        if line := advice(steps[0]):
            self.note(line)
        for key in self._steps:
            self._context.leases.left(key, cut_off=True)
        self.sink.ended(StreamEnd(message, exit=worst))
        for part in self._parts:
            step = self._steps[part.key]
            forget = ForgetStep(job_id=step.job_id, restarts=step.restarts, step=step.number)
            await self._context.fleet.send(part.share.node, forget)

    def note(self, line: str) -> None:
        """Send a line that srun itself prints."""
        self.sink.note(line)

    def incoming(self, data: bytes) -> None:
        """Send input, which has a task header, to the node of that task or to all nodes.

        Raises UserError if the client sends more than its window.
        """
        if len(data) < TASK_HEADER.size or len(data) > DATA_CHUNK_BYTES:
            return
        rank = TASK_HEADER.unpack_from(data)[0]
        for part in self._parts:
            if rank == EVERY_TASK or rank in part.share.ranks:
                part.give(data)
            else:
                part.taken += len(data)
        if any(part.pending_bytes > MAX_INPUT_BYTES for part in self._parts):
            raise UserError("a step was sent more input than its window", "", code="window")
        self.tell_taken()

    def is_up(self, node: str) -> bool:
        """Return whether there is a link to the node."""
        return self._context.fleet.is_up(NodeName(node))

    def tell_taken(self) -> None:
        """Acknowledge the input that all nodes have taken, so that the client need not keep it."""
        taken = min(part.taken for part in self._parts)
        if taken > self._acknowledged:
            self.sink.taken(taken - self._acknowledged)
            self._acknowledged = taken

    async def order(self, order: StepOrder) -> None:
        """Handle srun's order: signal all tasks, end the step, or report the status of its tasks."""
        if order.what == "status":
            self._tell_status()
        elif order.what == "end":
            await self._end_step("cancelled")
        elif order.signal:
            await self._end_step("", signal=order.signal)

    def _tell_status(self) -> None:
        for step, share in ((each, share) for each in self._now() for share in each.shares):
            ended = step.ends()
            for word, ranks in (
                ("running", [rank for rank in share.ranks if rank not in ended]),
                ("exited", [rank for rank in share.ranks if rank in ended]),
            ):
                if ranks:
                    self.note(f"StepId={step.label()} {_tasks(ranks)}: {word}")

    async def _end_step(self, cause: str, *, signal: int = 0) -> None:
        """End or signal the steps. The order for one step applies to all steps of the srun."""
        running = [step for step in self._now() if not step.is_finished]
        if not running:
            return
        event = StepEndRequested(
            principal=self._caller.who,
            job_id=running[0].job_id,
            number=running[0].number,
            cause=cause or "cancelled",
            signal=signal,
        )
        try:
            await self._context.apply(event)
        except UserError:
            return  # The step has ended meanwhile.

    def left(self) -> None:
        """Handle the client's disconnect.

        It ends the step unless only the link of the client's node was lost.
        """
        process = self._caller.process
        for key in self._steps:
            self._context.leases.left(key, cut_off=process is not None and process.lost.is_set())
        for part in self._parts:
            if part.pipe is not None:
                self._spawn(part.pipe.close())


def _how(end: TaskEnd) -> str:
    if end.oom:
        return "Out Of Memory"
    if end.signal:
        return strsignal(end.signal) or f"signal {end.signal}"
    return f"Exited with exit code {end.code}"


def _tasks(ranks: list[int]) -> str:
    """Return the tasks as text, such as "task 3" or "tasks 0-2,5"."""
    return f"task{'s' if len(ranks) > 1 else ''} {format_ranges(ranges_of(ranks))}"
