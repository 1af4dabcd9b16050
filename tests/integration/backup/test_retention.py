"""Ended jobs are purged in small transactions; the sums of their costs and the charged usage stay."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import defaultdict
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import msgspec
import pytest
from tests.support.home_state import job_ids, make_home
from tests.unit.store.test_store_contract import make_job, submission

from warpdeck.backup.verify import verify
from warpdeck.base.errors import StoreError
from warpdeck.base.paths import Paths
from warpdeck.config import Config
from warpdeck.config.tables import Retention as RetentionTable
from warpdeck.controller.loop.site_rules import RulesInForce, SiteRules
from warpdeck.controller.loop.wakeup import Wakeup
from warpdeck.controller.state.state import State
from warpdeck.daemon.retention import Retention
from warpdeck.model import JobId, JobState, Request
from warpdeck.model.finished_jobs import FinishedQuery
from warpdeck.notation.filters.job_filter import parse_filter
from warpdeck.notation.request.large_parts import MIN_BYTES, split
from warpdeck.ports.store import Changes, JournalEntry, PartsBlob
from warpdeck.store import SqliteStore
from warpdeck.store.batch_log import execute_batch
from warpdeck.store.database_copy import copy_database
from warpdeck.store.purge import BATCH_JOBS, CONDITIONS, EndLimit, archive

FUTURE = 4e9
ALL = EndLimit(FUTURE)
UNFINISHED = [8, 10]
TABLES = ("jobs", "requests", "runs", "steps", "curves", "journal", "past")


@contextlib.asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(str(path))
    try:
        yield store
    finally:
        await store.close()


async def purge(
    store: SqliteStore,
    limit: EndLimit = ALL,
    *,
    folder: Path | None = None,
    needed: Collection[int] = (),
) -> list[int]:
    """Purge, and return the number of jobs of each transaction."""
    rounds = store.purger.purge(
        limit=limit, archive_folder="" if folder is None else str(folder), needed=lambda: needed
    )
    return [count async for count in rounds]


def retention(store: SqliteStore, state: State, settings: RetentionTable, *, now: float) -> Retention:
    rules = SiteRules(
        state,
        RulesInForce(Config(retention=settings)),
        clock=lambda: now,
        wakeup=Wakeup(),
        lines={},
        groups_every_s=FUTURE,
    )
    return Retention(state, purger=store.purger, rules=rules, clock=lambda: now)


async def costs(store: SqliteStore, text: str = "") -> dict[tuple[str, ...], tuple[float, ...]]:
    """Return the costs by user, account, partition, state and reason."""
    found: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0] * 7)
    query = FinishedQuery(clauses=parse_filter(text))
    for group in await store.finished_costs(query):
        key = (group.user, group.account, group.partition, group.state, group.reason)
        found[key] = [a + b for a, b in zip(found[key], msgspec.structs.astuple(group.cost), strict=True)]
    return {key: tuple(round(value, 9) for value in values) for key, values in found.items()}


def counts(path: Path) -> dict[str, int]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return {table: db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in TABLES}


def problems(path: Path) -> list[str]:
    report = verify(Paths(str(path)), str(path), show=lambda text: None)
    return [each.sentence for each in report.problems]


async def test_purged_jobs_are_archived_and_their_costs_and_usage_stay(tmp_path: Path) -> None:
    home, folder = make_home(tmp_path / "home"), tmp_path / "archive"
    before = counts(home / "state.db")
    async with opened(home / "state.db") as store:
        usage = (await store.load(finished_since_unix=0.0)).usage
        all_costs, failed = await costs(store), await costs(store, "state:failed")
        assert sum(await purge(store, folder=folder)) == 8
        loaded = await store.load(finished_since_unix=0.0)
        assert [job.id for job in loaded.jobs] == UNFINISHED
        assert (loaded.usage, loaded.next_job_id) == (usage, 11)
        assert await costs(store) == all_costs
        assert await costs(store, "state:failed") == failed
        assert await costs(store, "name:bad") == {}, "names of purged jobs are not kept"
        assert await store.named(JobId(3)) == []
        assert sum(await purge(store, folder=folder)) == 0
    left = counts(home / "state.db")
    assert (left["jobs"], left["requests"], left["past"], left["runs"]) == (2, 2, 0, 0)
    [file] = folder.iterdir()
    assert file.name == "jobs-2026-11.db"
    assert {table: left[table] + number for table, number in counts(file).items()} == before
    assert job_ids(home) == UNFINISHED
    assert problems(home) == problems(file) == []


async def test_a_large_script_is_archived_and_stays_only_while_another_job_has_it(tmp_path: Path) -> None:
    path, folder = tmp_path / "state.db", tmp_path / "archive"
    extract, content = split(Request(script="#!/bin/sh\n#" + "x" * MIN_BYTES))
    assert content is not None and extract.parts is not None
    blob = PartsBlob(uid=1000, sha256=extract.parts.sha256, content=content)
    async with opened(path) as store:
        for number, ended_at in ((1, 50.0), (2, 60.0), (3, None)):
            job = msgspec.structs.replace(make_job(number, ended_at=ended_at), request=extract)
            await store.commit(msgspec.structs.replace(submission(job), parts=(blob,)))
        assert sum(await purge(store, folder=folder)) == 2
        assert await store.parts(1000, blob.sha256) == content
        job = msgspec.structs.replace(make_job(3, ended_at=70.0), request=extract)
        await store.commit(Changes(jobs=(job,)))
        assert sum(await purge(store, folder=folder)) == 1
        assert await store.parts(1000, blob.sha256) is None
    [file] = folder.iterdir()
    with contextlib.closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT sha256, content FROM request_parts").fetchall() == [(blob.sha256, content)]


async def test_a_purge_that_is_killed_after_the_archive_archives_each_row_once(tmp_path: Path) -> None:
    home, folder = make_home(tmp_path / "home"), tmp_path / "archive"
    async with opened(home / "state.db") as store:
        for _ in range(2):
            archive(str(home / "state.db"), str(folder), [1, 3])
        assert sum(await purge(store, folder=folder)) == 8
    [file] = folder.iterdir()
    assert counts(file)["jobs"] == 8
    assert problems(file) == []


async def test_numbers_of_journal_rows_that_are_given_again_replace_no_archived_rows(tmp_path: Path) -> None:
    path, folder = tmp_path / "state.db", tmp_path / "archive"
    async with opened(path) as store:
        for number in (1, 2):
            job = make_job(number, ended_at=1e9)
            entry = JournalEntry(at_unix=1.0, job_id=job.id, text=f"job {number}")
            await store.commit(msgspec.structs.replace(submission(job), journal=(entry,)))
            assert sum(await purge(store, folder=folder)) == 1
    with contextlib.closing(sqlite3.connect(folder / "jobs-2001-09.db")) as db:
        assert db.execute("SELECT text FROM journal ORDER BY seq").fetchall() == [("job 1",), ("job 2",)]


async def test_an_archive_that_cannot_be_written_keeps_the_jobs(tmp_path: Path) -> None:
    home, folder = make_home(tmp_path / "home"), tmp_path / "archive"
    folder.write_text("not a folder")
    async with opened(home / "state.db") as store:
        with pytest.raises(StoreError, match="cannot purge ended jobs"):
            await purge(store, folder=folder)
    assert len(job_ids(home)) == 10


async def test_a_submission_is_purged_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    with contextlib.closing(sqlite3.connect(home / "state.db")) as db:
        [last] = db.execute("SELECT MAX(end_at) FROM jobs WHERE array_job_id = 3").fetchone()
    async with opened(home / "state.db") as store:
        await purge(store, EndLimit(last))  # some tasks of array 3 ended before this time
        assert set(job_ids(home)) >= {3, 4, 5}
        await purge(store, needed={3})
        assert job_ids(home) == [3, 4, 5, *UNFINISHED]
        await purge(store)
        assert job_ids(home) == UNFINISHED


async def test_the_newest_jobs_stay(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    async with opened(home / "state.db") as store:
        await purge(store, EndLimit(0.0, most_jobs=2))
        assert job_ids(home) == [7, 8, 9, 10]
        await purge(store, EndLimit(0.0, most_jobs=2))
        assert job_ids(home) == [7, 8, 9, 10]


async def test_transactions_are_small_and_the_file_shrinks_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with opened(path) as store:
        jobs = [make_job(number, ended_at=1e9 + number) for number in range(1, 1501)]
        for job in jobs:
            request = msgspec.structs.replace(job.request, script="#!/bin/sh\n" + "x" * 4000)
            await store.commit(submission(msgspec.structs.replace(job, request=request)))
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = os.path.getsize(path)
        found = await purge(store, EndLimit(1e9 + 1401))
        assert sum(found) == 1400
        assert max(found) == BATCH_JOBS
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert os.path.getsize(path) < before / 4


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        (RetentionTable(), list(range(1, 11))),
        (RetentionTable(days=1), UNFINISHED),
        (RetentionTable(days=9), list(range(1, 11))),
        (RetentionTable(days=9, jobs=1), [8, 9, 10]),
    ],
)
async def test_a_round_follows_the_configuration(
    settings: RetentionTable, left: list[int], tmp_path: Path
) -> None:
    home = make_home(tmp_path / "home")
    async with opened(home / "state.db") as store:
        end_unix = max(job.end_at_unix or 0.0 for job in await store.finished_jobs(user=None, limit=10))
        await retention(store, State(), settings, now=end_unix + 2 * 86_400).run_round()
        assert job_ids(home) == left


async def test_jobs_in_memory_stay(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    async with opened(home / "state.db") as store:
        state = State()
        for job in await store.named(JobId(3)):
            state.upsert_job(job)
        purged = await retention(store, state, RetentionTable(days=1), now=FUTURE).run_round()
        assert (purged, job_ids(home)) == (5, [3, 4, 5, *UNFINISHED])


async def test_a_job_that_was_just_read_stays_because_an_order_may_follow(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    async with opened(home / "state.db") as store:
        [job] = await store.named(JobId(7))
        await purge(store)
        assert job_ids(home) == [7, *UNFINISHED]
        await store.commit(
            Changes(jobs=(msgspec.structs.replace(job, state=JobState.PENDING, end_at_unix=None),))
        )
        assert [each.id for each in (await store.load(finished_since_unix=0.0)).jobs] == [7, *UNFINISHED]


async def test_a_standby_that_follows_the_log_has_the_same_rows_after_a_purge(tmp_path: Path) -> None:
    path, copy = make_home(tmp_path / "home") / "state.db", tmp_path / "copy.db"
    async with opened(path) as store:
        log = await store.log.start()
        begin = log.position
        copy_database(str(path), str(copy), show=lambda text: None)
        await purge(store)
        batches = log.after(begin)
    assert batches
    with contextlib.closing(sqlite3.connect(copy)) as db:
        for batch in batches:
            execute_batch(db, batch.payload)
        db.commit()
        copied = db.execute("SELECT * FROM purged").fetchall()
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT * FROM purged").fetchall() == copied
    assert counts(copy) == counts(path)


@pytest.mark.parametrize("table", TABLES)
async def test_rows_of_a_submission_are_found_by_an_index(table: str, tmp_path: Path) -> None:
    async with opened(tmp_path / "state.db"):
        with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as db:
            plan = db.execute(
                f"EXPLAIN QUERY PLAN DELETE FROM {table} WHERE {CONDITIONS[table]}", (1,)
            ).fetchall()
    assert not [row[3] for row in plan if row[3].startswith("SCAN")]
