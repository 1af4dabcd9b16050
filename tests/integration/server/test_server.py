"""The controller's socket: access, limits and bad clients, which others do not notice."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop
from tests.support.core import make_request
from tests.support.served import Raw, Served, as_uid, frame, served

from warpdeck import __version__
from warpdeck.base.errors import RESTART, UserError
from warpdeck.model import JobId, Request
from warpdeck.protocol import requests
from warpdeck.server import paging
from warpdeck.server.connection import MAX_STREAMS, OUTBOX_BYTES
from warpdeck_agent.wire.frames import data_frame, json_frame

HELLO = json_frame({"t": "hello", "version": requests.API_VERSION})
ANN, BOB = 4001, 4002


def spoken(message: Any) -> bytes:
    return HELLO + frame(json.dumps(message).encode())


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "not a warpdeck frame"),
        (random.Random(7).randbytes(64).replace(b"J", b"x").replace(b"B", b"x"), ""),
        (frame(b"", length=2**30), "over the limit"),
        (frame(b"{" * 50), "not understood"),
        (frame(b"\xff\xfe"), "not understood"),
        (frame(b"[" * 200_000), "not understood"),
        (frame(b'{"t":"status","id":1}'), "first message must be hello"),
        (data_frame(1, b"x"), "first message must be hello"),
        (frame(b'{"t":"hello","version":99}'), "speaks protocol 1, the client 99"),
        (spoken({"t": "sing", "id": 1}), "not understood"),
        (spoken({"id": 1}), "not understood"),
        (spoken({"t": "hello", "version": 1}), "hello was already sent"),
        (spoken({"t": "status", "id": -1}), "not understood"),
        (spoken({"t": "cancel", "id": 1, "jobs": "12"}), "not understood"),
        (spoken({"t": "cancel", "id": 1, "jobs": ["1" * 5000]}), "not understood"),
        (spoken({"t": "resize", "stream": 1, "rows": 0, "cols": 80}), "not understood"),
        (spoken({"t": "log", "id": 1, "job": "1", "channel": "../x"}), "not understood"),
        (spoken({"t": "subscribe", "id": 1}) * 2, "hello was already sent"),
        (spoken({"t": "subscribe", "id": 1}) + frame(b'{"t":"status","id":1}'), "id 1 is in use"),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_malformed_clients_get_a_message_and_affect_no_others(
    short_tmp: Path, data: bytes, text: str
) -> None:
    async with served(short_tmp / "h") as site:
        bad = await Raw.connect(site.paths, hello=False)
        bad.write(data)
        answer = [message for message in await bad.rest() if message["t"] == "error"]
        assert len(answer) == 1 and text in answer[0]["message"] and answer[0]["hint"]
        await bad.close()
        async with await site.client() as good:
            assert (await good.ask(requests.Status())).pid == os.getpid()


async def test_a_client_of_another_version_gets_the_next_step(short_tmp: Path) -> None:
    """It sends a request that this controller does not know."""
    async with served(short_tmp / "h") as site:
        newer = await Raw.connect(site.paths)
        newer.send("from_the_future", id=1)
        [message] = await newer.rest()
        assert f"warpdeck {__version__}" in message["message"] and "from_the_future" in message["message"]
        assert RESTART in message["hint"]
        await newer.close()


async def test_an_incomplete_frame_delays_no_others(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        half = await Raw.connect(site.paths)
        half.write(frame(b"{", length=1000))
        async with await site.client() as good:
            await good.ask(requests.Status())
        await half.close()


def broken(**fields: Any) -> dict[str, Any]:
    request: dict[str, Any] = msgspec.to_builtins(make_request())
    resources = {**request["resources"], **fields.pop("resources", {})}
    return {**request, "resources": resources, **fields}


@pytest.mark.parametrize(
    "request_",
    [
        broken(resources={"nodes_min": 0}),
        broken(resources={"nodes_min": -1}),
        broken(resources={"nodes_max": 10**9}),
        broken(resources={"cpus_per_task": 0}),
        broken(resources={"tasks": -5}),
        broken(resources={"mem_per_node_bytes": -1}),
        broken(resources={"gpus": {"per_node": -1}}),
        broken(name="x" * 5000),
        broken(time_limit_s=0),
        broken(nice=10**12),
        broken(begin_at_unix=1e300),
        broken(deadline_unix=-1e300),
        broken(dependencies={"clauses": []}),
        broken(dependencies={"clauses": [{"kind": "whenever", "job_id": 1}]}),
        broken(dependencies={"clauses": [{"kind": "afterok", "job_id": 10**30}]}),
        broken(script=5),
    ],
)
async def test_a_request_outside_of_the_field_limits_is_refused(
    short_tmp: Path, request_: dict[str, Any]
) -> None:
    async with served(short_tmp / "h") as site:
        raw = await Raw.connect(site.paths)
        raw.send("submit", id=1, request=request_)
        [error] = await raw.rest()
        assert "not understood" in error["message"]
        await raw.close()


@pytest.mark.parametrize(
    "have", [{"a": "1"}, {"0.1": "x"}, {"0.1": "-1"}, {"0": "1"}, {"9" * 5000 + ".1": "1"}]
)
async def test_a_reconnecting_srun_must_send_numeric_offsets(short_tmp: Path, have: dict[str, str]) -> None:
    """The node that is asked for the rest parses them."""
    async with served(short_tmp / "h") as site:
        raw = await Raw.connect(site.paths)
        raw.send("srun_attach", id=1, step="1.0", have=have)
        [error] = await raw.rest()
        assert "not understood" in error["message"]
        await raw.close()


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (broken(script="#!/bin/sh\n\0"), "NUL"),
        (broken(env={"A": "\0"}), "NUL"),
        (broken(script=""), "neither a script nor a command"),
        (broken(array={"ranges": [[0, 9, 1], [5, 6, 1]]}), "overlap"),
        (broken(array={"ranges": [[0, 9, 0]]}), "overlap"),
        (broken(array={"ranges": [[0, 10**8, 1]]}), "more than 1,000,000"),
        (broken(resources={"nodes_min": 2, "nodes_max": 100_000}), "can never start"),
        (broken(resources={"tasks": 10_000_000}), "can never start"),
        (broken(snapshot={"commit": "c", "tree": "0" * 40, "root": "/"}), "was not uploaded"),
        (broken(snapshot={"commit": "c", "tree": "../../x", "root": "/"}), "an invalid id"),
    ],
)
async def test_an_impossible_request_is_refused_with_a_message(
    short_tmp: Path, request_: dict[str, Any], text: str
) -> None:
    async with served(short_tmp / "h") as site:
        await site.add_node("a")
        raw = await Raw.connect(site.paths)
        answer = await raw.request("submit", request=request_)
        assert answer["t"] == "error" and text in answer["message"] and answer["hint"], answer
        assert (await raw.request("status", number=2))["result"]["jobs"] == {}
        await raw.close()


async def test_the_streams_of_a_client_are_limited(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        raw = await Raw.connect(site.paths)
        for number in range(1, MAX_STREAMS + 2):
            raw.send("subscribe", id=number)
        error: dict[str, Any] = {}
        while error.get("t") != "error":
            error = await raw.next()
        assert error["id"] == MAX_STREAMS + 1 and "streams are already open" in error["message"]
        raw.send("close", stream=1)
        assert (await raw.request("status", number=1000))["t"] == "ok"
        await raw.close()


@pytest.mark.root
async def test_the_number_of_clients_is_limited(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        many = [await Raw.connect(site.paths) for _ in range(requests.MAX_CLIENTS_OF_USER)]
        one_more = await Raw.connect(site.paths, hello=False)
        [error] = await one_more.rest()
        assert "clients of root are already connected" in error["message"]
        other = await Raw.connect(site.paths, uid=ANN)
        for raw in (*many, one_more, other):
            await raw.close()


@pytest.mark.parametrize("turns", range(8))
def test_a_stopping_controller_accepts_no_clients(short_tmp: Path, turns: int) -> None:
    """After any iteration of the controller's event loop, a new connection finds the end and the client tries
    again.
    """

    async def leave() -> list[str]:
        async with served(short_tmp / "home") as up:
            link = socket.socket(socket.AF_UNIX)
            link.connect(up.paths.socket)
            link.sendall(json_frame({"t": "hello", "version": requests.API_VERSION}))
            for _ in range(turns):
                await asyncio.sleep(0)
            await up.server.close()
            client = Raw(*await asyncio.open_unix_connection(sock=link))
            client.send("queue", id=1)
            answer = [message["t"] for message in await client.rest()]
            await client.close()
            return answer

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(leave()) in ([], ["welcome"])


async def test_a_client_that_never_reads_delays_no_others(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        await site.add_node("a")
        for number in range(300):
            await site.controller.apply(submitted(f"job-{number}" + "x" * 900))
        deaf = await Raw.connect(site.paths)
        wanted = 40
        for number in range(1, wanted + 1):
            deaf.send("jobs", id=number, limit=1000)
        async with await site.client() as good:
            for _ in range(20):
                await good.ask(requests.Status())
        [connection] = [each for each in site.server.connections if each.unread_bytes]
        page_bytes = 300 * 2000
        assert connection.unread_bytes < OUTBOX_BYTES + page_bytes < wanted * page_bytes / 10
        answered = [(await deaf.next())["id"] for _ in range(wanted)]
        assert sorted(answered) == list(range(1, wanted + 1))
        await deaf.close()


def submitted(name: str, **fields: Any) -> Any:
    from tests.support.core import ANN as WHO

    from warpdeck.controller.events.events import Submitted

    return Submitted(principal=WHO, request=make_request(name, hold=True, **fields))


async def test_long_lists_are_paged_and_returned_as_one(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        count = 2 * paging.JOB_PAGE_ROWS + 7
        for number in range(count):
            await site.controller.apply(submitted(f"j{number}"))
        async with await site.client() as client:
            rows = (await client.ask(requests.Jobs(limit=count))).jobs
            assert [row.id for row in rows] == list(range(1, count + 1))
            assert [row.id for row in (await client.ask(requests.Jobs(limit=5))).jobs] == list(
                range(count - 4, count + 1)
            )
        raw = await Raw.connect(site.paths)
        raw.send("jobs", id=1, limit=count)
        assert [(await raw.next())["t"] for _ in range(3)] == ["rows", "rows", "ok"]
        await raw.close()


async def test_jobs_are_found_by_user_state_and_id(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        await site.add_node("a")
        async with await site.client() as client:
            await client.ask(requests.Submit(request=make_request("one", hold=True)))
            two = msgspec.structs.replace(make_request("two", hold=True), array=None)
            await client.ask(requests.Submit(request=two))
            await client.ask(requests.Cancel(jobs=("2",)))
            assert [row.id for row in (await client.ask(requests.Jobs())).jobs] == [1]
            assert [row.id for row in (await client.ask(requests.Jobs(finished=True))).jobs] == [1, 2]
            assert [row.id for row in (await client.ask(requests.Jobs(states=("ca",)))).jobs] == [2]
            assert [
                row.id for row in (await client.ask(requests.Jobs(states=("PENDING", "CANCELLED")))).jobs
            ] == [1, 2]
            assert [row.id for row in (await client.ask(requests.Jobs(ids=("2",)))).jobs] == [2]
            assert (await client.ask(requests.Jobs(users=("nobody",)))).jobs == []
            with pytest.raises(UserError, match="no job state 'BUSY'"):
                await client.ask(requests.Jobs(states=("BUSY",)))
            with pytest.raises(UserError, match="is not a job ID"):
                await client.ask(requests.Jobs(ids=("x",)))


async def test_rows_have_the_requested_fields(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        await site.controller.apply(submitted("one"))
        raw = await Raw.connect(site.paths)
        raw.send("jobs", id=1, fields=["name", "why", "label"])
        [row] = (await raw.next())["result"]["jobs"]
        assert list(row) == ["name", "why", "label"] and row["name"] == "one" and row["why"]["code"]
        raw.send("jobs", id=2, fields=["name", "colour"])
        assert "unknown job field colour" in (await raw.next())["message"]
        await raw.close()


# ---- Access


@pytest.mark.root
async def test_a_personal_controller_serves_its_user_and_root_only(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        peers = {uid: await Raw.connect(site.paths, uid=uid, hello=False) for uid in (0, ANN, BOB)}
        with as_uid(ANN):
            for raw in peers.values():
                raw.send("hello", version=1)
            message = {uid: await raw.next() for uid, raw in peers.items()}
        assert (message[0]["t"], message[ANN]["t"]) == ("welcome", "welcome")
        assert "serves only its own user" in message[BOB]["message"]
        for raw in peers.values():
            await raw.close()


@pytest.mark.root
async def test_users_of_a_shared_controller_access_only_their_own_jobs(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        await site.add_node("a")
        ann = await Raw.connect(site.paths, uid=ANN)
        bob = await Raw.connect(site.paths, uid=BOB)
        root = await Raw.connect(site.paths)
        request = msgspec.to_builtins(make_request("secret", hold=True, env={"TOKEN": "x"}))
        job = str((await ann.request("submit", request=request))["result"]["job_id"])
        assert site.controller.state.jobs[JobId(int(job))].uid == ANN
        for kind, fields in (
            ("cancel", {"jobs": [job]}),
            ("hold", {"jobs": [job]}),
            ("release", {"jobs": [job]}),
            ("requeue", {"jobs": [job]}),
            ("job", {"job": job}),
            ("log", {"job": job}),
            ("attach", {"job": job}),
        ):
            denied = await bob.request(kind, number=7, **fields)
            assert denied["t"] == "error" and f"belongs to {ANN}" in denied["message"], kind
        for kind, fields in (
            ("node_drain", {"name": "a", "reason": "x"}),
            ("node_add", {"target": "h"}),
            ("node_rm", {"name": "a"}),
            ("shutdown", {}),
        ):
            assert (
                "only root and the controller's user"
                in (await bob.request(kind, number=7, **fields))["message"]
            )
        rows = (await bob.request("jobs", number=8))["result"]["jobs"]
        assert [row["name"] for row in rows] == ["secret"] and "TOKEN" not in json.dumps(rows)
        assert (await ann.request("job", number=9, job=job))["result"]["row"]["user"] == str(ANN)
        assert (await root.request("cancel", number=9, jobs=[job]))["t"] == "ok"
        for raw in (ann, bob, root):
            await raw.close()


# ---- Uploads


async def upload(raw: Raw, data: bytes, *, number: int = 1, **lies: Any) -> dict[str, Any]:
    facts = {"tree": "a" * 40, "sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    raw.send("put_tree", id=number, **{**facts, **lies})
    first = await raw.next()
    if first["t"] == "error":
        return first
    raw.write(data_frame(number, data))
    raw.send("end", stream=number)
    while (message := await raw.next())["t"] == "ack":
        continue
    return message


async def test_an_upload_is_kept_if_it_matches_its_announcement(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        raw = await Raw.connect(site.paths)
        announcements: tuple[tuple[dict[str, Any], str], ...] = (
            ({"sha256": "0" * 64}, "damaged"),
            ({"size_bytes": 3}, "larger than announced"),
            ({"size_bytes": 30}, "damaged"),
            ({"size_bytes": 0}, "the snapshot has 0 bytes"),
            ({"size_bytes": 2**40}, "the limit"),
            ({"tree": "../x"}, "an invalid id"),
        )
        for number, (lies, text) in enumerate(announcements, start=1):
            answer = await upload(raw, b"packed tree", number=number, **lies)
            assert text in answer["message"] + answer["hint"], lies
            assert not (await raw.request("have_tree", number=50 + number, tree="a" * 40))["result"]["have"]
        assert (await upload(raw, b"packed tree", number=40))["t"] == "ok"
        assert (await raw.request("have_tree", number=41, tree="a" * 40))["result"]["have"]
        await raw.close()
        files = [path.name for path in (short_tmp / "h" / "trees" / str(os.geteuid())).iterdir()]
        assert sorted(files) == ["a" * 40 + ".tar.gz", "a" * 40 + ".tar.gz.sha256"]


CODE = {ANN: b"of ann", BOB: b"of bob"}


@pytest.mark.root
async def test_the_digest_of_another_users_code_gives_no_access(short_tmp: Path) -> None:
    """Bob gives the digest of Ann's code in all his requests; his job gets the code that he uploaded
    himself.
    """
    async with served(short_tmp / "h") as site:
        digests = {uid: hashlib.sha256(code).hexdigest() for uid, code in CODE.items()}
        for uid, code in CODE.items():
            with as_uid(uid):
                raw = await Raw.connect(site.paths)
            assert (await upload(raw, code))["t"] == "ok"
            if uid == ANN:
                await raw.close()
        snapshot = {"commit": "c", "tree": "a" * 40, "root": "/", "sha256": digests[ANN], "size_bytes": 6}
        request = msgspec.to_builtins(make_request(script="#!/bin/sh\n")) | {"snapshot": snapshot}
        raw.send("submit", id=7, request=request, components=[request])
        assert (await raw.next())["t"] == "ok"
        jobs = list(site.controller.state.jobs.values())
        assert len(jobs) == 2
        for job in jobs:
            assert job.uid == BOB
            assert job.request.snapshot is not None and job.request.snapshot.sha256 == digests[BOB]
        raw.send("submit", id=8, request=request | {"snapshot": snapshot | {"tree": digests[ANN]}})
        assert "was not uploaded" in (await raw.next())["message"]
        await raw.close()


async def test_an_incomplete_upload_leaves_nothing(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        raw = await Raw.connect(site.paths)
        raw.send("put_tree", id=1, tree="a" * 40, sha256="0" * 64, size_bytes=10)
        assert (await raw.next())["t"] == "ack"
        raw.write(data_frame(1, b"12345"))
        assert (await raw.next())["t"] == "ack"
        await raw.close()
        folder = short_tmp / "h" / "trees" / str(os.geteuid())
        async with asyncio.timeout(30), await site.client() as other:
            while list(folder.iterdir()):
                await other.ask(requests.Status())


def test_submit_accepts_exactly_the_request_model() -> None:
    assert msgspec.convert(msgspec.to_builtins(make_request()), Request) == make_request()


async def test_a_submission_is_answered_with_its_id(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        assert isinstance(site, Served)
        async with await site.client() as client:
            done = await client.ask(requests.Submit(request=make_request()))
            assert (done.job_id, done.label, done.tasks) == (1, "1", 1)
