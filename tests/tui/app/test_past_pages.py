"""The history of very many jobs: only the pages that somebody looks at are asked for and kept, and they are the right ones."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import struct
from pathlib import Path

import pytest
from tests.tui.app.stage import ME, Stage, on_stage

from warpdeck.model import ExitStatus, Job, JobId, JobState, Request
from warpdeck.model.finished_jobs import FinishedQuery
from warpdeck.ports.ports import Changes
from warpdeck.protocol.job_rows import JobRow
from warpdeck.store import SqliteStore
from warpdeck_tui.screens.history import HistoryScreen
from warpdeck_tui.viewmodels.site.history_pages import PAGE_JOBS, PAGES_KEPT, PastPages, PastRows

MANY, FIRST = 50_000, 100_000
FIRST_END = 1_700_000_000.0
LAST = FIRST + MANY - 1


def template(number: int, *, failed: bool) -> Job:
    return Job(
        id=JobId(number),
        array_job_id=JobId(number),
        request_key=1,
        request=Request(name="common", account="lab"),
        user=ME,
        uid=1000,
        state=JobState.FAILED if failed else JobState.COMPLETED,
        submit_at_unix=FIRST_END,
        start_at_unix=FIRST_END + 1,
        end_at_unix=FIRST_END + 61,
        exit=ExitStatus(code=int(failed)),
    )


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of `MANY` ended jobs, ids from `FIRST` on, each written as one of two with another id."""
    path = tmp_path_factory.mktemp("past") / "state.db"
    asyncio.run(_begin(path))
    db = sqlite3.connect(path)
    with db:
        for kind in (1, 2):
            _copy(db, kind)
    db.close()
    return path


async def _begin(path: Path) -> None:
    store = await SqliteStore.open(str(path))
    jobs = (template(1 << 20, failed=False), template((1 << 20) + 1, failed=True))
    await store.commit(Changes(requests=((1, jobs[0].request),), jobs=jobs, next_job_id=1 << 21))
    await store.close()


def _copy(db: sqlite3.Connection, kind: int) -> None:
    """The one that completed (1) as nine of ten, the one that failed (2) as the tenth. Numbers of one length have one
    place in a packed job."""
    model = (1 << 20) + kind - 1
    (blob, *_), packed = (
        db.execute("SELECT data FROM jobs WHERE id = ?", (model,)).fetchone(),
        struct.Struct(">I"),
    )
    numbers = [FIRST + at for at in range(MANY) if (at % 10 == 9) == (kind == 2)]
    db.executemany(
        "INSERT INTO jobs SELECT ?1, ?1, user, state, 1, submit_at, ?2, ?3, 1 FROM jobs WHERE id = ?4",
        (
            (each, FIRST_END + each, blob.replace(packed.pack(model), packed.pack(each)), model)
            for each in numbers
        ),
    )
    columns = "user, account, partition, qos, state, short, reason, node_list, nodes, cpus, gpus, mem_bytes"
    db.executemany(
        f"INSERT INTO past SELECT ?1, ?1, ?1, ?2, {columns}, submit_at, ?3, ran_s, NULL, NULL, '' FROM past WHERE id = ?4",
        ((each, "rare" if each % 12_500 == 7 else "common", FIRST_END + each, model) for each in numbers),
    )
    db.execute("DELETE FROM jobs WHERE id = ?", (model,))
    db.execute("DELETE FROM past WHERE id = ?", (model,))


def row(number: int) -> JobRow:
    return JobRow(id=number, label=str(number), array_job_id=number, end=1.0)


def test_a_page_is_asked_for_from_the_nearest_place_that_is_known() -> None:
    pages = PastPages(10 * PAGE_JOBS + 5)
    base = FinishedQuery(order="name")
    assert pages.query(0, base) == FinishedQuery(order="name", limit=PAGE_JOBS)
    assert pages.query(10, base) == FinishedQuery(order="name", backwards=True, limit=5)
    assert pages.query(9, base) == FinishedQuery(order="name", backwards=True, offset=5, limit=PAGE_JOBS)
    assert pages.put(4, [row(number) for number in range(PAGE_JOBS)])
    assert pages.query(5, base) == FinishedQuery(order="name", beside=PAGE_JOBS - 1, limit=PAGE_JOBS)
    assert pages.query(3, base) == FinishedQuery(order="name", beside=0, backwards=True, limit=PAGE_JOBS)


def test_however_long_somebody_pages_few_jobs_are_kept_and_short_pages_are_noticed() -> None:
    pages = PastPages(1000 * PAGE_JOBS)
    missing: list[int] = []
    rows = PastRows(pages, ("job",), now=2.0, missing=missing.append)
    for page in range(100):
        assert rows.row(page * PAGE_JOBS)[0].text == "…" and missing.pop() == page
        pages.put(page, [row(page * PAGE_JOBS + at) for at in range(PAGE_JOBS)])
        assert rows.row(page * PAGE_JOBS)[0].text == str(page * PAGE_JOBS)
    kept = [page for page in range(100) if pages.has(page)]
    assert kept == list(range(100 - PAGES_KEPT, 100))
    assert rows.find(str(99 * PAGE_JOBS), near=0) == 99 * PAGE_JOBS
    assert rows.find("0", near=0) is None and rows.find("#77", near=0) == 77
    assert not pages.put(5, [row(1)])


def test_the_page_that_is_looked_at_stays() -> None:
    pages = PastPages(1000 * PAGE_JOBS)
    rows = PastRows(pages, ("job",), now=2.0, missing=lambda page: None)
    for page in range(3 * PAGES_KEPT):
        pages.put(page, [row(page * PAGE_JOBS + at) for at in range(PAGE_JOBS)])
        rows.row(0)
    assert pages.has(0)


def cursor(stage: Stage) -> str:
    screen = stage.app.screen
    assert isinstance(screen, HistoryScreen)
    return screen.table.cursor_key


async def test_very_many_jobs_are_paged_filtered_sorted_and_written(folder: Path, database: Path) -> None:
    store = await SqliteStore.open(str(database))
    try:
        async with on_stage(folder, size=(100, 30), store=store) as stage:
            await stage.press("4")
            await stage.shows("1 of 50,000", "✗ F", "exit 1")
            assert cursor(stage) == str(LAST)
            await stage.press("G")
            await stage.until(lambda: cursor(stage) == str(FIRST), "the oldest under the cursor")
            await stage.shows("50,000 of 50,000")
            await stage.press("pageup", "pageup", "g")
            await stage.until(lambda: cursor(stage) == str(LAST), "the latest under the cursor")
            rng = random.Random(3)
            for _ in range(3):
                index = rng.randrange(MANY)
                stage.app.screen.query_one("#queue")._move_to(index)  # type: ignore[attr-defined]
                await stage.until(lambda at=index: cursor(stage) == str(LAST - at), f"the job at {index}")
            await stage.press("slash")
            await stage.type("rare")
            await stage.press("enter")
            await stage.shows("1 of 4 matching rare")
            assert cursor(stage) == "137507"
            await stage.press("s", "g")
            await stage.until(lambda: cursor(stage) == "100007", "the lowest id first")
            await stage.press("E")
            await stage.shows("Export 4 jobs")
            await stage.type("rare.json")
            await stage.press("enter")
            await stage.told("Wrote 4 jobs to rare.json")
            assert [each["id"] for each in json.loads(Path("rare.json").read_text())] == [
                *("100007", "112507", "125007", "137507")
            ]
            await stage.press("escape", "b")
            await stage.shows("Usage:", "50,000 jobs, 5,000 failed", "BY USER")
    finally:
        await store.close()
