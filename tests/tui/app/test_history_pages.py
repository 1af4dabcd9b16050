"""A long history: the app requests and keeps only the pages that it shows."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import struct
from pathlib import Path

import pytest
from tests.tui.app.app_pilot import ME, AppPilot, run_app

from warpdeck.model import ExitStatus, Job, JobId, JobState, Request
from warpdeck.model.finished_jobs import FinishedQuery
from warpdeck.ports.store import Changes
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
    """Return a database of `MANY` ended jobs with ids from `FIRST` on, which are copies of two template jobs."""
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
    await store.commit(Changes(requests=((JobId(1), jobs[0].request),), jobs=jobs, next_job_id=1 << 21))
    await store.close()


def _copy(db: sqlite3.Connection, kind: int) -> None:
    """Copy the completed template (kind 1) to nine of ten ids, or the failed one (kind 2) to each tenth.

    All ids have the same packed length, so the id can be replaced in the packed job.
    """
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


def test_a_page_is_requested_relative_to_the_nearest_known_row() -> None:
    pages = PastPages(10 * PAGE_JOBS + 5)
    base = FinishedQuery(order="name")
    assert pages.query(0, base) == FinishedQuery(order="name", limit=PAGE_JOBS)
    assert pages.query(10, base) == FinishedQuery(order="name", backwards=True, limit=5)
    assert pages.query(9, base) == FinishedQuery(order="name", backwards=True, offset=5, limit=PAGE_JOBS)
    assert pages.put(4, [row(number) for number in range(PAGE_JOBS)])
    assert pages.query(5, base) == FinishedQuery(order="name", beside=PAGE_JOBS - 1, limit=PAGE_JOBS)
    assert pages.query(3, base) == FinishedQuery(order="name", beside=0, backwards=True, limit=PAGE_JOBS)


def test_few_pages_are_kept_and_incomplete_pages_are_rejected() -> None:
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


def test_the_visible_page_is_kept() -> None:
    pages = PastPages(1000 * PAGE_JOBS)
    rows = PastRows(pages, ("job",), now=2.0, missing=lambda page: None)
    for page in range(3 * PAGES_KEPT):
        pages.put(page, [row(page * PAGE_JOBS + at) for at in range(PAGE_JOBS)])
        rows.row(0)
    assert pages.has(0)


def cursor(ui: AppPilot) -> str:
    screen = ui.app.screen
    assert isinstance(screen, HistoryScreen)
    return screen.table.cursor_key


async def test_a_long_history_is_paged_filtered_sorted_and_exported(folder: Path, database: Path) -> None:
    store = await SqliteStore.open(str(database))
    try:
        async with run_app(folder, size=(100, 30), store=store) as ui:
            await ui.press("4")
            await ui.shows("1 of 50,000", "✗ F", "exit 1")
            assert cursor(ui) == str(LAST)
            await ui.press("G")
            await ui.until(lambda: cursor(ui) == str(FIRST), "the oldest under the cursor")
            await ui.shows("50,000 of 50,000")
            await ui.press("pageup", "pageup", "g")
            await ui.until(lambda: cursor(ui) == str(LAST), "the latest under the cursor")
            rng = random.Random(3)
            for _ in range(3):
                index = rng.randrange(MANY)
                ui.app.screen.query_one("#queue")._move_to(index)  # type: ignore[attr-defined]
                await ui.until(lambda at=index: cursor(ui) == str(LAST - at), f"the job at {index}")
            await ui.press("slash")
            await ui.type("rare")
            await ui.press("enter")
            await ui.shows("1 of 4 matching rare")
            assert cursor(ui) == "137507"
            await ui.press("s", "g")
            await ui.until(lambda: cursor(ui) == "100007", "the lowest id first")
            await ui.press("E")
            await ui.shows("Export 4 jobs")
            await ui.type("rare.json")
            await ui.press("enter")
            await ui.shows_notification("Wrote 4 jobs to rare.json")
            assert [each["id"] for each in json.loads(Path("rare.json").read_text())] == [
                *("100007", "112507", "125007", "137507")
            ]
            await ui.press("escape", "b")
            await ui.shows("Usage:", "50,000 jobs, 5,000 failed", "BY USER")
    finally:
        await store.close()
