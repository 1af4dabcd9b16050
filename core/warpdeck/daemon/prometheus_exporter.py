"""HTTP server for Prometheus at GET /metrics.

It listens on loopback unless the site configures another address, because it has no password. It supports
only the part of HTTP that a scraper needs: one request per connection, a request head of bounded size and
time, and no body.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from warpdeck.config import Config

if TYPE_CHECKING:
    from warpdeck.controller.loop.change_listeners import ChangeListeners
    from warpdeck.controller.loop.scheduler_statistics import SchedulerStatistics
    from warpdeck.controller.state.state import State

log = logging.getLogger("warpdeck.metrics")

MAX_HEAD_BYTES = 8192
HEAD_S = 10.0
"""Seconds after which a client that has not sent its request or read the response is disconnected."""
MAX_SCRAPES = 8
"""Maximum number of concurrent scrapes. A further scrape gets status 503."""


class Exporter:
    """Metrics server. It moves to another address and port when the configuration changes."""

    def __init__(self, state: State, *, statistics: SchedulerStatistics, hub: ChangeListeners) -> None:
        self._state = state
        self._statistics = statistics
        self._hub = hub
        self._server: asyncio.Server | None = None
        self._address: tuple[str, int] = ("", 0)
        self._scrapes = 0
        self._hides_jobs = False
        """Whether jobs are private, so that metrics do not name them."""

    @property
    def port(self) -> int:
        """The port on which it listens, or 0 if it does not listen."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server is not None else 0

    async def apply_config(self, config: Config) -> None:
        """Listen as the configuration says.

        A port that cannot be opened is only logged, because jobs matter more.
        """
        self._hides_jobs = "jobs" in config.access.private_data
        address = (config.metrics_address, config.metrics_port)
        if address == self._address:
            return
        await self.close()
        self._address = address
        if not config.metrics_port:
            return
        try:
            self._server = await asyncio.start_server(
                self._serve, config.metrics_address, config.metrics_port, limit=MAX_HEAD_BYTES
            )
        except OSError as error:
            log.error("no metrics: cannot listen on %s port %d: %s", *address, error.strerror or error)
        else:
            log.info("metrics on http://%s:%d/metrics", config.metrics_address, self.port)

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._address = ("", 0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            status, body = await self._answer(head)
            writer.write(_response(status, body))
            async with asyncio.timeout(HEAD_S):
                await writer.drain()
        except asyncio.LimitOverrunError:
            writer.write(_response("431 Request Header Fields Too Large", b""))
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def _answer(self, head: bytes) -> tuple[str, bytes]:
        """Return the status line and the body for a request head."""
        method, _, rest = head.split(b"\r\n", 1)[0].partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return "405 Method Not Allowed", b"only GET\n"
        if path != b"/metrics":
            return "404 Not Found", b"see /metrics\n"
        if self._scrapes >= MAX_SCRAPES:
            return "503 Service Unavailable", b"too many scrapes at once\n"
        # Imported here because most sites have no Prometheus.
        from warpdeck.controller.presenters.prometheus_gauges import GaugeCollector

        self._scrapes += 1
        try:
            collector = GaugeCollector(
                self._state,
                self._statistics.counters,
                clients=len(self._hub.listeners),
                hides_jobs=self._hides_jobs,
            )
            text = await asyncio.to_thread(collector.text)
        finally:
            self._scrapes -= 1
        return "200 OK", text if method == b"GET" else b""


def _response(status: str, body: bytes) -> bytes:
    from prometheus_client.exposition import CONTENT_TYPE_LATEST

    kind = CONTENT_TYPE_LATEST if status.startswith("200") else "text/plain; charset=utf-8"
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
