"""Jobs with large scripts and environments: memory holds extracts, and each reader gets the whole text."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.bench.rig import rss_mb
from tests.integration.server.test_server import ANN, BOB
from tests.support.core import make_request
from tests.support.served import Raw, served

from warpdeck.model import JobId
from warpdeck.store import MemoryStore, SqliteStore

pytestmark = pytest.mark.root
SCRIPT = "#!/bin/bash\n" + "".join(f"echo {number}\n" for number in range(20_000))
ENVIRON = {"SECRET": "s" * 20_000, "SLURM_UMASK": "0077"}
JOBS = 100
JOB_MB = 0.9


async def test_every_reader_of_a_large_job_gets_the_whole_text(short_tmp: Path) -> None:
    store = await SqliteStore.open(str(short_tmp / "state.db"))
    async with served(short_tmp / "h", store=store) as site:
        ann = await Raw.connect(site.paths, uid=ANN)
        request = msgspec.to_builtins(make_request(script=SCRIPT, env=ENVIRON, script_args=("a", "b")))
        first = (await ann.request("submit", request=request, nonce="1" * 32))["result"]["job_id"]
        kept = site.controller.state.jobs[JobId(first)].request
        assert len(kept.script) < 100 and set(kept.env) == {"SLURM_UMASK"}
        assert (await ann.request("job", job=str(first)))["result"]["script"] == SCRIPT
        assert (await ann.request("job_environment", job=str(first)))["result"]["variables"] == ENVIRON
        records = await ann.request("records", ids=[str(first)], scripts=True)
        assert [row["script"] for row in records["result"]["jobs"]] == [SCRIPT]
        again = (await ann.request("rerun", job=str(first), nonce="2" * 32))["result"]["job_id"]
        await site.add_node("a")
        await site.until(lambda: len(site.fleet.launches) == 2)
        for launch, job_id in zip(site.fleet.launches, (first, again), strict=True):
            assert (launch.job_id, launch.script, launch.script_args) == (job_id, SCRIPT, ["a", "b"])
            assert ENVIRON.items() <= launch.env.items()
        await ann.close()


async def test_a_request_cannot_name_the_parts_of_another_users_job(short_tmp: Path) -> None:
    async with served(short_tmp / "h", store=MemoryStore()) as site:
        ann, bob = [await Raw.connect(site.paths, uid=uid) for uid in (ANN, BOB)]
        request = msgspec.to_builtins(make_request(env=ENVIRON))
        number = (await ann.request("submit", request=request, nonce="1" * 32))["result"]["job_id"]
        key = site.controller.state.jobs[JobId(number)].request.parts
        stolen = msgspec.to_builtins(make_request()) | {"parts": msgspec.to_builtins(key)}
        mine = (await bob.request("submit", request=stolen, nonce="2" * 32))["result"]["job_id"]
        assert site.controller.state.jobs[JobId(mine)].request.parts is None
        assert (await bob.request("job_environment", job=str(mine)))["result"]["variables"] == {}
        for raw in (ann, bob):
            await raw.close()


async def test_a_job_without_its_parts_fails_with_the_reason_and_is_still_shown(short_tmp: Path) -> None:
    store = MemoryStore()
    async with served(short_tmp / "h", store=store) as site:
        ann = await Raw.connect(site.paths, uid=ANN)
        request = msgspec.to_builtins(make_request(script=SCRIPT))
        number = (await ann.request("submit", request=request, nonce="1" * 32))["result"]["job_id"]
        store._parts.clear()  # The disk lost them.
        assert (await ann.request("job", job=str(number)))["result"]["script"].startswith("#!/bin/bash\n")
        refused = await ann.request("rerun", job=str(number), nonce="2" * 32)
        assert refused["t"] == "error" and "are not stored any more" in refused["message"]
        await site.add_node("a")
        await site.until(lambda: site.controller.state.jobs[JobId(number)].is_finished)
        assert not site.fleet.launches
        ended = site.controller.state.jobs[JobId(number)].exit
        assert ended is not None and "are not stored any more" in ended.message
        await ann.close()


async def test_scripts_of_many_jobs_are_sent_in_several_pages(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        ann = await Raw.connect(site.paths, uid=ANN)
        for number in range(20):
            request = msgspec.to_builtins(make_request(script=f"#!/bin/sh\n{number}" + "x" * 900_000))
            assert (await ann.request("submit", request=request, nonce=f"{number:032x}"))["t"] == "ok"
        ann.send("records", id=99, scripts=True)
        rows: list[dict[str, Any]] = []
        pages = 0
        while (message := await ann.next())["t"] != "ok":
            rows += message["part"]["jobs"]
            pages += 1
        rows += message["result"]["jobs"]
        assert pages >= 10
        assert len(rows) == 20 and all(len(row["script"]) > 900_000 for row in rows)
        await ann.close()


async def test_held_jobs_with_large_environments_use_little_memory(short_tmp: Path) -> None:
    """Each job of 0.9 MB used to add 0.9 MB."""
    store = await SqliteStore.open(str(short_tmp / "state.db"))
    async with served(short_tmp / "h", store=store) as site:
        ann = await Raw.connect(site.paths, uid=ANN)

        async def submit(number: int) -> None:
            env = {"V": os.urandom(int(JOB_MB * 500_000)).hex()}
            fields: dict[str, Any] = msgspec.to_builtins(make_request(env=env, hold=True))
            assert (await ann.request("submit", request=fields, nonce=f"{number:032x}"))["t"] == "ok"

        await submit(0)
        gc.collect()
        before_mb = rss_mb(os.getpid())
        for number in range(1, JOBS):
            await submit(number)
        gc.collect()
        grown_mb = rss_mb(os.getpid()) - before_mb
        assert grown_mb < JOBS * JOB_MB / 4, grown_mb
        await ann.close()
