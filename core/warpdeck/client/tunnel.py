"""The client's end of a tunnel: opens it and relays its bytes to file descriptors.

The descriptors are a socket, or standard input and output. This module uses only the standard library and no
event loop, because every ssh starts `warpdeck proxy`. Neither direction blocks, so a side that does not read
stops only its own data. Data that was not written yet is not acknowledged, which bounds the buffered amount.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
from collections.abc import Callable, Iterator, Sequence

from warpdeck.base.errors import UserError
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, STREAM_WINDOW_BYTES

from .blocking_client import SyncClient


def open_tunnel(
    client: SyncClient,
    job: str,
    *,
    node: str = "",
    port: int | None = None,
    argv: Sequence[str] = (),
    forward: int = 0,
    progress: Callable[[str], None] | None = None,
) -> int:
    """Open a tunnel and return its stream number. It waits for the job's start. Raises UserError."""
    number = client.begin(
        "tunnel", job=job, node=node, argv=list(argv), forward=forward, **({"port": port} if port else {})
    )
    client.pass_on(number)
    while True:
        for word, value in client.events(number):
            if word == "ok":
                return number
            if word == "progress" and progress is not None:
                progress(value)
            if word == "end":
                raise TunnelRefused(value["error"], f"see `warpdeck show {job}`")


class TunnelRefused(UserError):
    """The node did not open the tunnel, or its target has failed. The message is the reason."""


def run_inside(
    client: SyncClient,
    job: str,
    argv: Sequence[str],
    *,
    node: str = "",
    progress: Callable[[str], None] | None = None,
) -> bytes:
    """Run a short command inside the job and return its output.

    Raises UserError, or TunnelRefused with its last output.
    """
    number = open_tunnel(client, job, node=node, argv=argv, progress=progress)
    client.send_data(number, b"")
    said = bytearray()
    while True:
        for word, value in client.events(number):
            if word == "data":
                said += value
                client.acknowledge(number, len(value))
            elif word == "end":
                if value["error"]:
                    raise TunnelRefused(value["error"], f"see `warpdeck show {job}`")
                return bytes(said)


class Relay:
    """A tunnel that is connected to a source and a sink of bytes, which may be the same socket."""

    def __init__(self, client: SyncClient, number: int, *, source: int, sink: int) -> None:
        self._client = client
        self._number = number
        self._source = source
        self._sink = sink
        self._credit = STREAM_WINDOW_BYTES
        self._unsent = bytearray()
        self._source_open = True
        self._sink_open = True
        self._said_all = False
        self._end: str | None = None

    def feed(self, data: bytes) -> None:
        """Queue bytes of the tunnel that were read before."""
        self._unsent += data

    def run(self) -> str:
        """Relay until the tunnel or the sink has ended. Returns the node's error, or "" if there was none."""
        with _not_blocking(self._source, self._sink):
            while self._end is None or (self._unsent and self._sink_open):
                self._turn()
        return self._end

    def _turn(self) -> None:
        poll = select.poll()
        link = self._client.fileno()
        if self._end is None:
            poll.register(link, select.POLLIN)
        wanted: dict[int, int] = {}
        if self._source_open and self._credit > 0 and self._end is None:
            wanted[self._source] = select.POLLIN
        if self._unsent and self._sink_open:
            wanted[self._sink] = wanted.get(self._sink, 0) | select.POLLOUT
        for descriptor, mask in wanted.items():
            poll.register(descriptor, mask)
        buffered = self._end is None and self._client.has_buffered(self._number)
        ready = dict(poll.poll(0 if buffered else None))
        if self._end is None and (buffered or link in ready):
            self._take()
        if wanted.get(self._source, 0) & select.POLLIN and self._source in ready:
            self._read_source()
        if self._unsent and self._sink in ready:
            self._write_sink()
        if self._said_all and not self._unsent and self._sink_open:
            self._end_sink()

    def _take(self) -> None:
        for word, value in self._client.events(self._number, timeout_s=0):
            if word == "data" and value:
                self._unsent += value
            elif word == "data":
                self._said_all = True
            elif word == "ack":
                self._credit += value["size"]
            elif word == "end":
                self._end = str(value["error"])

    def _read_source(self) -> None:
        try:
            data = os.read(self._source, min(DATA_CHUNK_BYTES, self._credit))
        except BlockingIOError:
            return
        except OSError:  # The connection was reset, so no more data will come from it.
            data = b""
        self._credit -= len(data)
        self._client.send_data(self._number, data)
        self._source_open = bool(data)

    def _write_sink(self) -> None:
        try:
            sent = os.write(self._sink, memoryview(self._unsent)[:DATA_CHUNK_BYTES])
        except BlockingIOError:
            return
        except OSError:  # The sink has no reader any more.
            self._sink_open = False
            if self._end is None:
                self._client.tell("close", stream=self._number)
                self._end = ""
            return
        del self._unsent[:sent]
        if self._end is None:
            self._client.acknowledge(self._number, sent)

    def _end_sink(self) -> None:
        """Close the sink for writing because the node's side has sent all of its data."""
        self._sink_open = False
        if stat.S_ISSOCK(os.fstat(self._sink).st_mode):
            with socket.socket(fileno=os.dup(self._sink)) as duplicate, contextlib.suppress(OSError):
                duplicate.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def _not_blocking(*descriptors: int) -> Iterator[None]:
    before = {descriptor: os.get_blocking(descriptor) for descriptor in descriptors}
    try:
        for descriptor in descriptors:
            os.set_blocking(descriptor, False)
        yield
    finally:
        for descriptor, blocking in before.items():
            with contextlib.suppress(OSError):
                os.set_blocking(descriptor, blocking)
