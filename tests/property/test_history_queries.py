"""Queries and filters of the history have the same results in SQL and in memory."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from warpdeck.controller.presenters.job_columns import job_row
from warpdeck.controller.presenters.search_records import ended_job
from warpdeck.controller.state.state import State
from warpdeck.model import (
    Allocation,
    ExitStatus,
    GpuRequest,
    GpuUsage,
    Job,
    JobId,
    JobState,
    NodeName,
    Request,
    Resources,
    Share,
    ShareStatus,
)
from warpdeck.model.finished_jobs import FINISHED_ORDERS, FinishedQuery, GroupCost
from warpdeck.notation.filters.job_filter import holds, parse_filter
from warpdeck.notation.request.sweep import with_sweep
from warpdeck.ports.store import Changes
from warpdeck.store import MemoryStore, SqliteStore

SCRIPTS = ("#!/bin/sh\n", with_sweep("#!/bin/sh\n", "lr=0.1,0.10 Seed=1..4 same=x"))
NAMES = ("train", "Eval", "ünïcode", "a%b_c")
WORDS = (
    *(
        "train",
        "EVAL",
        "an",
        "1",
        "r",
        "f",
        "cd",
        "gpu0",
        "%",
        "_",
        "!bob",
        "end>1s ago",
        "!end<=4s",
        "submit<5s ago",
        "user:ann",
        "user:me",
        "!user:me",
    ),
    *(
        "state:f",
        "state:comp",
        "!st:CD",
        "gpu>1",
        "gpu<=1",
        "!gpu=2",
        "cpu>=4",
        "nodes<2",
        "part:main",
        "id:1",
    ),
    *(
        "account:lab",
        "reason:oom",
        "reason:exit",
        "qos:normal",
        "name~ünï",
        "node:gpu01",
        "gpu>",
        "what:ever",
        "lr=0.1",
        "!sweep:seed=4",
        "sweep~lr",
        "seed=",
        "lr",
    ),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Job]:
    return [_job(draw, number) for number in range(1, draw(st.integers(1, 14)) + 1)]


def _job(draw: st.DrawFn, number: int) -> Job:
    gpus = draw(st.integers(0, 3))
    ran = draw(st.booleans())
    code, cause = draw(st.sampled_from([(0, ""), (1, ""), (137, "oom"), (0, "cancelled")]))
    node = NodeName(draw(st.sampled_from(["gpu01", "gpu02"])))
    end = float(draw(st.integers(100, 105)))
    done = ExitStatus(code=code, cause=cause)
    use = GpuUsage(seconds=8.0, busy_s=4.0, idle_s=2.0) if draw(st.booleans()) else None
    share = Share(node=node, cpus=draw(st.integers(1, 6)), mem_bytes=1 << 30, gpus=tuple(range(gpus)))
    task = draw(st.sampled_from([None, 3]))
    rest = ((0, 2, 1),) if task is None and draw(st.booleans()) else ()
    return Job(
        id=JobId(number),
        array_job_id=JobId(max(1, number - draw(st.integers(0, 1)))),
        array_task_id=task,
        pending_tasks=rest,
        request=Request(
            name=draw(st.sampled_from(NAMES)),
            script=draw(st.sampled_from(SCRIPTS)),
            account=draw(st.sampled_from(["", "lab", "Vision"])),
            resources=Resources(gpus=GpuRequest(per_node=gpus)),
        ),
        request_key=number,
        user=draw(st.sampled_from(["ann", "bob"])),
        uid=1000,
        state=draw(st.sampled_from([JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED])),
        submit_at_unix=float(draw(st.integers(0, 9))),
        start_at_unix=end - draw(st.integers(0, 50)) if ran else None,
        end_at_unix=end,
        exit=done,
        allocation=Allocation(shares=(share,)) if ran else None,
        shares=(ShareStatus(node=node, phase="exited", exit=done, gpu=use),) if ran else (),
    )


queries = st.builds(
    FinishedQuery,
    user=st.sampled_from([None, "ann", "kim"]),
    clauses=st.lists(st.sampled_from(WORDS), max_size=2).map(
        lambda text: parse_filter(" ".join(text), me="ann")
    ),
    order=st.sampled_from(FINISHED_ORDERS),
    descending=st.booleans(),
    until=st.sampled_from([None, 103.0]),
    offset=st.integers(0, 3),
    backwards=st.booleans(),
    limit=st.integers(1, 5),
)


@settings(max_examples=25)
@given(jobs=histories(), page_queries=st.lists(queries, min_size=1, max_size=12))
def test_sql_and_memory_give_the_same_pages_and_costs(
    jobs: list[Job], page_queries: Sequence[FinishedQuery]
) -> None:
    asyncio.run(_compare(jobs, page_queries))


async def _compare(jobs: list[Job], page_queries: Sequence[FinishedQuery]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sql, memory = await SqliteStore.open(str(Path(folder) / "state.db")), MemoryStore()
        try:
            for store in (sql, memory):
                requests = tuple((JobId(job.request_key), job.request) for job in jobs)
                await store.commit(Changes(requests=requests, jobs=tuple(jobs)))
            for query in page_queries:
                expected = await memory.search_finished(query, counted=True)
                assert await sql.search_finished(query, counted=True) == expected, query
                assert _rounded(await sql.finished_costs(query)) == _rounded(
                    await memory.finished_costs(query)
                )
        finally:
            await sql.close()


def _rounded(groups: Sequence[GroupCost]) -> list[tuple[object, ...]]:
    """Return the costs with rounded numbers, as sums of fractions differ in their last digits."""
    return sorted(
        (each.user, each.account, each.partition, each.state, each.reason)
        + tuple(round(float(figure), 6) for figure in msgspec.structs.astuple(each.cost))
        for each in groups
    )


@settings(max_examples=100)
@given(jobs=histories(), words=st.lists(st.sampled_from(WORDS), max_size=3))
def test_a_filter_gives_the_same_result_for_rows_and_stored_records(
    jobs: list[Job], words: list[str]
) -> None:
    test = holds(parse_filter(" ".join(words), me="ann"), now=104.0)
    for job in jobs:
        row = job_row(State(), job)
        assert test(row) == test(ended_job(job))
        assert row.reason == ended_job(job).reason


@settings(max_examples=25)
@given(jobs=histories(), order=st.sampled_from(FINISHED_ORDERS), descending=st.booleans())
def test_consecutive_pages_cover_the_history_from_both_ends(
    jobs: list[Job], order: str, descending: bool
) -> None:
    asyncio.run(_walk(jobs, FinishedQuery(order=order, descending=descending, limit=3)))


async def _walk(jobs: list[Job], query: FinishedQuery) -> None:
    memory = MemoryStore()
    await memory.commit(Changes(jobs=tuple(jobs)))
    whole = (await memory.search_finished(msgspec.structs.replace(query, limit=500), counted=False)).ids
    forth: list[int] = []
    while page := (
        await memory.search_finished(
            msgspec.structs.replace(query, beside=forth[-1] if forth else None), counted=False
        )
    ).ids:
        forth += page
    back: list[int] = []
    while page := (
        await memory.search_finished(
            msgspec.structs.replace(query, backwards=True, beside=back[0] if back else None), counted=False
        )
    ).ids:
        back = [*page, *back]
    assert tuple(forth) == tuple(back) == whole and len(whole) == len(jobs)
