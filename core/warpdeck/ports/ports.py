"""The interfaces that the controller needs from the outside, as protocols: a fleet, a cache of code and output files.

The clock and ids are passed as arguments. The real fleet is fleet.fleet.AgentFleet; sim.fleet.SimFleet simulates one. The store
has its own module.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from warpdeck.model import JobId, Node, NodeName
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire


class PackedTree(msgspec.Struct, frozen=True, kw_only=True):
    """A packed snapshot in the controller's cache. `path` is its tar.gz file."""

    tree: str
    sha256: str
    size_bytes: int
    path: str


NEXT_ATTEMPT = "; next attempt in"
"""Text between the reason of a lost link and the seconds until the next attempt."""
LINK_BROKE = "connection to the node lost"
"""Error with which the streams of a lost link end. The processes at their other end continue."""
StreamRequest = wire.OpenLog | wire.OpenPty | wire.OpenTunnel
"""Messages that open a stream from a node."""


class StreamSink(Protocol):
    """Receiver of the bytes of a node stream.

    `data` may wait, for flow control. For a tunnel, an empty chunk marks the end of the data. `ended` is
    called once, with the code of StreamEnd.
    """

    async def opened(self, offset: int, size_bytes: int, path: str) -> None: ...
    async def data(self, chunk: bytes) -> None: ...
    async def ended(self, error: str, code: str = "") -> None: ...


class NodeStream(Protocol):
    """An open stream from a node. An empty chunk written to a tunnel marks the end of the data."""

    async def write(self, data: bytes) -> None: ...
    async def resize(self, rows: int, cols: int) -> None: ...
    async def close(self) -> None: ...


class StepPipe(Protocol):
    """A connection to the tasks of a step on one node.

    `on_taken` is called for each piece that the tasks have taken.
    """

    def write_piece(self, piece: bytes) -> None:
        """Send input with its header in one frame. It must not be larger than a chunk."""
        ...

    async def close(self) -> None: ...


FleetEvent = tuple[
    NodeName,
    wire.Welcome
    | wire.JobReport
    | wire.LaunchFailed
    | wire.GivenBack
    | wire.Remark
    | wire.Sample
    | wire.Health
    | wire.Refused
    | stepwire.StepReport
    | stepwire.StepFence
    | str,
]
"""A message from a node, or "lost" when the link breaks. The link is restored automatically.

`Refused` means that the node obeys another start of this controller, which is known to be genuine.
"""
SAMPLE_S = 1.0
"""Default interval in seconds between two samples of a node."""
NodeCommand = (
    wire.Kill
    | wire.TakeBack
    | wire.SetLimit
    | wire.Forget
    | wire.AskHealth
    | wire.SampleEvery
    | wire.Notice
    | stepwire.StepLaunch
    | stepwire.StepKill
    | stepwire.ForgetStep
    | stepwire.StepFenced
)
"""Messages to a node that have no answer."""


class Fleet(Protocol):
    """The agents of all nodes.

    A message to a node without a link is not sent. It is sent after the node's next Welcome if it is still
    needed.
    """

    def start(
        self, on_event: Callable[[FleetEvent], None], wait_processed: Callable[[], Awaitable[None]]
    ) -> None:
        """Start the fleet.

        `wait_processed` returns when all events up to the call have been processed. The fleet awaits it
        before it reads on, which slows down a node that sends too much.
        """
        ...

    async def add(
        self, node: Node, *, accept_host_key: str, progress: Callable[[str], Awaitable[None]]
    ) -> tuple[Node, wire.Welcome]:
        """Probe the node, deploy and connect its agent, and keep the link. Raises UserError.

        Returns the node with its accepted host key.
        """
        ...

    def connect(self, node: Node) -> None:
        """Keep a link to a node that was added earlier, and reconnect without end with capped back-off."""
        ...

    def begin(self, start: wire.ControllerStart) -> None:
        """Connect as this start of the controller from now on."""
        ...

    def fence(self, reason: str) -> None:
        """Close all links and do not connect again, because the agents obey another controller."""
        ...

    async def remove(self, name: NodeName) -> None: ...
    def is_up(self, name: NodeName) -> bool: ...
    async def launch(self, name: NodeName, launch: wire.Launch, tree: PackedTree | None) -> None: ...
    async def send(self, name: NodeName, message: NodeCommand) -> None: ...
    async def reserve_port(self, name: NodeName, *, job_id: JobId, restarts: int) -> int:
        """Return a free port on the node, reserved for the launch. Raises RemoteError."""
        ...

    async def check_health(self, name: NodeName, request: wire.AskHealth) -> wire.Health:
        """Make the node run all health checks again, and return the result.

        Raises RemoteError if there is no link or no answer in time.
        """
        ...

    async def curves(self, name: NodeName, request: wire.AskCurves) -> wire.Curves:
        """Return the measurements of the node over time. Raises RemoteError."""
        ...

    async def past_state(self, name: NodeName, *, at_unix: float) -> wire.Moment:
        """Return the state of the node and its GPUs at that time.

        Raises RemoteError after a short time, because a user is waiting.
        """
        ...

    async def evidence(self, name: NodeName, request: wire.AskEvidence) -> wire.Evidence:
        """Return what the ranks of a launch are doing on the node now. Raises RemoteError."""
        ...

    async def known_launches(self, name: NodeName, launches: list[list[int]]) -> list[wire.KnownLaunch]:
        """Return the reports and records of launches that the node runs or was told to forget.

        Raises RemoteError.
        """
        ...

    async def open_stream(self, name: NodeName, message: StreamRequest, sink: StreamSink) -> NodeStream:
        """Open a stream; the fleet fills in `message.stream`. Raises RemoteError if there is no link."""
        ...

    async def open_step(
        self,
        name: NodeName,
        message: stepwire.OpenStep,
        sink: StreamSink,
        *,
        on_taken: Callable[[int], None],
    ) -> StepPipe:
        """Open the streams of a step's tasks on a node in both directions.

        Raises RemoteError if there is no link.
        """
        ...

    async def close(self) -> None: ...


class TreeCache(Protocol):
    """Packed snapshots that users uploaded, kept separately for each user."""

    def find(self, uid: int, tree: str) -> PackedTree | None: ...


class OutputFile(Protocol):
    """A user's file on the submit host, opened with that user's rights.

    `length` is its size in bytes at that time. The methods raise OSError.
    """

    @property
    def length(self) -> int: ...

    async def piece(self, at: int) -> bytes:
        """Return the content from this offset on, limited to the size of one answer; b"" at the end of the
        file.
        """
        ...

    async def close(self) -> None: ...


class OutputCollector(Protocol):
    """Copies output that was written on a node to the files on the submit host."""

    def start(self, on_note: Callable[[JobId, str], None]) -> None:
        """Start the collector. `on_note` gets messages for a job's user."""
        ...

    def begin(
        self,
        job_id: JobId,
        restarts: int,
        node: NodeName,
        *,
        files: dict[str, str],
        append: bool,
        uid: int,
        umask: int,
    ) -> None:
        """Start following the output of a launch. Repeating it is harmless.

        `files` maps a channel (out, err) to a path on the submit host. The file is created as that user with
        that umask.
        """
        ...

    async def finished(self, job_id: JobId, restarts: int, node: NodeName) -> None:
        """Return when all output of this launch has been copied; at once if no copying was begun."""
        ...

    async def read(self, path: str, *, uid: int) -> OutputFile:
        """Open a plain file with that user's rights.

        Raises OSError, or TimeoutError if its file system does not answer.
        """
        ...
