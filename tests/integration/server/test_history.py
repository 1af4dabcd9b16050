"""Records of jobs of any age: where they are found, access to their scripts, and paging of long histories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.core import make_request
from tests.support.served import Raw, served

from warpdeck.engines.shared.job_records import PAGE_JOBS
from warpdeck.model import ExitStatus, Job, JobId, JobState
from warpdeck.ports.store import Changes
from warpdeck.store import MemoryStore

OTHER_UID = 65_534
LONG_AGO = 1_000_000.0


def ended(number: int, *, user: str = "ann", uid: int = 1) -> Job:
    return Job(
        id=JobId(number),
        array_job_id=JobId(number),
        request=make_request(f"old{number % 2}"),
        user=user,
        uid=uid,
        state=JobState.FAILED,
        submit_at_unix=LONG_AGO + number,
        start_at_unix=LONG_AGO + number,
        end_at_unix=LONG_AGO + number + 10,
        exit=ExitStatus(code=1),
    )


async def filled(count: int) -> MemoryStore:
    store = MemoryStore()
    jobs = [ended(number, user="ann" if number % 3 else "bob") for number in range(1, count + 1)]
    requests = tuple((job.id, job.request) for job in jobs)
    await store.commit(Changes(requests=requests, jobs=tuple(jobs), next_job_id=count + 1))
    return store


async def test_a_long_history_comes_in_pages_by_id(short_tmp: Path) -> None:
    count = 2 * PAGE_JOBS + 1
    async with served(short_tmp / "h", store=await filled(count)) as site:
        client = await Raw.connect(site.paths)
        client.send("records", id=1, ended=True, fields=["id"])
        pages: list[list[int]] = []
        while True:
            message = await client.next()
            last = message["t"] == "ok"
            pages.append([job["id"] for job in (message["result"] if last else message["part"])["jobs"]])
            if last:
                break
        await client.close()
        assert [len(page) for page in pages] == [PAGE_JOBS, PAGE_JOBS, 1]
        assert [number for page in pages for number in page] == list(range(1, count + 1))


async def test_ended_jobs_are_returned_only_on_request(short_tmp: Path) -> None:
    async with served(short_tmp / "h", store=await filled(6)) as site:
        client = await Raw.connect(site.paths)

        async def found(**fields: Any) -> list[int]:
            answer = await client.request("records", fields=["id"], **fields)
            return [job["id"] for job in answer["result"]["jobs"]]

        assert await found() == []
        assert await found(ended=True, users=["bob"]) == [3, 6]
        assert await found(ended=True, names=["old1"], users=["ann"]) == [1, 5]
        assert await found(ended=True, ids=["2", "99", "4"]) == [2, 4]
        assert await found(ended=True, since=LONG_AGO + 14) == [4, 5, 6]
        assert await found(ended=True, since=LONG_AGO, until=LONG_AGO + 2) == [1, 2]
        assert await found(ended=True, states=["CD"], since=1.0) == []
        assert await found(ended=True, states=["F"], since=1.0, until=LONG_AGO + 12) == [1, 2]
        assert await found(ended=True, states=["R"], since=LONG_AGO + 15, until=LONG_AGO + 15) == [5, 6]
        await client.close()


@pytest.mark.root
async def test_scripts_are_returned_only_to_their_owner(short_tmp: Path) -> None:
    async with served(short_tmp / "h", store=await filled(1)) as site:
        for uid, script in ((0, "#!/bin/sh\n"), (OTHER_UID, "")):
            client = await Raw.connect(site.paths, uid=uid)
            answer = await client.request("records", ended=True, ids=["1"], fields=["id"], scripts=True)
            assert answer["result"]["jobs"] == [{"id": 1, "script": script}]
            await client.close()


async def test_invalid_queries_are_refused(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        client = await Raw.connect(site.paths)
        queries: tuple[tuple[dict[str, Any], str], ...] = (
            ({"ids": ["x"]}, "is not a job ID"),
            ({"states": ["NOPE"]}, "no job state"),
            ({"fields": ["nope"]}, "unknown job field nope"),
        )
        for fields, text in queries:
            answer = await client.request("records", **fields)
            assert answer["t"] == "error" and text in answer["message"]
        await client.close()
