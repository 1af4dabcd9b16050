"""Requests to a server in place of slurmrestd: the limits of an answer, the choice of the version, and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from warpdeck.engines.slurm.cluster.questions import Question
from warpdeck.engines.slurm.reading.job_table import COLUMNS
from warpdeck.engines.slurm.rest import server
from warpdeck.engines.slurm.rest.job_fields import VERSIONS
from warpdeck.engines.slurm.rest.server import Address, RestLost, get, read_address
from warpdeck.engines.slurm.rest.source import AGAIN_S, RestSource

RECORDED = Path(__file__).parents[2] / "data" / "slurm" / "26.05" / "rest_v0.0.45.json"
TOKEN = "aaaa.bbbb-cc_.dd"
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(folder: Path, answer: Answer) -> AsyncIterator[Address]:
    """Answer requests at a Unix socket."""
    path = folder / "socket"
    async with await asyncio.start_unix_server(answer, path):
        yield Address(unix=str(path))


def replying(*replies: bytes, heads: list[bytes] | None = None) -> Answer:
    """Return a server that gives these replies, one for each connection, and the last one again and again."""
    left = list(replies)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if heads is not None:
            heads.append(head)
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        writer.close()

    return answer


def http(status: str, text: bytes = b"") -> bytes:
    return f"HTTP/1.0 {status}\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text


async def test_bytes_behind_the_length_are_no_part_of_the_answer(tmp_path: Path) -> None:
    """slurmrestd 26.05 writes a second answer behind an error."""
    async with serving(
        tmp_path, replying(http("401 UNAUTHORIZED", b"no") + b"Connection: Close\r\n")
    ) as address:
        assert await get(address, "/x", TOKEN) == (401, b"no")


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (b"HTTP/1.0 200 OK\r\nContent-Length: 999999999999\r\n\r\n", "longer than 64 MiB"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n{", "cut off"),
        (b"HTTP/1.0 200 OK\r\n\r\n{}", "not of slurmrestd's form"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "not of slurmrestd's form"),
        (b"HTTP/1.0 200 OK\r\n" + b"X: y\r\n" * 20_000, "cut off"),
        (b"", "cut off"),
    ],
    ids=["too long", "short", "no length", "no HTTP", "long head", "nothing"],
)
async def test_an_answer_without_limits_is_refused(tmp_path: Path, reply: bytes, why: str) -> None:
    async with serving(tmp_path, replying(reply)) as address:
        with pytest.raises(RestLost, match=why):
            await get(address, "/x", TOKEN)


async def test_a_server_that_does_not_answer_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_S", 0.05)
    left = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client has left
        left.set()
        writer.close()

    async with serving(tmp_path, answer) as address:
        with pytest.raises(RestLost, match="did not answer within"):
            await get(address, "/x", TOKEN)
        await left.wait()
    with pytest.raises(RestLost, match="does not answer: No such file"):
        await get(Address(unix=str(tmp_path / "none")), "/x", TOKEN)


async def test_an_answer_comes_over_the_loopback_interface() -> None:
    async with await asyncio.start_server(replying(http("200 OK", b"{}")), "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        assert await get(read_address(f"http://127.0.0.1:{port}"), "/x", TOKEN) == (200, b"{}")


async def test_nothing_is_sent_over_https_before_the_server_is_known() -> None:
    received: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(65536))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        with pytest.raises(RestLost, match="does not answer"):
            await get(read_address(f"https://127.0.0.1:{port}"), "/x", TOKEN)
    assert received[0].startswith(b"\x16\x03") and TOKEN.encode() not in received[0]  # a TLS greeting


async def test_the_newest_version_that_the_server_has_is_used_and_kept(tmp_path: Path) -> None:
    heads: list[bytes] = []
    replies = [http("404 NOT FOUND"), http("404 NOT FOUND"), http("200 OK", RECORDED.read_bytes())]
    async with serving(tmp_path, replying(*replies, heads=heads)) as address:
        source = RestSource(f"unix:{address.unix}", TOKEN)
        for _ in range(2):
            reading = await source.read(Question.QUEUE)
            assert reading is not None and len(await as_list(reading.records(COLUMNS))) == 20
    assert [head.split()[1].split(b"/")[2].decode() for head in heads] == [*VERSIONS[:3], VERSIONS[2]]
    assert all(f"\r\nX-SLURM-USER-TOKEN: {TOKEN}\r\n".encode() in head for head in heads)
    row = source.row()
    assert row is not None and (row.version, row.problem) == (VERSIONS[2], "")


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (http("404 NOT FOUND"), "no version of data_parser from v0.0.41 to v0.0.45"),
        (http("401 UNAUTHORIZED"), "refuses the token in SLURM_JWT"),
        (http("511 Network Authentication Required"), "refuses the token in SLURM_JWT"),
        (http("302 Found"), "HTTP status 302"),
        (http("500 Internal Error", TOKEN.encode()), "HTTP status 500"),
        (http("200 OK", b"{}"), "unknown form"),
    ],
    ids=["unknown version", "401", "511", "redirect", "error", "no jobs"],
)
async def test_after_a_refusal_squeue_is_run_for_a_while(tmp_path: Path, reply: bytes, why: str) -> None:
    now = [1000.0]
    async with serving(tmp_path, replying(reply)) as address:
        source = RestSource(f"unix:{address.unix}", TOKEN, monotonic=lambda: now[0])
        assert source.serves(Question.QUEUE) and not source.serves(Question.LICENSES)
        assert await source.read(Question.QUEUE) is None
    row = source.row()
    assert row is not None and why in row.problem and TOKEN not in str(row)
    assert not source.serves(Question.QUEUE)
    now[0] += AGAIN_S
    assert source.serves(Question.QUEUE)


async def as_list(batches: AsyncIterator[list[dict[str, str]]]) -> list[dict[str, str]]:
    return [record async for records in batches for record in records]


async def test_a_lost_answer_about_the_nodes_leaves_the_queue_to_slurmrestd(tmp_path: Path) -> None:
    replies = [http("200 OK", RECORDED.read_bytes()), http("200 OK", b'{"nodes": [{"name": "n1"}]}')]
    async with serving(tmp_path, replying(*replies)) as address:
        source = RestSource(f"unix:{address.unix}", TOKEN)
        assert await source.read(Question.QUEUE) is not None
        assert await source.read(Question.NODES) is None
    row = source.row()
    assert row is not None and "unknown form" in row.problem and row.answers == ["queue", "partitions"]
    assert source.serves(Question.QUEUE) and not source.serves(Question.NODES)
