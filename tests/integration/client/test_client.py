"""The asyncio client with a scripted controller on a real socket: requests, merged deltas, acknowledgements
and errors.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.waiting import WAIT_S

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client.asyncio_client import GONE, AsyncioClient
from warpdeck.client.inbox import merge
from warpdeck.protocol import requests
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.results import Delta
from warpdeck_agent.wire.frames import data_frame, json_frame, parse_json, read_frame

Serve = Callable[["Peer"], Awaitable[None]]


class Peer:
    """The controller's end of the connection, played by a test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def next(self, *, word: str = "") -> dict[str, Any]:
        """Return the next message, optionally of this kind."""
        while True:
            async with asyncio.timeout(WAIT_S):
                _, payload = await read_frame(self._reader)
            message = parse_json(payload)
            if word in ("", message["t"]):
                return message

    def say(self, t: str, **fields: Any) -> None:
        self.writer.write(json_frame({"t": t, **fields}))


@contextlib.asynccontextmanager
async def controller(home: Path, serve: Serve) -> AsyncIterator[Paths]:
    """Open a socket whose connections are greeted and then served by `serve`."""
    failures: list[BaseException] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        try:
            assert (await peer.next())["t"] == "hello"
            peer.say("welcome", user="ada", uid=7, controller="c1")
            await serve(peer)
        except asyncio.IncompleteReadError:
            return
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            writer.close()

    home.mkdir()
    paths = Paths(str(home))
    server = await asyncio.start_unix_server(talk, paths.socket)
    try:
        yield paths
    finally:
        server.close()
        await server.wait_closed()
    assert not failures


def job(number: int, **fields: Any) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(
        JobRow(id=number, label=str(number), array_job_id=number, **fields)
    )
    return built


def delta(**fields: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"jobs": [], "gone_jobs": [], "nodes": [], "gone_nodes": [], "ready": False}
    return {"id": 1, **empty, **fields}


async def test_answers_find_their_callers_in_any_order(short_tmp: Path) -> None:
    async def serve(peer: Peer) -> None:
        first, second = await peer.next(), await peer.next()
        for message in (second, first):
            peer.say("ok", id=message["id"], result={"jobs": [job(1, name=message["users"][0])]})
        await peer.next()

    async with controller(short_tmp / "h", serve) as paths, await AsyncioClient.connect(paths) as client:
        assert client.welcome.user == "ada"
        one, two = await asyncio.gather(
            *(client.ask(requests.Jobs(users=(name,))) for name in ("one", "two"))
        )
        assert (one.jobs[0].name, two.jobs[0].name) == ("one", "two")


async def test_an_error_has_the_message_of_the_controller(short_tmp: Path) -> None:
    async def serve(peer: Peer) -> None:
        message = await peer.next()
        peer.say("error", id=message["id"], message="no such node", hint="see node ls", code="not_found")
        await peer.next()

    async with controller(short_tmp / "h", serve) as paths, await AsyncioClient.connect(paths) as client:
        with pytest.raises(UserError, match="no such node") as raised:
            await client.ask(requests.NodeResume(name="x"))
        assert (raised.value.hint, raised.value.code) == ("see node ls", "not_found")


async def test_a_lost_connection_ends_every_wait(short_tmp: Path) -> None:
    async def serve(peer: Peer) -> None:
        await peer.next()
        await peer.next()

    async with controller(short_tmp / "h", serve) as paths, await AsyncioClient.connect(paths) as client:
        waits = [asyncio.ensure_future(client.ask(requests.Status())) for _ in range(2)]
        ended = await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), WAIT_S)
        assert [getattr(each, "code", "") for each in ended] == [GONE, GONE]
        with pytest.raises(UserError) as raised:
            await client.ask(requests.Status())
        assert raised.value.code == GONE


async def test_an_answer_of_a_wrong_structure_has_a_clear_message(short_tmp: Path) -> None:
    async def serve(peer: Peer) -> None:
        message = await peer.next()
        peer.say("ok", id=message["id"], result={"pid": "not a number"})
        await peer.next()

    async with controller(short_tmp / "h", serve) as paths, await AsyncioClient.connect(paths) as client:
        with pytest.raises(UserError, match="unexpected answer"):
            await client.ask(requests.Status())


async def test_malformed_data_from_the_controller_has_a_clear_message(short_tmp: Path) -> None:
    async def serve(peer: Peer) -> None:
        await peer.next()
        peer.writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await peer.next()

    async with controller(short_tmp / "h", serve) as paths, await AsyncioClient.connect(paths) as client:
        with pytest.raises(UserError, match="unexpected message"):
            await client.ask(requests.Status())


async def test_unread_deltas_are_merged(short_tmp: Path) -> None:
    async def serve(peer: Peer) -> None:
        number = (await peer.next(word="subscribe"))["id"]
        for state in ("PENDING", "RUNNING", "COMPLETED"):
            peer.say("delta", **{**delta(jobs=[job(3, state=state)]), "id": number})
        peer.say("delta", **{**delta(gone_jobs=[9], ready=True), "id": number})
        peer.say("ok", id=(await peer.next(word="status"))["id"], result={})
        await peer.next(word="close")

    async with controller(short_tmp / "h", serve) as paths, await AsyncioClient.connect(paths) as client:
        deltas = client.subscribe()
        first = asyncio.ensure_future(anext(deltas))
        seen = [await asyncio.wait_for(first, WAIT_S)]
        with pytest.raises(UserError):  # its answer has no fields, but comes after all deltas
            await client.ask(requests.Status())
        if not seen[0].ready:
            seen.append(await asyncio.wait_for(anext(deltas), WAIT_S))
        await deltas.aclose()
    assert len(seen) <= 2
    assert seen[-1].ready and seen[-1].gone_jobs == [9]
    assert [row.state for part in seen for row in part.jobs][-1] == "COMPLETED"


def test_merging_keeps_the_latest_version_of_each_row() -> None:
    node = msgspec.to_builtins(NodeRow(name="a"))
    merged = merge(
        delta(jobs=[job(1, state="RUNNING"), job(2)], gone_jobs=[5], nodes=[node], ready=True),
        delta(jobs=[job(1, state="FAILED"), job(5)], gone_jobs=[2], gone_nodes=["a"]),
    )
    found = msgspec.convert(merged, Delta)
    assert [(row.id, row.state) for row in found.jobs] == [(1, "FAILED"), (5, "PENDING")]
    assert (found.gone_jobs, found.nodes, found.gone_nodes, found.ready) == ([2], [], ["a"], True)


async def test_a_log_is_acknowledged_when_it_is_read(short_tmp: Path) -> None:
    acked: list[int] = []

    async def serve(peer: Peer) -> None:
        number = (await peer.next(word="log"))["id"]
        peer.say("progress", id=number, line="waiting: for a GPU")
        peer.say("ok", id=number, result={"offset": 4, "size_bytes": 9, "path": "/x/out", "node": "n1"})
        peer.writer.write(data_frame(number, b"one\n"))
        peer.writer.write(data_frame(number, b"two\n"))
        for _ in range(2):
            acked.append((await peer.next(word="ack"))["size"])
        peer.say("end", stream=number, error="", exit={"code": 3, "signal": 0})
        await peer.next(word="close")

    reported: list[str] = []
    async with (
        controller(short_tmp / "h", serve) as paths,
        await AsyncioClient.connect(paths) as client,
        client.log("12", follow=True, progress=reported.append) as log,
    ):
        chunks = aiter(log)
        assert await anext(chunks) == b"one\n"
        assert acked == []
        assert [chunk async for chunk in chunks] == [b"two\n"]
    assert (log.exit, log.opened.path, reported, acked) == ((3, 0), "/x/out", ["waiting: for a GPU"], [4, 4])


async def test_an_interrupted_log_has_the_reason(short_tmp: Path) -> None:
    async def serve(peer: Peer) -> None:
        number = (await peer.next(word="log"))["id"]
        peer.say("end", stream=number, error="the node n1 went away", exit=None)
        await peer.next(word="close")

    async with (
        controller(short_tmp / "h", serve) as paths,
        await AsyncioClient.connect(paths) as client,
        client.log("12") as log,
    ):
        with pytest.raises(UserError, match="n1 went away"):
            await anext(aiter(log))


async def test_a_controller_is_started_only_on_request(short_tmp: Path) -> None:
    with pytest.raises(UserError, match="no controller is running"):
        await AsyncioClient.connect(Paths(str(short_tmp)), start=False)
    assert list(short_tmp.iterdir()) == []
