"""Database rows that cannot be decoded are set aside and reported; all other rows are loaded."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import msgspec
import pytest
from tests.unit.store.test_store_contract import make_job, submission

from warpdeck.model import Condition, JobCurve, JobId, Node, NodeName, Reservation, UsageCurve
from warpdeck.model.created_by_nonce import CreatedObject, RequestId
from warpdeck.model.step import Step
from warpdeck.ports.store import Changes, UnreadableRow, UsageRecord
from warpdeck.store import SqliteStore
from warpdeck.store.salvage import KEYS, PLACEHOLDER_REASON

NOISE = b"\xc1\xc1\xc1"
"""No msgpack value begins with these bytes."""


async def filled(path: str) -> None:
    """Write three waiting jobs, a finished one with an earlier start, and one row of each other kind."""
    store = await SqliteStore.open(path)
    for number in (1, 2, 3):
        await store.commit(submission(make_job(number)))
    await store.commit(submission(make_job(4, ended_at=50.0)))
    first = JobId(1)
    await store.commit(
        Changes(
            runs=(make_job(4, ended_at=40.0),),
            nodes=(Node(name=NodeName("a"), target="root@a"), Node(name=NodeName("b"))),
            conditions=(Condition(node=NodeName("a"), at_unix=10.0),),
            reservations=(Reservation(name="night", start_unix=1.0, end_unix=2.0),),
            usage=(UsageRecord(account="lab", user="ann", qos="", at_unix=1.0, tres={}),),
            steps=(Step(job_id=first, restarts=0, number=0, name="train"),),
            created=(
                CreatedObject(uid=1000, request_id=RequestId("n", "d"), at_unix=1.0, job_id=1, label="1"),
            ),
            curves=(
                JobCurve(job_id=first, node=NodeName("a"), curve=UsageCurve(begin_unix=1.0, step_s=1.0)),
            ),
        )
    )
    await store.close()


def spoil(path: str, table: str, where: str = "1") -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute(f"UPDATE {table} SET data = ? WHERE {where}", (NOISE,)).rowcount
        db.commit()


async def test_an_unreadable_job_is_set_aside_and_the_others_are_loaded(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    await filled(path)
    spoil(path, "jobs", "id = 2")
    for _ in range(2):  # The second controller finds it set aside.
        store = await SqliteStore.open(path)
        loaded = await store.load(finished_since_unix=0.0)
        assert [job.id for job in loaded.jobs] == [1, 3, 4]
        [row] = loaded.unreadable
        assert (row.description, loaded.next_job_id) == ("job 2", 5)
        assert row.reason
        await store.close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        [[kept]] = db.execute("SELECT row FROM set_aside").fetchall()
    row_kept = msgspec.msgpack.decode(kept)
    assert (row_kept["id"], row_kept["user"], row_kept["data"]) == (2, "ann", NOISE)


async def test_unreadable_rows_in_all_tables_do_not_prevent_loading(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    await filled(path)
    for table in KEYS:
        spoil(path, table)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("INSERT OR REPLACE INTO meta VALUES ('waits', '{'), ('next_job_id', 'many')")
        db.commit()
    store = await SqliteStore.open(path)
    loaded = await store.load(finished_since_unix=0.0)
    assert (loaded.jobs, loaded.steps, loaded.usage, loaded.reservations) == ((), (), (), ())
    assert loaded.next_job_id == 5
    assert await store.curves(JobId(1)) == []
    assert await store.runs_of([JobId(4)]) == []
    later = await store.load(finished_since_unix=0.0)
    assert {row.table for row in later.unreadable} == set(KEYS)
    await store.close()


async def test_an_unreadable_request_sets_its_jobs_aside_too(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    await filled(path)
    spoil(path, "requests", "array_job_id = 4")
    store = await SqliteStore.open(path)
    loaded = await store.load(finished_since_unix=0.0)
    assert [job.id for job in loaded.jobs] == [1, 2, 3]
    assert {row.description for row in loaded.unreadable} == {"request 4", "job 4", "run 4 0"}
    await store.close()


async def test_an_unreadable_node_stays_known_and_is_drained(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    await filled(path)
    spoil(path, "nodes", "name = 'a'")
    store = await SqliteStore.open(path)
    nodes = {node.name: node for node in (await store.load(finished_since_unix=0.0)).nodes}
    stand_in = nodes[NodeName("a")]
    assert (stand_in.drained, stand_in.reason, stand_in.target) == (True, PLACEHOLDER_REASON, "a.invalid")
    assert not nodes[NodeName("b")].drained
    await store.commit(Changes(gone_nodes=(NodeName("a"),)))
    assert [node.name for node in (await store.load(finished_since_unix=0.0)).nodes] == ["b"]
    await store.close()


async def test_an_unreadable_ended_job_is_set_aside_when_it_is_requested(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    await filled(path)
    store = await SqliteStore.open(path)
    await store.load(finished_since_unix=1000.0)
    spoil(path, "jobs", "id = 4")
    assert await store.job(JobId(4)) is None
    assert [row.description for row in (await store.load(finished_since_unix=1000.0)).unreadable] == ["job 4"]
    await store.close()


async def test_job_ids_are_not_reused_if_the_next_id_is_lost(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    await filled(path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("INSERT OR REPLACE INTO meta VALUES ('next_job_id', '2')")
        db.commit()
    store = await SqliteStore.open(path)
    assert (await store.load(finished_since_unix=0.0)).next_job_id == 5
    await store.close()


@pytest.mark.parametrize("key", ["12", "12 0 3"])
def test_an_unreadable_row_is_named_in_readable_form(key: str) -> None:
    assert UnreadableRow(table="steps", key=key).description == f"step {key}"
