"""Limits of one user's use of the controller, and service for other users meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from tests.bench.rig import rss_mb
from tests.integration.server.test_history import ended
from tests.integration.server.test_server import ANN, BOB, submitted
from tests.support.core import make_request
from tests.support.served import Raw, frame, served

from warpdeck.daemon.log_limit import LINES_A_SECOND, RateLimit
from warpdeck.engines.shared import job_records
from warpdeck.ports.store import Changes
from warpdeck.server import connection, quotas
from warpdeck.server.connection import OUTBOX_BYTES
from warpdeck.server.quotas import Budget
from warpdeck.store import SqliteStore
from warpdeck_agent.wire.frames import json_frame

pytestmark = pytest.mark.root


async def refused(raw: Raw) -> dict[str, Any]:
    """Return the next error that the client receives."""
    while (message := await raw.next())["t"] != "error":
        continue
    return message


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ("MAX_STREAMS_OF_USER", "you already have 10 open streams"),
        ("MAX_SUBSCRIPTIONS_OF_USER", "10 open subscriptions"),
    ],
)
async def test_streams_of_all_clients_of_a_user_are_counted_together(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, limit: str, text: str
) -> None:
    monkeypatch.setattr(quotas, limit, 10)
    async with served(short_tmp / "h") as site:
        clients = [await Raw.connect(site.paths, uid=ANN) for _ in range(3)]
        for number in range(1, 6):
            for raw in clients[:2]:
                raw.send("subscribe", id=number)
        for raw in clients[:2]:
            assert (await raw.request("status", number=100))["t"] == "ok"
        clients[2].send("subscribe", id=1)
        assert text in (await refused(clients[2]))["message"]
        other = await Raw.connect(site.paths, uid=BOB)
        assert (await other.request("subscribe", number=1))["t"] == "ok"
        clients[0].send("close", stream=1)
        assert (await clients[0].request("status", number=101))["t"] == "ok"
        assert (await clients[2].request("subscribe", number=2))["t"] == "ok"
        for raw in (*clients, other):
            await raw.close()


async def test_clients_that_never_read_use_little_memory_and_delay_no_others(
    short_tmp: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Five clients of Bob send requests with long answers and never read. Ann's requests are answered, and
    Bob's disconnect causes no error.
    """
    async with served(short_tmp / "h") as site:
        for number in range(400):
            await site.controller.apply(submitted(f"job-{number}" + "x" * 900))
        deaf = [await Raw.connect(site.paths, uid=BOB) for _ in range(5)]
        for raw in deaf:
            for number in range(1, 400):
                raw.send("records", id=number, ended=True)
        ann = await Raw.connect(site.paths, uid=ANN)
        for number in range(1, 6):
            assert (await ann.request("jobs", number=number, limit=10))["t"] == "ok"
        page_bytes = 400 * 4000
        for client in site.server.of_user(BOB):
            assert client.unread_bytes < OUTBOX_BYTES + page_bytes
        with caplog.at_level(logging.INFO):
            for raw in deaf:
                await raw.close()
            while site.server.of_user(BOB):
                assert (await ann.request("status", number=100))["t"] == "ok"
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
        await ann.close()


async def test_unread_answers_are_not_kept_in_memory(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of Bob's 320 open requests has an answer of two pages. No answer is in memory before it is
    sent.
    """
    monkeypatch.setattr(job_records, "PAGE_JOBS", 200)
    store = await SqliteStore.open(str(short_tmp / "state.db"))
    jobs = tuple(ended(number) for number in range(1, 401))
    requests = tuple((job.id, job.request) for job in jobs)
    await store.commit(Changes(requests=requests, jobs=jobs, next_job_id=401))
    async with served(short_tmp / "h", store=store) as site:
        before_mb = rss_mb(os.getpid())
        deaf = [await Raw.connect(site.paths, uid=BOB) for _ in range(5)]
        for raw in deaf:
            for number in range(1, 401):
                raw.send("records", id=number, ended=True)
        await site.until(lambda: all(each.unread_bytes > OUTBOX_BYTES for each in site.server.of_user(BOB)))
        assert rss_mb(os.getpid()) - before_mb < 60
        for raw in deaf:
            await raw.close()
    await store.close()


async def test_a_stalled_message_is_given_up_and_a_slow_one_is_not(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "STALL_S", 1.0)
    monkeypatch.setattr(connection, "PIECE_BYTES", 100)
    async with served(short_tmp / "h") as site:
        silent = await Raw.connect(site.paths, uid=BOB)
        silent.write(frame(b"x" * 50_000, length=4_000_000))
        slow = await Raw.connect(site.paths, uid=ANN)
        message = json_frame({"t": "status", "id": 1, "rest": "x" * 4000})
        begun = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() < begun + 2 * connection.STALL_S:
            slow.write(message[:60])
            message = message[60:]
            await asyncio.sleep(0.05)  # the rate of the link
        slow.write(message)
        assert (await slow.next())["t"] == "ok"
        [answer] = await silent.rest()
        assert "the rest of a message of 4,000,000 bytes did not come" in answer["message"]
        await site.until(lambda: not site.server.of_user(BOB))
        for raw in (silent, slow):
            await raw.close()


async def test_a_client_without_a_hello_is_disconnected(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HELLO_S", 0.2)
    async with served(short_tmp / "h") as site:
        for message in (b"", frame(b"x" * 50_000, length=4_000_000)):
            raw = await Raw.connect(site.paths, uid=BOB, hello=False)
            raw.write(message)
            assert await raw.rest() == []
            await raw.close()
            await site.until(lambda: not site.server.of_user(BOB))


async def test_requests_beyond_the_limit_of_a_user_wait_and_are_answered(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "MAX_REQUESTS_OF_USER", 2)
    async with served(short_tmp / "h") as site:
        raw = await Raw.connect(site.paths, uid=ANN)
        for number in range(1, 51):
            raw.send("submit", id=number, request=ask_of(f"job{number}"))
        answers = [await raw.next() for _ in range(50)]
        assert {answer["t"] for answer in answers} == {"ok"}
        await raw.close()


def ask_of(name: str) -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(make_request(name))
    return found


async def test_long_messages_wait_for_the_memory_budget_and_are_all_handled() -> None:
    budget, held, most = Budget(10), 0, 0

    async def read(size_bytes: int) -> None:
        nonlocal held, most
        async with budget.reserved(size_bytes):
            held += size_bytes
            most = max(most, held)
            await asyncio.sleep(0)
            held -= size_bytes

    waiting = [asyncio.create_task(read(size_bytes)) for size_bytes in (4, 7, 3, 10, 1, 9)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert [isinstance(end, asyncio.CancelledError) for end in ends] == [each == 1 for each in range(6)]
    assert most <= 10
    async with budget.reserved(10):
        assert held == 0


def test_log_lines_beyond_the_rate_limit_are_counted_and_dropped() -> None:
    now = [0.0]
    limit = RateLimit(lambda: now[0])

    def passes(text: str) -> bool:
        return limit.filter(logging.LogRecord("warpdeck", logging.INFO, "", 0, text, ("x",), None))

    assert sum(passes("a client of %s left") for _ in range(100)) == LINES_A_SECOND
    assert passes("another %s")
    now[0] = 1.0
    later = logging.LogRecord("warpdeck", logging.INFO, "", 0, "a client of %s left", ("ann",), None)
    assert limit.filter(later)
    assert later.getMessage() == "a client of ann left (80 lines like this were left out before)"
