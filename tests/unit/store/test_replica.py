"""The numbered log of the store, and the copy of the database that a standby keeps from it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from warpdeck.base.errors import StoreError
from warpdeck.model import Job, JobId, Request
from warpdeck.ports.store import Changes, JournalEntry
from warpdeck.store import SqliteStore
from warpdeck.store.batch_log import BatchLog
from warpdeck.store.replica import NOWHERE, Replica


def changes(number: int) -> Changes:
    job = Job(
        id=JobId(number),
        array_job_id=JobId(number),
        user="ann",
        uid=1000,
        request=Request(name=f"job{number}"),
        submit_at_unix=float(number),
    )
    return Changes(
        requests=((JobId(number), job.request),),
        jobs=(job,),
        journal=(JournalEntry(at_unix=float(number), job_id=JobId(number), text=f"line {number}"),),
        next_job_id=number + 1,
    )


def content(path: Path) -> list[str]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return list(db.iterdump())


Open = Callable[[Path], Awaitable[SqliteStore]]


@pytest.fixture
async def open_store() -> AsyncIterator[Open]:
    """Opens a store, which is closed at the end of the test."""
    opened = []

    async def open_one(path: Path) -> SqliteStore:
        opened.append(await SqliteStore.open(str(path)))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


async def copied(store: SqliteStore, folder: Path) -> Replica:
    """Return a replica with a full copy of the store."""
    await store.log.copy_to(str(folder / "transfer.db"))
    replica = Replica(str(folder / "standby.db"))
    data = (folder / "transfer.db").read_bytes()
    replica.begin_copy()
    replica.add_to_copy(data)
    replica.finish_copy(len(data))
    return replica


def log_of(store: SqliteStore) -> BatchLog:
    log = store.log.batches
    assert log is not None
    return log


def missing(store: SqliteStore, replica: Replica) -> int:
    """Return the number of batches that the replica lacks. It must not need a full copy."""
    batches = log_of(store).after(replica.position())
    assert batches is not None
    return len(batches)


async def test_a_replica_that_applies_all_batches_equals_the_database(
    open_store: Open, tmp_path: Path
) -> None:
    store = await open_store(tmp_path / "state.db")
    await store.commit(changes(1))
    await store.log.start()
    replica = await copied(store, tmp_path)
    for number in range(2, 30):
        await store.commit(changes(number))
    await store.commit(Changes(gone_jobs=(JobId(7),)))
    assert missing(store, replica) == 29
    batches = log_of(store).after(replica.position())
    assert batches is not None
    replica.apply(batches[:11])
    replica.apply(batches[11:])
    assert missing(store, replica) == 0
    await store.close()
    replica.close()
    assert content(tmp_path / "standby.db") == content(tmp_path / "state.db")


async def test_the_numbers_continue_after_a_restart(open_store: Open, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = await open_store(path)
    await store.log.start()
    await store.commit(changes(1))
    replica = await copied(store, tmp_path)
    await store.close()
    store = await open_store(path)
    assert missing(store, replica) == 0
    await store.commit(changes(2))
    assert missing(store, replica) == 1
    await store.close()
    replica.close()


async def test_a_replica_of_another_history_needs_a_full_copy(open_store: Open, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = await open_store(path)
    await store.log.start()
    await store.commit(changes(1))
    await store.log.copy_to(str(tmp_path / "backup.db"))
    await store.commit(changes(2))
    replica = await copied(store, tmp_path)
    await store.close()
    os.replace(tmp_path / "backup.db", path)
    store = await open_store(path)
    assert log_of(store).after(replica.position()) is None
    await store.commit(changes(3))  # The same number as the replica's last batch, with other rows.
    assert log_of(store).position.number == replica.position().number
    assert log_of(store).after(replica.position()) is None
    assert log_of(store).after(NOWHERE) is None
    await store.close()
    replica.close()


async def test_a_replica_refuses_a_batch_that_does_not_follow(open_store: Open, tmp_path: Path) -> None:
    store = await open_store(tmp_path / "state.db")
    await store.log.start()
    replica = await copied(store, tmp_path)
    await store.commit(changes(1))
    await store.commit(changes(2))
    batches = log_of(store).after(replica.position())
    assert batches is not None
    before = replica.position()
    with pytest.raises(StoreError, match="does not follow"):
        replica.apply(batches[1:])
    assert replica.position() == before
    replica.apply(batches)
    with pytest.raises(StoreError, match="does not follow"):
        replica.apply(batches)
    await store.close()
    replica.close()


async def test_a_log_that_was_stopped_begins_with_a_full_copy(open_store: Open, tmp_path: Path) -> None:
    store = await open_store(tmp_path / "state.db")
    await store.log.start()
    replica = await copied(store, tmp_path)
    await store.log.stop()
    await store.commit(changes(1))
    await store.log.start()
    assert log_of(store).after(replica.position()) is None
    await store.close()
    replica.close()


async def test_old_batches_are_dropped_and_then_a_full_copy_is_needed(
    open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpdeck.store.batch_log.MAX_KEPT", 5)
    store = await open_store(tmp_path / "state.db")
    await store.log.start()
    replica = await copied(store, tmp_path)
    for number in range(1, 6):
        await store.commit(changes(number))
    assert missing(store, replica) == 5
    await store.commit(changes(6))
    assert log_of(store).after(replica.position()) is None
    await store.close()
    replica.close()


async def test_a_commit_waits_until_the_standby_has_it(open_store: Open, tmp_path: Path) -> None:
    store = await open_store(tmp_path / "state.db")
    log = await store.log.start()
    log.waits_for_standby = True
    commit = asyncio.create_task(store.commit(changes(1)))
    while log.position.number == 0:
        await log.wait_changed()
    await asyncio.wait([commit], timeout=0.1)
    assert not commit.done()
    assert log.behind(float("inf"))[0] == 1
    log.acknowledge(1)
    await commit
    assert log.behind(float("inf")) == (0, 0.0)
    commit = asyncio.create_task(store.commit(changes(2)))
    while log.position.number == 1:
        await log.wait_changed()
    log.stop_waiting()
    await commit
    await store.close()


async def test_a_copy_that_is_cut_off_leaves_the_earlier_database(open_store: Open, tmp_path: Path) -> None:
    store = await open_store(tmp_path / "state.db")
    await store.log.start()
    await store.commit(changes(1))
    replica = await copied(store, tmp_path)
    position = replica.position()
    data = (tmp_path / "transfer.db").read_bytes()
    replica.begin_copy()
    replica.add_to_copy(data[: len(data) // 2])
    with pytest.raises(StoreError, match="bytes instead of"):
        replica.finish_copy(len(data))
    replica.close()
    assert replica.position() == position
    assert not list(tmp_path.glob("*.copy"))
    await store.close()
    replica.close()
