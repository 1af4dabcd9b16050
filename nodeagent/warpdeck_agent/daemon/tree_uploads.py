"""The uploads of packed code trees over one controller connection."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Protocol

from warpdeck_agent.code.trees import TreeError, Upload
from warpdeck_agent.wire.messages import PutTree, StreamAck, StreamEnd


class TreeReceiver(Protocol):
    """Begins uploads, and learns how they end. `error` is "" if the tree is complete."""

    def upload(self, put: PutTree) -> Upload: ...
    def tree_arrived(self, sha256: str, error: str) -> None: ...


class _Running(NamedTuple):
    upload: Upload
    sha256: str


class TreeUploads:
    """The uploads that have begun and not ended, by their stream."""

    def __init__(self, receiver: TreeReceiver, tell: Callable[[Any], None]) -> None:
        self._receiver = receiver
        self._tell = tell
        self._running: Dict[int, _Running] = {}

    def begin(self, put: PutTree) -> None:
        """Begin an upload."""
        try:
            self._running[put.stream] = _Running(self._receiver.upload(put), put.sha256)
        except (TreeError, OSError) as error:
            self._report_failure(put.stream, put.sha256, error)

    def write(self, stream: int, data: bytes) -> None:
        """Add data to the upload on this stream, if there is one."""
        running = self._running.get(stream)
        if running is None:
            return
        try:
            running.upload.write(data)
            self._tell(StreamAck(stream=stream, size=len(data)))
        except (TreeError, OSError) as error:
            del self._running[stream]
            running.upload.abandon()
            self._report_failure(stream, running.sha256, error)

    def finish(self, stream: int) -> None:
        """Finish the upload on this stream, if there is one."""
        running = self._running.pop(stream, None)
        if running is None:
            return
        try:
            running.upload.finish()
        except (TreeError, OSError) as error:
            self._receiver.tree_arrived(running.sha256, str(error))
        else:
            self._receiver.tree_arrived(running.sha256, "")

    def abandon(self) -> None:
        """Abort all uploads."""
        for running in self._running.values():
            running.upload.abandon()
        self._running.clear()

    def _report_failure(self, stream: int, sha256: str, error: BaseException) -> None:
        self._tell(StreamEnd(stream=stream, error=str(error)))
        self._receiver.tree_arrived(sha256, f"the job's code did not arrive: {error}")
