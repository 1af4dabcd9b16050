"""Both stores satisfy the same contract; the SQLite store does so across restarts and with a full disk."""

from __future__ import annotations

import contextlib
import math
import os
import re
import sqlite3
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from warpdeck.base.errors import StoreError
from warpdeck.model import (
    Condition,
    ExitStatus,
    GpuDrain,
    GpuRequest,
    GpuUuid,
    Job,
    JobCurve,
    JobId,
    JobState,
    Node,
    NodeName,
    Request,
    Reservation,
    Resources,
    UsageCurve,
)
from warpdeck.model.finished_jobs import FinishedQuery
from warpdeck.notation.filters.job_filter import parse_filter
from warpdeck.notation.request.sweep import with_sweep
from warpdeck.ports.store import LAST_RUNS, MAX_CONDITIONS, Changes, JournalEntry, Store, UsageRecord, Waits
from warpdeck.store import MemoryStore, SqliteStore
from warpdeck.store.schema import MIGRATIONS
from warpdeck_agent.wire.epochs import ControllerStart


def make_job(number: int, *, ended_at: float | None = None, user: str = "ann") -> Job:
    return Job(
        id=JobId(number),
        array_job_id=JobId(number),
        request=Request(name=f"job{number}", script="#!/bin/sh\n", env={"KEY": "ünïcode"}),
        user=user,
        uid=1000,
        state=JobState.PENDING if ended_at is None else JobState.FAILED,
        submit_at_unix=10.0,
        end_at_unix=ended_at,
        exit=None if ended_at is None else ExitStatus(code=3),
    )


def submission(job: Job) -> Changes:
    return Changes(requests=((job.array_job_id, job.request),), jobs=(job,), next_job_id=job.id + 1)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = (
        MemoryStore() if request.param == "memory" else await SqliteStore.open(str(tmp_path / "state.db"))
    )
    yield made
    await made.close()


async def test_committed_changes_are_loaded(store: Store) -> None:
    job = make_job(1)
    await store.commit(submission(job))
    node = Node(name=NodeName("gpu01"), cpus=8)
    await store.commit(Changes(nodes=(node,)))
    loaded = await store.load(finished_since_unix=0.0)
    assert loaded.jobs == (job,)
    assert loaded.nodes == (node,)
    assert loaded.next_job_id == 2


async def test_curves_are_stored_by_job_and_node_and_replaced_by_the_next_start(store: Store) -> None:
    def curve(job: int, node: str, point: float | None) -> JobCurve:
        columns: dict[str, tuple[float | None, ...]] = {"gpu_util_pct": (point, None)}
        return JobCurve(
            job_id=JobId(job),
            node=NodeName(node),
            curve=UsageCurve(begin_unix=5.0, step_s=2.0, columns=columns),
        )

    await store.commit(Changes(curves=(curve(1, "b", 1.0), curve(1, "a", 2.0), curve(2, "a", 3.0))))
    assert await store.curves(JobId(1)) == [curve(1, "a", 2.0), curve(1, "b", 1.0)]
    await store.commit(Changes(curves=(curve(1, "a", None),)))
    assert await store.curves(JobId(1)) == [curve(1, "a", None), curve(1, "b", 1.0)]
    assert await store.curves(JobId(3)) == []
    steps = [msgspec.structs.replace(curve(1, "a", 9.0), step=number) for number in (0, 1)]
    await store.commit(Changes(curves=tuple(steps)))
    assert await store.curves(JobId(1), step=1) == steps[1:]
    assert await store.curves(JobId(1)) == [curve(1, "a", None), curve(1, "b", 1.0)], (
        "the job's own are others"
    )


async def test_only_recently_ended_jobs_are_loaded_but_all_are_found(store: Store) -> None:
    old, new, waiting = make_job(1, ended_at=100.0), make_job(2, ended_at=200.0), make_job(3)
    for job in (old, new, waiting):
        await store.commit(submission(job))
    loaded = await store.load(finished_since_unix=150.0)
    assert [job.id for job in loaded.jobs] == [2, 3]
    assert await store.job(JobId(1)) == old
    assert await store.job(JobId(9)) is None
    assert await store.finished_jobs(user=None, limit=1) == [new]
    assert await store.finished_jobs(user="ann", limit=9) == [old, new]
    assert await store.finished_jobs(user="bob", limit=9) == []


async def test_earlier_starts_are_stored_with_their_jobs(store: Store) -> None:
    ended = make_job(5, ended_at=100.0)
    again = msgspec.structs.replace(make_job(5), restarts=1)
    await store.commit(submission(ended))
    await store.commit(Changes(jobs=(again,), runs=(ended,)))
    assert await store.runs_of([JobId(5), JobId(6)]) == [ended]
    assert await store.job(JobId(5)) == again
    found = [
        await store.run_ids(users=users, since_unix=since, until_unix=200.0)
        for users, since in (((), 50.0), (("ann",), 50.0), (("bob",), 50.0), ((), 150.0))
    ]
    assert found == [[5], [5], [], []]


async def test_tasks_share_the_request_of_their_array(store: Store) -> None:
    array = make_job(5)
    task = msgspec.structs.replace(array, id=JobId(6), array_task_id=0)
    await store.commit(submission(array))
    await store.commit(Changes(jobs=(task,)))
    assert await store.named(JobId(5)) == [array, task]
    assert await store.named(JobId(6)) == [task]
    assert await store.named(JobId(7)) == []


async def test_equal_resource_requests_are_shared_after_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    store = await SqliteStore.open(path)
    for number, gpus in ((1, 4), (2, 4), (3, 8)):
        resources = Resources(gpus=GpuRequest(per_node=gpus), nodelist=(NodeName("a"),))
        job = make_job(number)
        changed = msgspec.structs.replace(
            job, request=msgspec.structs.replace(job.request, resources=resources)
        )
        await store.commit(submission(changed))
    first, second, third = sorted((await store.load(finished_since_unix=0.0)).jobs, key=lambda job: job.id)
    await store.close()
    assert first.request.resources is second.request.resources and first.request.name != second.request.name
    assert third.request.resources.gpus.per_node == 8


async def test_the_last_committed_usage_is_loaded(store: Store) -> None:
    def row(user: str, seconds: float) -> UsageRecord:
        return UsageRecord(account="lab", user=user, qos="", at_unix=seconds, tres={"cpu": seconds})

    await store.commit(Changes(usage=(row("ann", 1.0), row("bob", 2.0))))
    await store.commit(Changes(usage=(row("ann", 3.0),)))
    assert (await store.load(finished_since_unix=0.0)).usage == (row("ann", 3.0), row("bob", 2.0))


async def test_the_last_ended_jobs_of_each_user_are_loaded_regardless_of_age(store: Store) -> None:
    for number in range(1, 30):
        user = "ann" if number < 20 else "bob"
        await store.commit(submission(make_job(number, ended_at=100.0 + number, user=user)))
    await store.commit(submission(make_job(30, user="kim")))
    loaded = await store.load(finished_since_unix=1000.0)
    ids = [job.id for job in loaded.last_runs]
    assert ids == [*range(20 - LAST_RUNS, 20), *range(30 - LAST_RUNS, 30)]


async def test_the_longest_waits_are_loaded(store: Store) -> None:
    assert (await store.load(finished_since_unix=0.0)).waits == Waits()
    await store.commit(Changes(waits=Waits(since_unix=3.0, longest_this_s=5.0)))
    await store.commit(Changes(nodes=(Node(name=NodeName("a")),)))
    assert (await store.load(finished_since_unix=0.0)).waits == Waits(since_unix=3.0, longest_this_s=5.0)


async def test_reservations_are_loaded_until_they_are_removed(store: Store) -> None:
    made = [Reservation(name=name, start_unix=1.0, nodes=(NodeName("a"),), users=("ann",)) for name in "xy"]
    await store.commit(Changes(reservations=tuple(made)))
    await store.commit(Changes(gone_reservations=("x",)))
    assert (await store.load(finished_since_unix=0.0)).reservations == (made[1],)


async def test_the_last_journal_entries_come_newest_first(store: Store) -> None:
    entries = [JournalEntry(at_unix=float(at), job_id=JobId(at % 2), text=f"line {at}") for at in range(5)]
    await store.commit(Changes(journal=tuple(entries)))
    assert await store.last_entries(3) == entries[:1:-1]
    assert await store.last_entries(99) == entries[::-1]


async def test_journal_entries_keep_their_order(store: Store) -> None:
    entries = tuple(JournalEntry(at_unix=float(n), job_id=JobId(1), text=f"event {n}") for n in range(3))
    await store.commit(Changes(journal=entries))
    assert await store.journal(JobId(1)) == list(entries)
    assert await store.journal(JobId(2)) == []


async def test_starts_and_fences_are_kept_and_a_start_ends_a_fence(store: Store) -> None:
    async def kept() -> tuple[ControllerStart, ControllerStart | None]:
        loaded = await store.load(finished_since_unix=0.0)
        return loaded.start, loaded.fenced_by

    first, later = ControllerStart(epoch=1, instance="a", host="h", pid=2), ControllerStart(epoch=2)
    assert await kept() == (ControllerStart(), None)
    await store.commit(Changes(start=first))
    assert await kept() == (first, None)
    await store.commit(Changes(fenced_by=later))
    assert await kept() == (first, later)
    await store.commit(Changes(start=ControllerStart(epoch=3)))
    assert await kept() == (ControllerStart(epoch=3), None)


async def test_an_unreadable_start_leaves_a_fence_in_force(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    store = await SqliteStore.open(path)
    await store.commit(Changes(start=ControllerStart(epoch=4)))
    await store.commit(Changes(fenced_by=ControllerStart(epoch=5)))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = '{' WHERE key IN ('start', 'fenced_by')")
    db.close()
    found = await store.starts()
    await store.close()
    assert (found.start.epoch, found.fenced_by) == (0, ControllerStart())


async def test_the_secret_of_a_site_is_made_once(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    made = []
    for _ in range(2):
        store = await SqliteStore.open(path)
        made.append(await store.site_secret())
        await store.close()
    assert made[0] == made[1] and len(made[0]) == 64


async def test_a_removed_node_is_gone(store: Store) -> None:
    await store.commit(Changes(nodes=(Node(name=NodeName("a")), Node(name=NodeName("b")))))
    await store.commit(Changes(gone_nodes=(NodeName("a"),)))
    assert [node.name for node in (await store.load(finished_since_unix=0.0)).nodes] == ["b"]


async def test_a_removed_job_record_is_gone(store: Store) -> None:
    await store.commit(submission(make_job(1)))
    await store.commit(submission(msgspec.structs.replace(make_job(2), array_job_id=JobId(1))))
    await store.commit(Changes(gone_jobs=(JobId(2),)))
    assert [each.id for each in await store.named(JobId(1))] == [1]


async def test_a_reopened_database_keeps_its_data_and_identity(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    first = await SqliteStore.open(path)
    await first.commit(submission(make_job(7)))
    identity = (await first.load(finished_since_unix=0.0)).controller_id
    await first.close()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    second = await SqliteStore.open(path)
    loaded = await second.load(finished_since_unix=0.0)
    await second.close()
    assert (loaded.controller_id, loaded.next_job_id, len(loaded.jobs)) == (identity, 8, 1)


async def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.close()
    with pytest.raises(StoreError, match="newer warpdeck"):
        await SqliteStore.open(path)


async def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"not a database, certainly" * 100)
    with pytest.raises(StoreError, match="not a database"):
        await SqliteStore.open(str(path))


async def test_a_failed_commit_stores_nothing_and_the_store_stays_usable(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    store = await SqliteStore.open(path)
    await store.commit(submission(make_job(1)))
    await store._db.execute("PRAGMA max_page_count = 1")
    big = make_job(2)
    big = msgspec.structs.replace(big, request=Request(script="x" * 1_000_000))
    with pytest.raises(StoreError, match="full"):
        await store.commit(submission(big))
    await store._db.execute("PRAGMA max_page_count = 1073741823")
    assert [job.id for job in (await store.load(finished_since_unix=0.0)).jobs] == [1]
    await store.commit(submission(make_job(2)))
    assert [job.id for job in (await store.load(finished_since_unix=0.0)).jobs] == [1, 2]
    await store.close()


async def test_a_changed_array_task_has_its_own_request(store: Store) -> None:
    first = make_job(1)
    await store.commit(submission(first))
    other = Request(name="changed", script="#!/bin/sh\n")
    second = msgspec.structs.replace(first, id=JobId(2), request=other, request_key=-5)
    await store.commit(Changes(requests=((JobId(-5), other),), jobs=(second,)))
    found = await store.named(JobId(1))
    assert [(job.id, job.request.name, job.request_key) for job in found] == [
        (1, "job1", 0),
        (2, "changed", -5),
    ]
    loaded = await store.load(finished_since_unix=0.0)
    assert [job.request for job in loaded.jobs] == [first.request, other]


async def test_the_migration_to_step_curves_keeps_job_curves(tmp_path: Path) -> None:
    before = JobCurve(job_id=JobId(4), node=NodeName("a"), curve=UsageCurve(begin_unix=1.0, step_s=1.0))
    path = tmp_path / "state.db"
    version = next(at for at, script in enumerate(MIGRATIONS) if "curves_of_jobs" in script)
    with contextlib.closing(sqlite3.connect(path)) as old:
        for script in MIGRATIONS[:version]:
            old.executescript(script)
        old.execute("INSERT INTO curves VALUES (4, 'a', ?)", (msgspec.msgpack.encode(before),))
        old.execute(f"PRAGMA user_version = {version}")
        old.commit()
    store = await SqliteStore.open(str(path))
    try:
        assert await store.curves(JobId(4)) == [before]
    finally:
        await store.close()


async def test_the_migration_to_stored_sweeps_makes_ended_tasks_searchable(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.db"
    task = msgspec.structs.replace(
        make_job(1, ended_at=20.0),
        array_task_id=1,
        request=Request(script=with_sweep("#!/bin/sh\n", "lr=0.1,0.2")),
    )
    store = await SqliteStore.open(str(path))
    await store.commit(submission(task))
    await store.close()
    version = next(at for at, script in enumerate(MIGRATIONS) if "COLUMN sweep" in script)
    with contextlib.closing(sqlite3.connect(path)) as old:
        for script in MIGRATIONS[version + 1 :]:
            for table in re.findall(r"CREATE TABLE (\w+)", script):
                old.execute(f"DROP TABLE {table}")
            for index in re.findall(r"CREATE INDEX (\w+)", script):
                old.execute(f"DROP INDEX IF EXISTS {index}")
            for table, column in re.findall(r"ALTER TABLE (\w+) ADD COLUMN (\w+)", script):
                old.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        old.execute("ALTER TABLE past DROP COLUMN sweep")
        old.execute(f"PRAGMA user_version = {version}")
        old.commit()
    store = await SqliteStore.open(str(path))
    try:
        found = await store.search_finished(FinishedQuery(clauses=parse_filter("lr=0.2")), counted=True)
        assert (found.ids, found.total) == ((1,), 1)
    finally:
        await store.close()


def condition(node: str, at: float, **fields: Any) -> Condition:
    return Condition(node=NodeName(node), at_unix=at, **fields)


async def test_past_conditions_of_nodes_are_found_until_the_node_is_removed(store: Store) -> None:
    drain = GpuDrain(uuid=GpuUuid("GPU-1"), reason="ECC", check="ecc", at_unix=20.0)
    well, ill = condition("a", 10.0), condition("a", 20.0, gpu_drains=(drain,))
    down, drained = condition("b", 15.0, down=True, down_reason="cut"), condition("b", 30.0, drained=True)
    await store.commit(Changes(nodes=(Node(name=NodeName("a")),), conditions=(well, down)))
    await store.commit(Changes(conditions=(ill,)))
    await store.commit(Changes(conditions=(drained,)))
    wanted = {9.0: [], 10.0: [well], 19.9: [well, down], 20.0: [ill, down], 1e12: [ill, drained]}
    assert {at: await store.conditions(at) for at in wanted} == wanted
    assert await store.conditions_between(12.0, 20.0) == [well, down, ill]
    assert await store.conditions_between(20.0, 1e12) == [down, ill, drained]
    assert (await store.load(finished_since_unix=0.0)).conditions == (ill, drained)
    other = condition("b", 15.0, down=True, down_reason="no route to host")
    await store.commit(Changes(conditions=(other,)))
    assert await store.conditions(16.0) == [well, other], "in the place of the one of that moment"
    await store.commit(Changes(gone_nodes=(NodeName("a"),)))
    assert await store.conditions(1e12) == [drained]


async def test_only_the_last_conditions_of_a_node_are_kept(store: Store) -> None:
    was = [condition("a", float(at), down=bool(at % 2)) for at in range(MAX_CONDITIONS + 3)]
    await store.commit(Changes(conditions=tuple(was[:MAX_CONDITIONS])))
    for each in was[MAX_CONDITIONS:]:
        await store.commit(Changes(conditions=(each,)))
    await store.commit(Changes(conditions=(condition("b", 0.0),)))
    assert [each.node for each in await store.conditions(2.5)] == ["b"]
    assert [each.at_unix for each in await store.conditions(3.5)] == [3.0, 0.0]


async def test_ended_jobs_are_found_by_user_and_time(store: Store) -> None:
    for number, user, ended_at in ((1, "ann", 100.0), (2, "bob", 200.0), (3, "ann", 300.0), (4, "ann", None)):
        await store.commit(submission(make_job(number, user=user, ended_at=ended_at)))

    async def found(*users: str, since: float = 0.0, until: float = math.inf) -> list[int]:
        return list(await store.ended_ids(users=users, since_unix=since, until_unix=until))

    assert await found() == [1, 2, 3]
    assert await found("ann") == [1, 3]
    assert await found("ann", "bob", since=150.0) == [2, 3]
    assert await found(until=5.0) == []
    assert [job.id for job in await store.jobs([JobId(3), JobId(1), JobId(9)])] == [1, 3]
    assert await store.jobs([]) == [] and await store.steps_of([JobId(1)]) == []


async def test_equal_environments_and_users_are_shared_after_a_restart(
    tmp_path: Path,
) -> None:
    path, env = str(tmp_path / "state.db"), {"PATH": "/usr/bin:/bin", "HOME": "/home/ann"}
    store = await SqliteStore.open(path)
    expected = [
        ("/home/ann", env),
        ("/home/bob", {}),
        ("/home/ann", env),
        ("/home/ann", {**env, "SEED": "1"}),
    ]
    for number, (folder, variables) in enumerate(expected, start=1):
        job = make_job(number)
        request = msgspec.structs.replace(job.request, submit_dir=folder, env=variables)
        await store.commit(submission(msgspec.structs.replace(job, request=request)))
    jobs = sorted((await store.load(finished_since_unix=0.0)).jobs, key=lambda job: job.id)
    await store.close()
    assert [(job.request.submit_dir, job.request.env) for job in jobs] == expected
    assert jobs[2].request.env is jobs[0].request.env and jobs[3].request.env is not jobs[0].request.env
    assert len({id(job.user) for job in jobs}) == 1
