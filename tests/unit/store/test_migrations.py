"""Databases of every schema that a commit of warpdeck has written are migrated with all rows kept.

Each file of tests/data/schemas was written by the real controller of the last commit with that schema: it ran a job that
ends well, one that fails, an array, a job with a step, a requeued job, a canceled one, a held one, and a running one.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from warpdeck.base.errors import StoreError
from warpdeck.model import JobId
from warpdeck.store import SqliteStore
from warpdeck.store.migration import SCHEMA, migrate

FIXTURES = sorted((Path(__file__).parents[2] / "data" / "schemas").glob("*.sql"))
NUMBERED = pytest.mark.parametrize("fixture", FIXTURES, ids=[path.stem for path in FIXTURES])
JOBS = range(1, 11)
STATES = (
    "COMPLETED",
    "FAILED",
    "FAILED",
    "FAILED",
    "COMPLETED",
    "COMPLETED",
    "PENDING",
    "CANCELLED",
    "RUNNING",
)
"""The states of all jobs except job 6, which starts a step and fails where there are no steps."""
FIRST_WITH_USAGE, FIRST_WITH_CURVES, FIRST_WITH_STEPS, FIRST_WITH_RUNS = 2, 4, 5, 9


def make_database(fixture: Path, path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(fixture.read_text())
        assert user_version(db) == int(fixture.stem)


@contextlib.asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(str(path))
    try:
        yield store
    finally:
        await store.close()


def user_version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def rows(path: Path) -> Counter[str]:
    """Return the number of rows in each table."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return Counter({name: db.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in names})


def contents(path: Path) -> dict[str, bytes]:
    """Return the bytes of the database's files."""
    return {each.name: each.read_bytes() for each in path.parent.iterdir() if not each.name.endswith("-shm")}


def test_no_schema_lacks_a_fixture() -> None:
    assert [int(path.stem) for path in FIXTURES] == list(range(1, len(FIXTURES) + 1))
    assert 13 <= len(FIXTURES) <= SCHEMA


@NUMBERED
async def test_a_database_of_an_earlier_schema_is_migrated_with_all_rows(
    fixture: Path, tmp_path: Path
) -> None:
    path, version = tmp_path / "state.db", int(fixture.stem)
    make_database(fixture, path)
    before = rows(path)
    async with opened(path) as store:
        loaded = await store.load(finished_since_unix=0.0)
        counts = {
            "curves": sum([len(await store.curves(JobId(number))) for number in JOBS]),
            "steps": len(await store.steps_of([JobId(number) for number in JOBS])),
            "runs": len(await store.runs_of([JobId(number) for number in JOBS])),
        }
        assert all([await store.journal(JobId(number)) for number in JOBS])
    assert counts == {name: before[name] for name in counts}
    assert loaded.unreadable == ()
    assert [job.id for job in loaded.jobs] == list(JOBS)
    states = {int(job.id): job.state.value for job in loaded.jobs}
    assert states.pop(6) == ("COMPLETED" if version >= FIRST_WITH_STEPS else "FAILED")
    assert list(states.values()) == list(STATES)
    assert loaded.next_job_id == JOBS.stop
    assert [node.name for node in loaded.nodes] == ["node1"]
    assert len(loaded.usage) == (version >= FIRST_WITH_USAGE)
    after = rows(path)
    assert {name: after[name] for name in before if name != "meta"} == {
        name: before[name] for name in before if name != "meta"
    }
    assert after["past"] == sum(job.is_finished for job in loaded.jobs)
    assert (before["curves"] > 0, before["steps"] > 0, before["runs"] > 0) == (
        version >= FIRST_WITH_CURVES,
        version >= FIRST_WITH_STEPS,
        version >= FIRST_WITH_RUNS,
    )


@NUMBERED
async def test_a_migrated_database_has_the_schema_of_a_new_one(fixture: Path, tmp_path: Path) -> None:
    make_database(fixture, tmp_path / "old.db")
    found = []
    for name in ("old.db", "new.db"):
        await (await SqliteStore.open(str(tmp_path / name))).close()
        with contextlib.closing(sqlite3.connect(tmp_path / name)) as db:
            query = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
            found.append({row[0]: re.sub(r"[\s\"]+", " ", row[1]) for row in db.execute(query)})
            assert user_version(db) == SCHEMA
    assert found[0] == found[1]


@pytest.mark.parametrize("mode", ["wal", "delete"])
async def test_a_database_of_a_newer_schema_is_refused_without_a_write(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA journal_mode = {mode}")
        db.executescript(FIXTURES[-1].read_text())
        db.execute(f"PRAGMA user_version = {SCHEMA + 1}")
        db.commit()
        before = contents(path)  # in WAL mode, the rows are still in the -wal file
        message = f"its schema {SCHEMA + 1} is of a newer warpdeck (this one supports {SCHEMA}); install the newer version"
        with pytest.raises(StoreError, match=re.escape(message)):
            await SqliteStore.open(str(path))
        assert contents(path) == before


async def test_a_migration_on_a_full_disk_leaves_the_old_database_usable(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make_database(FIXTURES[0], path)
    before = rows(path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(
            f"PRAGMA max_page_count = {pages + 4}"
        )  # SQLite's own limit, with the error of a full disk
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="full"):
            migrate(db)
        db.execute("ROLLBACK")
    assert rows(path) == before
    await (await SqliteStore.open(str(path))).close()
    assert os.path.getsize(path) > 0
