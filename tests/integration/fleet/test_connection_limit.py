"""First connections to nodes are limited in number, so that not all handshakes happen at once after a
start.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.waiting import eventually_async

from warpdeck.base.controller_starts import SiteIdentity
from warpdeck.base.paths import Paths
from warpdeck.fleet.fleet import MAX_FIRST_ATTEMPTS, AgentFleet
from warpdeck.model import Node, NodeName

MORE = 5


class Silent:
    """A host that accepts every connection and stays silent until told to hang up."""

    def __init__(self) -> None:
        self.came: list[asyncio.StreamWriter] = []

    async def take(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came.append(writer)


async def at_once() -> None:
    """Let all pending callbacks run."""


@pytest.fixture
async def host() -> AsyncIterator[tuple[Silent, int]]:
    silent = Silent()
    server = await asyncio.start_server(silent.take, "127.0.0.1", 0)
    yield silent, int(server.sockets[0].getsockname()[1])
    server.close()
    for writer in silent.came:
        writer.close()


async def test_further_connections_start_when_earlier_ones_have_finished(
    host: tuple[Silent, int], short_tmp: Path
) -> None:
    silent, port = host
    fleet = AgentFleet(Paths(str(short_tmp)), SiteIdentity("test"), random.Random(1))
    lost: list[object] = []
    fleet.start(lost.append, at_once)
    for number in range(MAX_FIRST_ATTEMPTS + MORE):
        fleet.connect(Node(name=NodeName(f"n{number}"), target=f"root@127.0.0.1:{port}"))
    try:
        await eventually_async(
            lambda: len(silent.came) == MAX_FIRST_ATTEMPTS, what="the first connections are open"
        )
        _, probe = await asyncio.open_connection("127.0.0.1", port)
        await eventually_async(
            lambda: len(silent.came) > MAX_FIRST_ATTEMPTS, what="a new connection is accepted at once"
        )
        assert len(silent.came) == MAX_FIRST_ATTEMPTS + 1, "the other connections wait"
        probe.close()
        for writer in silent.came[:MORE]:
            writer.close()
        await eventually_async(lambda: len(lost) >= MORE, what="these links are lost")
        await eventually_async(
            lambda: len(silent.came) > MAX_FIRST_ATTEMPTS + MORE, what="further connections are opened"
        )
    finally:
        await fleet.close()
