"""Keep the links to all nodes.

The fleet reconnects without end, with capped back-off. It replaces agents of other builds and routes
messages.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from warpdeck.base.controller_starts import SiteIdentity, supersedes
from warpdeck.base.errors import RemoteError, UserError, WarpdeckError
from warpdeck.base.paths import Paths
from warpdeck.model import JobId, Node, NodeName
from warpdeck.ports.ports import (
    NEXT_ATTEMPT,
    FleetEvent,
    NodeCommand,
    NodeStream,
    PackedTree,
    StepPipe,
    StreamRequest,
    StreamSink,
)
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire
from warpdeck_agent.wire.paths import folder_containing

from .backoff import backoff_s
from .calls import CallServer, accept_call
from .channel import Channel, Superseded
from .local import connect_local
from .memory_trim import BurstCounter, MemoryTrimmer
from .node_connection import NodeConnection
from .token_bucket import PAUSE_S, TREE_BYTES
from .transport import Progress, Transport
from .userfiles import UserFiles
from .visible_folders import sees_folder

log = logging.getLogger("warpdeck.fleet")

QUIT_S = 10.0
"""Seconds that an agent may take to exit after a Quit message."""
MAX_FIRST_ATTEMPTS = 64
"""Maximum number of concurrent first attempts.

Together they take a second or two of CPU time, far less than the time-out of a login.
"""
MAX_REPLACEMENTS = 3
"""Maximum number of agents of other builds that are replaced within one attempt."""

_EXPECTED = (WarpdeckError, OSError)
"""Errors that end a link. Any other error is a bug in warpdeck, and it also ends only the link."""


class RateLimitExceeded(RemoteError):
    """A node's agent has sent far more messages than it should."""

    def __init__(self, node: str) -> None:
        super().__init__(
            node,
            "its agent sends too many messages; check agent.log in the agent's folder on the node",
        )


def _reason(error: Exception) -> str:
    """Return the reason for a broken link as text."""
    if isinstance(error, RemoteError):
        return error.cause
    if isinstance(error, _EXPECTED):
        return str(error)
    return "a message of its agent caused an error inside the controller; see the controller's log"


async def _no_backlog() -> None:
    """Return at once, because the controller does not receive messages yet."""


class AgentFleet:
    """Implements ports.ports.Fleet over SSH and Unix sockets."""

    def __init__(
        self,
        paths: Paths,
        identity: SiteIdentity,
        rng: random.Random,
        *,
        on_ended: Callable[[], object] = gc.collect,
    ) -> None:
        """Create a fleet. `on_ended` is called to collect the garbage of ended links when there are many."""
        self._paths = paths
        self._identity = identity
        self._own_start = wire.ControllerStart()
        self._fence = ""
        """The reason why no links are kept; "" if they are."""
        self._rng = rng
        self._links: dict[NodeName, NodeConnection] = {}
        self._adding: dict[NodeName, NodeConnection] = {}
        self._on_event: Callable[[FleetEvent], None] = lambda event: None
        self._wait_processed: Callable[[], Awaitable[None]] = _no_backlog
        self._tasks: set[asyncio.Task[None]] = set()
        self._call_server: CallServer | None = None
        self.files = UserFiles()
        self._memory_trimmer = MemoryTrimmer(on_ended)
        self._handshakes = BurstCounter(self._memory_trimmer.schedule)
        self._first_attempts = asyncio.Semaphore(MAX_FIRST_ATTEMPTS)

    def start(
        self, on_event: Callable[[FleetEvent], None], wait_processed: Callable[[], Awaitable[None]]
    ) -> None:
        self._on_event = on_event
        self._wait_processed = wait_processed

    async def add(
        self, node: Node, *, accept_host_key: str, progress: Callable[[str], Awaitable[None]]
    ) -> tuple[Node, wire.Welcome]:
        """Connect to a new node, and keep the link from then on.

        Errors of the first attempt are raised to the caller.
        """
        if self._fence:
            raise UserError(self._fence)
        if node.name in self._adding or node.name in self._links:
            raise UserError(f"node {node.name} already exists", "choose another --name")
        link = NodeConnection(node)
        self._adding[node.name] = link
        try:
            with self._handshakes.operation():
                welcome = await self._open(link, accept_host_key=accept_host_key, progress=progress)
        finally:
            del self._adding[node.name]
        if self._fence:
            self._drop(link)
            raise UserError(self._fence)
        for gpu in welcome.inventory.gpus:
            await progress(f"GPU {gpu.index}: {gpu.name}")
        self._links[node.name] = link
        link.task = asyncio.get_running_loop().create_task(self._keep(link, welcome))
        return node, welcome

    def begin(self, start: wire.ControllerStart) -> None:
        """Connect as this start of the controller from now on. It ends a fence."""
        self._own_start, self._fence = start, ""

    def fence(self, reason: str) -> None:
        """Close all links, and keep none from now on. Their nodes are reported as lost."""
        self._fence = reason
        links, self._links = self._links, {}
        for link in links.values():
            if link.task is not None:
                link.task.cancel()
            self._drop(link)
            self._on_event((link.node.name, f"lost: {reason}"))

    def connect(self, node: Node) -> None:
        if self._fence:
            self._on_event((node.name, f"lost: {self._fence}"))
            return
        link = self._links[node.name] = NodeConnection(node)
        link.task = asyncio.get_running_loop().create_task(self._keep(link, None))

    async def remove(self, name: NodeName) -> None:
        """Remove a node. Its agent exits, and the controller no longer tracks jobs that still run there."""
        link = self._links.pop(name, None)
        if link is None:
            return
        if link.channel is not None and link.task is not None:
            link.is_removed = True
            link.channel.send(wire.Quit())
            await asyncio.wait([link.task], timeout=QUIT_S)
        await self._end(link)

    def has(self, name: NodeName) -> bool:
        """Return whether the node has a link, which may be up or down."""
        return name in self._links

    def is_up(self, name: NodeName) -> bool:
        link = self._links.get(name)
        return link is not None and link.channel is not None

    async def launch(self, name: NodeName, launch: wire.Launch, tree: PackedTree | None) -> None:
        link = self._links.get(name)
        if link is None or link.channel is None:
            return
        if tree is not None:
            link.trees[tree.sha256] = tree
        hidden = folder_containing(launch.cwd, launch.private_dirs) is not None
        visible = not hidden and await sees_folder(link, launch, self.files)
        if link.channel is not None:
            values = {**launch.__dict__, "cwd_visible": visible}
            if visible and launch.in_place:
                values["tree"] = None
            elif launch.tree is not None and tree is None:
                self._on_event((name, _without_code(launch.job_id, launch.restarts)))
                return
            link.token_bucket.earn()
            link.channel.send(wire.Launch(**values))

    def answer_calls(self, server: CallServer) -> None:
        """Set the server for calls from jobs' processes."""
        self._call_server = server

    def _channel(self, name: NodeName) -> Channel:
        """Return the channel to a node. Raises RemoteError if the node is not connected."""
        link = self._links.get(name)
        if link is None or link.channel is None:
            raise RemoteError(name, "the node is not connected")
        return link.channel

    async def reserve_port(self, name: NodeName, *, job_id: JobId, restarts: int) -> int:
        return await self._channel(name).reserve_port(job_id, restarts)

    async def open_step(
        self,
        name: NodeName,
        message: stepwire.OpenStep,
        sink: StreamSink,
        *,
        on_taken: Callable[[int], None],
    ) -> StepPipe:
        return self._channel(name).open_step(message, sink, on_taken=on_taken)

    async def send(self, name: NodeName, message: NodeCommand) -> None:
        link = self._links.get(name)
        if link is not None and link.channel is not None:
            if isinstance(message, stepwire.StepLaunch):
                link.token_bucket.earn()
            link.channel.send(message)

    async def check_health(self, name: NodeName, request: wire.AskHealth) -> wire.Health:
        return await self._channel(name).check_health(request)

    async def curves(self, name: NodeName, request: wire.AskCurves) -> wire.Curves:
        return await self._channel(name).curves(request)

    async def past_state(self, name: NodeName, *, at_unix: float) -> wire.Moment:
        return await self._channel(name).past_state(at_unix)

    async def evidence(self, name: NodeName, request: wire.AskEvidence) -> wire.Evidence:
        return await self._channel(name).evidence(request)

    async def known_launches(self, name: NodeName, launches: list[list[int]]) -> list[wire.KnownLaunch]:
        return await self._channel(name).known_launches(launches)

    async def open_stream(self, name: NodeName, message: StreamRequest, sink: StreamSink) -> NodeStream:
        return self._channel(name).open_stream(message, sink)

    async def close(self) -> None:
        """End all links. Agents and jobs keep running, but an agent without jobs ends after a while."""
        for link in self._links.values():
            if link.channel is not None:
                link.channel.send(wire.ControllerStops())
        for link in list(self._links.values()):
            await self._end(link)
        self._links.clear()
        await self.files.close()

    async def _end(self, link: NodeConnection) -> None:
        if link.task is not None:
            link.task.cancel()
            await asyncio.gather(link.task, return_exceptions=True)
        self._drop(link)

    def _drop(self, link: NodeConnection) -> None:
        if link.transport is not None:
            link.transport.close()
            self._memory_trimmer.count_ended_link()
        link.channel = link.transport = None
        link.visible.clear()

    async def _keep(self, link: NodeConnection, welcome: wire.Welcome | None) -> None:
        """Keep a link: process its messages while it is up, and reconnect forever."""
        name, attempt = link.node.name, 0
        while True:
            try:
                if welcome is None:
                    welcome = await self._open_limited(link, attempt)
                    self._on_event((name, welcome))
                attempt, link.was_up = 0, True
                assert link.channel is not None
                await link.channel.process_frames()
            except Exception as error:
                if not isinstance(error, _EXPECTED):
                    log.exception("%s: a message of its agent caused an unexpected error", name)
                pause_s = PAUSE_S if isinstance(error, RateLimitExceeded) else backoff_s(attempt, self._rng)
                reason = _reason(error)
                log.info("%s: %s; next attempt in %.1f s", name, reason, pause_s)
                if not self._fence:
                    self._on_event((name, f"lost: {reason}{NEXT_ATTEMPT} {max(1, round(pause_s))} s"))
            finally:
                self._drop(link)
            if link.is_removed or self._fence:
                return
            welcome = None
            await asyncio.sleep(pause_s)
            attempt += 1

    async def _open_limited(self, link: NodeConnection, attempt: int) -> wire.Welcome:
        """Open a link, with a limit on concurrent first attempts.

        After a start, hundreds of concurrent handshakes would all run into their time-outs. Later attempts
        are spread over time by their pauses, so hosts that do not answer delay no other attempt.
        """
        with self._handshakes.operation():
            if attempt:
                return await self._open(link)
            async with self._first_attempts:
                return await self._open(link)

    async def _open(
        self, link: NodeConnection, *, accept_host_key: str = "", progress: Progress | None = None
    ) -> wire.Welcome:
        """Connect to an agent of our build.

        An agent of another build gets a Quit message and is replaced. Its jobs keep running.
        """
        for _ in range(MAX_REPLACEMENTS):
            transport = await self._transport(link, accept_host_key, progress)
            channel = Channel(
                link.node.name,
                transport.reader,
                transport.writer,
                transport.outgoing,
                lambda message, size: self._handle_message(link, message, size),
                self._wait_processed,
            )
            try:
                welcome = await channel.greet(
                    self._identity.controller_id, self._own_start, wants_past=not link.was_up
                )
                if not link.token_bucket.spend(0, messages=len(welcome.jobs) + len(welcome.steps)):
                    raise RateLimitExceeded(link.node.name)
            except Superseded as error:
                transport.close()
                self._report_refusal(link, error.refused)
                raise
            except BaseException:
                transport.close()
                raise
            if welcome.build == transport.build:
                link.channel, link.transport = channel, transport
                found = dataclasses.replace(welcome.inventory, address=transport.address)
                return dataclasses.replace(welcome, inventory=found)
            if welcome.version > wire.PROTOCOL_VERSION:
                transport.close()
                raise RemoteError(
                    link.node.name,
                    f"an agent of a newer warpdeck runs there (protocol {welcome.version}, ours is "
                    f"{wire.PROTOCOL_VERSION}); update warpdeck here",
                )
            channel.send(wire.Quit())
            if progress is not None:
                await progress("replacing an agent of another version; its jobs keep running")
            await self._wait_for_end(channel)
            transport.close()
        raise RemoteError(link.node.name, "an agent of another version did not stop")

    def _report_refusal(self, link: NodeConnection, refused: wire.Refused) -> None:
        """Report that the node obeys another start of this controller, if that start is genuine.

        A refusal by a compromised node is only an error of its own link.
        """
        holder = refused.holder
        if supersedes(holder, self._own_start) and self._identity.is_genuine(holder):
            self._on_event((link.node.name, refused))
        else:
            log.warning("%s: its agent obeys a controller that this site does not know", link.node.name)

    def _claim(self, link: NodeConnection, machine: str) -> None:
        """Record the machine behind a link. Raises UserError if another node already has that machine.

        With two nodes for one machine, its GPUs would be counted twice, and its agent would be connected
        twice.
        """
        for other in (*self._links.values(), *self._adding.values()):
            if other is not link and other.machine == machine:
                raise UserError(
                    f"{link.node.target or 'this machine'} is already node {other.node.name}",
                    f"see `warpdeck node show {other.node.name}`",
                )
        link.machine = machine

    async def _transport(
        self, link: NodeConnection, accept_host_key: str, progress: Progress | None
    ) -> Transport:
        if not link.node.target:
            hostname = link.node.hostname
            return await connect_local(
                self._paths, hostname, claim=lambda machine: self._claim(link, machine)
            )
        from .ssh.deploy import connect_ssh  # It loads asyncssh, which is large.

        return await connect_ssh(
            link.node.target,
            self._paths,
            controller_id=self._identity.controller_id,
            claim=lambda machine: self._claim(link, machine),
            accept_host_key=accept_host_key,
            progress=progress,
        )

    async def _wait_for_end(self, channel: Channel) -> None:
        try:
            async with asyncio.timeout(QUIT_S):
                await channel.process_frames()
        except (TimeoutError, RemoteError):
            return

    def _handle_message(self, link: NodeConnection, message: object, size: int) -> None:
        """Handle an agent's message. Raises RemoteError if the agent has exceeded its rate limit."""
        size += TREE_BYTES if isinstance(message, wire.NeedTree) else 0
        if not isinstance(message, stepwire.CallOpened) and not link.token_bucket.spend(size):
            raise RateLimitExceeded(link.node.name)
        if isinstance(message, wire.NeedTree):
            tree = link.trees.get(message.tree)
            if tree is None or link.channel is None:
                self._on_event((link.node.name, _without_code(message.job_id, message.restarts)))
                return
            self._spawn(self._upload(link.channel, tree))
        elif isinstance(message, stepwire.CallOpened):
            if self._call_server is not None and link.channel is not None:
                self._spawn(accept_call(link.channel, link.node.name, message, self._call_server))
        elif isinstance(
            message,
            wire.JobReport
            | wire.LaunchFailed
            | wire.GivenBack
            | wire.Remark
            | wire.Sample
            | wire.Health
            | wire.Welcome
            | stepwire.StepReport
            | stepwire.StepFence,
        ):
            self._on_event((link.node.name, message))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _upload(self, channel: Channel, tree: PackedTree) -> None:
        try:
            await channel.upload(tree)
        except (OSError, UserError) as error:
            log.warning("upload of %s: %s", tree.tree, error)


def _without_code(job_id: int, restarts: int) -> wire.LaunchFailed:
    message = "the code snapshot no longer exists"
    return wire.LaunchFailed(job_id=job_id, restarts=restarts, message=message)
