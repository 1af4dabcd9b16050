"""Streams whose client disconnects leave nothing in the controller, and the job continues."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.served import Raw, served
from tests.support.waiting import WAIT_S

from warpdeck_agent.wire.frames import STREAM_WINDOW_BYTES


async def test_a_disconnected_log_follower_leaves_no_waiter(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        job, _ = await site.start_job()
        before, raw = len(site.controller.hub.listeners), await Raw.connect(site.paths)
        for number in range(1, 4):
            raw.send("log", id=number, job=str(job.id), follow=True)
            await site.until(lambda number=number: len(site.fleet.joined) == number)
            raw.send("close", stream=number)
            assert (await raw.request("status", number=100 + number))["t"] == "ok"
            await site.fleet.joined[-1].ended("")  # as a node's connection reports a closed stream
            await asyncio.sleep(0)
        await site.until(lambda: len(site.controller.hub.listeners) == before)
        await raw.close()


async def test_an_unread_log_is_not_delayed_by_its_reader(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        (job, _), raw = await site.start_job(), await Raw.connect(site.paths)
        raw.send("log", id=1, job=str(job.id), follow=True)
        await site.until(lambda: bool(site.fleet.joined))
        whole = b"x" * (2 * STREAM_WINDOW_BYTES)
        passing = asyncio.get_running_loop().create_task(site.fleet.joined[0].data(whole))
        read = b""
        while len(read) < STREAM_WINDOW_BYTES:  # frames, but no acknowledgement
            read += await raw.reader.read(1 << 20)
        assert not passing.done()
        raw.send("close", stream=1)
        async with asyncio.timeout(WAIT_S):
            await passing
        await raw.close()


async def test_a_disconnected_run_output_leaves_no_waiter(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        agent = await site.add_node("a")
        before, raw = len(site.controller.hub.listeners), await Raw.connect(site.paths)
        raw.send("run", id=1, errors=2, words=["true"], cwd="/", env={})
        await site.until(lambda: bool(site.fleet.launches))
        await site.report("a", agent.begin((site.fleet.launches[0].job_id, 0)))
        await site.until(lambda: len(site.fleet.joined) == 2)
        for number in (1, 2):
            raw.send("close", stream=number)
        assert (await raw.request("status", number=3))["t"] == "ok"
        for part in site.fleet.joined:
            await part.ended("")
        await asyncio.sleep(0)
        await site.until(lambda: len(site.controller.hub.listeners) == before)
        await raw.close()
