"""The streams between the API server and a scheduler.

The server has the client's end of a stream: it frames the bytes and obeys the client's window. The engine has the end
of the job. Each end gives the other an object to call:

- The engine passes bytes to a `ByteSink` of the server. `data` returns when the client has room for more.
- The server passes bytes to the `ByteStream` that the engine returned.

A stream is opened in two steps. The method of the engine checks the request, waits for the job and returns a
`ByteSource`. Calling it starts the flow of bytes.

The streams of a step are a narrower interface, `StepSink` and `RunningStep`. They carry the frames of srun as they
are, with the header of warpdeck_agent.wire.steps, because only srun and the node interpret these.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from warpdeck.model import ExitStatus
from warpdeck.protocol.requests import StepOrder
from warpdeck.protocol.results import LogOpened


class StreamEnd(NamedTuple):
    """The end of a stream: an error and its code, or "", and the exit status of the job, if it has ended."""

    error: str = ""
    code: str = ""
    exit: ExitStatus | None = None


class ByteSink(Protocol):
    """The client's end of a stream. `opened` comes before the data, and `ended` is called at most once."""

    @property
    def is_open(self) -> bool:
        """Whether neither side has ended the stream."""
        ...

    async def opened(self, log: LogOpened) -> None: ...
    async def data(self, chunk: bytes) -> None:
        """Pass on bytes, and wait while the client has no room. In a tunnel, b"" ends this direction."""
        ...

    def ended(self, end: StreamEnd) -> None: ...


class ByteStream(Protocol):
    """The job's end of an open stream. Closing it again is harmless."""

    async def write(self, data: bytes) -> None:
        """Take bytes from the client. In a tunnel, b"" ends this direction. Raises ConnectionError."""
        ...

    async def resize(self, rows: int, cols: int) -> None: ...
    async def close(self) -> None: ...


ByteSource = Callable[[ByteSink], Awaitable[ByteStream]]
"""A log, terminal or tunnel that was found. Calling it starts the stream. Raises UserError or RemoteError."""


class CommandText(NamedTuple):
    """Text that srun prints in place of running a step, such as its help, and its exit code."""

    text: str
    code: int


class EndedStep(NamedTuple):
    """A step that has ended before its srun came back, with a note for the user."""

    note: str
    end: StreamEnd


class StepSink(Protocol):
    """The srun of a step."""

    async def data(self, frame: bytes) -> None:
        """Pass on output of a task with its header, and wait while the client has no room."""
        ...

    def note(self, line: str) -> None:
        """Send a line that srun itself prints."""
        ...

    def taken(self, size: int) -> None:
        """Acknowledge input that all nodes have taken, so that srun need not keep it."""
        ...

    def ended(self, end: StreamEnd) -> None: ...


class RunningStep(Protocol):
    """A step with a connected srun. The step ends if srun leaves, unless the link of its node broke."""

    @property
    def answer(self) -> dict[str, Any]:
        """The answer to srun: its labels, output files and input files."""
        ...

    async def run(self, sink: StepSink) -> None:
        """Pass data on until the step ends and all output was sent, then report the exit status."""
        ...

    def incoming(self, data: bytes) -> None:
        """Take input for one task or for all. Raises UserError if it exceeds the window."""
        ...

    async def order(self, order: StepOrder) -> None:
        """Signal all tasks, end the step, or report the status of its tasks in notes."""
        ...

    def left(self) -> None:
        """Note that srun has disconnected. It is not called after the end of the step."""
        ...


class HeldAllocation(NamedTuple):
    """An allocation with a connected salloc."""

    answer: dict[str, Any]
    revoked: Callable[[], Awaitable[str]]
    """Returns the message for salloc when the allocation has ended."""
    release: Callable[[int], Awaitable[None]]
    """Releases the allocation because salloc's command has ended with this exit code."""
    left: Callable[[], None]
    """Notes that salloc has disconnected. It is not called after the end of the allocation."""
    is_held: bool = True
    """Whether salloc holds the allocation from now on. Otherwise it continues without a client."""
