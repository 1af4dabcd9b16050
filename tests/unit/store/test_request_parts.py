"""Large parts of requests: what is kept in memory, what is stored, what an old database becomes, what is removed."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import msgspec
import pytest
from tests.unit.store.test_store_contract import make_job, submission

from warpdeck.model import Job, JobId, Request
from warpdeck.model.request import StoredParts
from warpdeck.notation.request.large_parts import MAX_EXTRACT_CHARACTERS, MIN_BYTES, join, size_of, split
from warpdeck.notation.request.sweep import array_parameters, task_parameters, with_sweep
from warpdeck.notation.values.umask import umask_of
from warpdeck.ports.store import Changes, PartsBlob
from warpdeck.store import SqliteStore, request_parts
from warpdeck.store.purge import EndLimit
from warpdeck.store.schema import MIGRATIONS

LONG = "x" * MIN_BYTES


def blob_of(request: Request, *, uid: int = 1000) -> tuple[Request, PartsBlob]:
    extract, content = split(request)
    assert content is not None and extract.parts is not None
    return extract, PartsBlob(uid=uid, sha256=extract.parts.sha256, content=content)


@pytest.mark.parametrize(
    "request_",
    [
        Request(script=f"#!/bin/sh\n# {LONG}\n", env={"A": "1", "SLURM_UMASK": "0077"}),
        Request(script="#!/bin/sh\n", env={"A": LONG}),
        Request(script="#!/bin/sh\n", script_args=(LONG, "b")),
        Request(argv=("python", LONG)),
        Request(script=LONG, submit_line=f"sbatch {LONG}", name="other"),
    ],
)
def test_large_parts_leave_a_short_extract_and_come_back_unchanged(request_: Request) -> None:
    extract, content = split(request_)
    assert content is not None and extract.parts is not None
    assert len(msgspec.msgpack.encode(extract)) < 4 * MAX_EXTRACT_CHARACTERS
    assert extract.parts.size_bytes == len(content) >= MIN_BYTES
    assert size_of(extract) >= len(content)
    assert (bool(extract.script), bool(extract.argv)) == (bool(request_.script), bool(request_.argv))
    assert umask_of(extract.env) == umask_of(request_.env)
    assert join(extract, content) == request_


def test_an_ordinary_request_is_kept_whole() -> None:
    request = Request(script="#!/bin/sh\n", env={f"VARIABLE_{number}": "x" * 60 for number in range(80)})
    assert split(request) == (request, None)


def test_a_large_sweep_is_shown_from_its_extract() -> None:
    whole = Request(script=with_sweep(f"#!/bin/bash\n#SBATCH -n 1\necho $lr # {LONG}\n", "lr=0.1,0.2"))
    extract, _ = blob_of(whole)
    assert task_parameters(extract.script, 1) == task_parameters(whole.script, 1) == "lr=0.2"
    assert array_parameters(extract.script) == "lr=0.1,0.2"


def test_a_key_that_a_client_invents_is_removed() -> None:
    stolen = StoredParts(sha256="0" * 64, size_bytes=1)
    small = Request(script="#!/bin/sh\n")
    assert split(msgspec.structs.replace(small, parts=stolen)) == (small, None)
    large = Request(script=LONG)
    assert split(msgspec.structs.replace(large, parts=stolen)) == split(large)


async def test_equal_parts_of_a_user_are_stored_once_and_users_do_not_share_them(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = await SqliteStore.open(str(path))
    try:
        extract, blob = blob_of(Request(script=LONG))
        for number in range(1, 4):
            job = msgspec.structs.replace(make_job(number), request=extract)
            await store.commit(msgspec.structs.replace(submission(job), parts=(blob,)))
        assert await store.parts(1000, blob.sha256) == blob.content
        assert await store.parts(1001, blob.sha256) is None
        await store.commit(Changes(parts=(msgspec.structs.replace(blob, uid=1001),)))
        assert await store.parts(1001, blob.sha256) == blob.content
        loaded = await store.load(finished_since_unix=0.0)
        assert [job.request for job in loaded.jobs] == [extract] * 3
    finally:
        await store.close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT uid, size FROM request_parts ORDER BY uid").fetchall() == [
            (1000, len(blob.content)),
            (1001, len(blob.content)),
        ]


def old_database(path: Path, jobs: list[Job], requests: dict[int, Request]) -> None:
    """Write a database of the schema before the parts were stored apart."""
    version = next(at for at, script in enumerate(MIGRATIONS) if "request_parts" in script)
    with contextlib.closing(sqlite3.connect(path)) as db:
        for script in MIGRATIONS[:version]:
            db.executescript(script)
        for key, request in requests.items():
            db.execute("INSERT INTO requests VALUES (?, ?)", (key, msgspec.msgpack.encode(request)))
        for job in jobs:
            data = msgspec.msgpack.encode(msgspec.structs.replace(job, request=Request()))
            row = (
                job.id,
                job.array_job_id,
                job.user,
                job.state.value,
                0,
                1.0,
                None,
                data,
                job.request_key or None,
            )
            db.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        db.execute(f"PRAGMA user_version = {version}")
        db.commit()


async def test_requests_of_an_old_database_are_converted(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    count = request_parts.BATCH + 20
    jobs = [msgspec.structs.replace(make_job(number), uid=number) for number in range(1, count + 1)]
    changed = msgspec.structs.replace(jobs[4], request_key=-(5 * 2**20 + 1))
    jobs[4] = changed
    requests = {int(job.id): Request(script=f"#!/bin/sh\n# {job.id} {LONG}") for job in jobs}
    requests[2] = Request(script="#!/bin/sh\nsmall\n")
    requests[changed.request_key] = Request(script=f"#!/bin/sh\n# changed {LONG}")
    old_database(path, jobs, requests)
    store = await SqliteStore.open(str(path))
    try:
        loaded = {job.id: job for job in (await store.load(finished_since_unix=0.0)).jobs}
        assert len(loaded) == count
        assert sum(job.request.parts is not None for job in loaded.values()) == count - 1
        for number, key in ((1, 1), (5, changed.request_key), (count, count)):
            found = loaded[JobId(number)].request
            assert found.parts is not None
            content = await store.parts(number, found.parts.sha256)
            assert content is not None and join(found, content) == requests[key]
        assert loaded[JobId(2)].request == requests[2]
    finally:
        await store.close()


async def test_the_oldest_parts_of_ended_jobs_make_room_for_new_ones(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = await SqliteStore.open(str(path))
    blobs = []
    try:
        for number in range(1, 6):
            extract, blob = blob_of(Request(script=f"{number}{LONG}"))
            blobs.append(blob)
            made = make_job(number, ended_at=5.0 if number < 5 and number != 2 else None)
            job = msgspec.structs.replace(made, request=extract)
            await store.commit(msgspec.structs.replace(submission(job), parts=(blob,)))
    finally:
        await store.close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        request_parts.remove_oldest(db, 1000, 2 * MIN_BYTES, keep=frozenset({blobs[2].sha256}))
        kept = {row[0] for row in db.execute("SELECT sha256 FROM request_parts")}
    assert kept == {blobs[number].sha256 for number in (1, 2, 4)}, "2 and 5 are pending, 3 is just submitted"


async def test_a_purge_removes_and_archives_the_parts_of_its_jobs_unless_others_have_them(
    tmp_path: Path,
) -> None:
    path, archives = tmp_path / "state.db", tmp_path / "archive"
    store = await SqliteStore.open(str(path))
    try:
        shared, shared_blob = blob_of(Request(script=f"shared{LONG}"))
        alone, alone_blob = blob_of(Request(script=f"alone{LONG}"))
        for number, request, blob, ended_at in (
            (1, shared, shared_blob, 5.0),
            (2, alone, alone_blob, 6.0),
            (3, shared, shared_blob, None),
        ):
            job = msgspec.structs.replace(make_job(number, ended_at=ended_at), request=request)
            await store.commit(msgspec.structs.replace(submission(job), parts=(blob,)))
        limit = EndLimit(ended_before_unix=10.0)
        purge = store.purger.purge(limit=limit, archive_folder=str(archives), needed=lambda: ())
        assert [count async for count in purge] == [2]
        assert await store.parts(1000, shared_blob.sha256) == shared_blob.content
        assert await store.parts(1000, alone_blob.sha256) is None
    finally:
        await store.close()
    (archive,) = archives.iterdir()
    with contextlib.closing(sqlite3.connect(archive)) as db:
        kept = {row[0] for row in db.execute("SELECT sha256 FROM request_parts")}
    assert kept == {shared_blob.sha256, alone_blob.sha256}
