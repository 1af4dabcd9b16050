"""`verify` finds each kind of damage, and names what salvage does with it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import msgspec
import pytest
from tests.support.home_state import SCHEMAS, change, make_home

from warpdeck.backup.problem import Problem
from warpdeck.backup.verify import Report, verify
from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.model import Job, JobId
from warpdeck.notation.request.large_parts import MIN_BYTES, split
from warpdeck.ports.store import Changes, PartsBlob
from warpdeck.store import SqliteStore
from warpdeck.store.migration import SCHEMA
from warpdeck.store.salvage import KEYS

NOISE = "X'c1c1c1'"
"""No msgpack value begins with these bytes."""
ADDED = {
    "made": "INSERT INTO made VALUES (0, 'n', 1.0, X'00')",
    "reservations": "INSERT OR REPLACE INTO reservations VALUES ('other', X'00')",
}


def check(home: Path) -> Report:
    return verify(Paths(str(home)), None, show=lambda text: None)


def the_problem(home: Path) -> Problem:
    problems = check(home).problems
    assert len(problems) == 1, [each.sentence for each in problems]
    return problems[0]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path / "home")


@pytest.mark.parametrize("schema", SCHEMAS, ids=[path.stem for path in SCHEMAS])
def test_the_database_of_a_real_controller_has_no_problem(schema: Path, tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", schema=schema)
    before = (home / "state.db").read_bytes()
    report = check(home)
    assert report.problems == ()
    assert (report.counters.jobs, report.counters.highest_job_id, report.counters.next_job_id) == (10, 10, 11)
    assert report.counters.schema == int(schema.stem)
    assert (home / "state.db").read_bytes() == before


@pytest.mark.parametrize("table", KEYS)
async def test_a_row_that_cannot_be_decoded_is_named_and_salvaged_as_told(table: str, home: Path) -> None:
    if table in ADDED:
        change(home, ADDED[table])
    key = ", ".join(KEYS[table])
    with contextlib.closing(sqlite3.connect(home / "state.db")) as db:
        first = db.execute(f"SELECT {key} FROM {table} ORDER BY {key} LIMIT 1").fetchone()
    where = " AND ".join(f"{name} = {value!r}" for name, value in zip(KEYS[table], first, strict=True))
    change(home, f"UPDATE {table} SET data = {NOISE} WHERE {where}")
    named = {(each.table, each.key): each.salvage for each in check(home).problems}
    text = " ".join(map(str, first))
    assert "table set_aside" in named[table, text]
    store = await SqliteStore.open(str(home / "state.db"))
    try:
        loaded = await store.load(finished_since_unix=0.0)
        await store.curves(JobId(first[0] if table == "curves" else 0))
        await store.runs_of([first[0]] if table == "runs" else [])
        await store.steps_of([first[0]] if table == "steps" else [])
        aside = {(row.table, row.key) for row in (await store.load(finished_since_unix=0.0)).unreadable}
    finally:
        await store.close()
    assert (table, text) in aside
    assert (table == "nodes") == any(node.drained for node in loaded.nodes)
    assert (table in ("requests", "jobs")) == any(place == "jobs" for place, _ in aside)


@pytest.mark.parametrize(
    ("statements", "place", "words"),
    [
        (("UPDATE meta SET value = '7' WHERE key = 'next_job_id'",), "meta next_job_id", "job 10 is known"),
        (("DELETE FROM meta WHERE key = 'controller_id'",), "meta controller_id", "no id"),
        (("UPDATE jobs SET state = 'RUNNING' WHERE id = 1",), "jobs 1", "columns state differ"),
        (("DELETE FROM past WHERE id = 2",), "jobs 2", "history does not show it"),
        (
            ("INSERT INTO curves SELECT 77, step, node, data FROM curves LIMIT 1",),
            "curves 77 -1 node1",
            "its job does not exist",
        ),
        (("UPDATE runs SET restarts = 5",), "runs 7 5", "its data are of job 7, start 0"),
        (("DELETE FROM requests WHERE array_job_id = 8",), "jobs 8", "its request is missing"),
        (("DELETE FROM jobs WHERE id = 4", "DELETE FROM past WHERE id = 4"), "jobs 3", "not each of its 3 tasks once"),
        (("DELETE FROM nodes",), "jobs 10", "node node1 does not exist"),
    ],
)  # fmt: skip
def test_each_inconsistency_is_named(statements: tuple[str, ...], place: str, words: str, home: Path) -> None:
    change(home, *statements)
    sentences = [problem.sentence for problem in check(home).problems]
    assert any(each.startswith(f"{place}: ") and words in each for each in sentences), sentences


def test_a_run_that_was_not_charged_is_named(home: Path) -> None:
    change(home, "DELETE FROM usage")
    problem = the_problem(home)
    assert (problem.table, problem.key) == ("usage", "- root -")
    assert problem.problem.startswith("0.0 s are charged, but its jobs ran 1")


def test_a_run_that_is_charged_but_not_known_is_named(home: Path) -> None:
    change(home, "DELETE FROM runs", "DELETE FROM jobs WHERE id = 9", "DELETE FROM past WHERE id = 9")
    assert ("usage", "- root -") in {(each.table, each.key) for each in check(home).problems}


def test_two_jobs_with_one_gpu_or_more_cpus_than_the_node_has_violate_an_invariant(home: Path) -> None:
    change(home, "INSERT INTO requests SELECT 11, data FROM requests WHERE array_job_id = 10")
    for number in (11, 12, 13):
        with contextlib.closing(sqlite3.connect(home / "state.db")) as db:
            copy_running_job(db, number)
            db.commit()
    sentences = [problem.problem for problem in check(home).problems if "invariant" in problem.problem]
    assert "an invariant is violated: node node1 must have the CPUs that it allocates" in sentences


def copy_running_job(db: sqlite3.Connection, number: int) -> None:
    """Insert a second job with the allocation of the running job."""
    data = db.execute("SELECT data FROM jobs WHERE id = 10").fetchone()[0]
    job = msgspec.structs.replace(
        msgspec.msgpack.decode(data, type=Job), id=JobId(number), array_job_id=JobId(number)
    )
    db.execute(
        "INSERT INTO jobs SELECT ?, ?, user, state, finished, submit_at, end_at, ?, 10 FROM jobs WHERE id = 10",
        (number, number, msgspec.msgpack.encode(job)),
    )
    db.execute("UPDATE meta SET value = ? WHERE key = 'next_job_id'", (str(number + 1),))


async def test_large_parts_of_requests_are_checked(home: Path) -> None:
    store = await SqliteStore.open(str(home / "state.db"))
    try:
        job = msgspec.structs.replace((await store.named(JobId(8)))[0], id=JobId(11), array_job_id=JobId(11))
        whole = msgspec.structs.replace(job.request, script="#!/bin/sh\n" + "x" * MIN_BYTES)
        request, content = split(whole)
        assert request.parts is not None
        assert content is not None
        digest = request.parts.sha256
        await store.commit(
            Changes(
                requests=((job.id, request),),
                parts=(PartsBlob(uid=job.uid, sha256=digest, content=content),),
                jobs=(msgspec.structs.replace(job, request=request),),
                next_job_id=12,
            )
        )
    finally:
        await store.close()
    assert check(home).problems == ()
    change(home, "UPDATE request_parts SET content = X'00'")
    assert (the_problem(home).table, the_problem(home).key) == ("request_parts", f"{job.uid} {digest}")
    change(home, "DELETE FROM request_parts")
    assert the_problem(home).sentence == "jobs 11: its script and environment are missing, so it cannot start"


def test_damaged_pages_are_reported_and_do_not_end_the_check(home: Path) -> None:
    with contextlib.closing(sqlite3.connect(home / "state.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page, root = db.execute(
            "SELECT (SELECT page_size FROM pragma_page_size), rootpage FROM sqlite_master WHERE name = 'journal'"
        ).fetchone()
    with open(home / "state.db", "r+b") as file:
        file.seek((root - 1) * page)
        file.write(os.urandom(page))
    problems = check(home).problems
    assert any("SQLite reports" in each.problem or "cannot be read" in each.problem for each in problems)
    assert not any(each.table == "jobs" for each in problems)


def test_a_wrong_configuration_is_named(home: Path) -> None:
    (home / "config.toml").write_text("wat = 1\n")
    assert "the configuration is wrong: config.toml:1: wat" in the_problem(home).problem


def test_a_database_of_a_newer_schema_is_refused(home: Path) -> None:
    change_version(home, SCHEMA + 1)
    with pytest.raises(UserError, match=f"schema {SCHEMA + 1} is of a newer warpdeck"):
        check(home)


def change_version(home: Path, version: int) -> None:
    with contextlib.closing(sqlite3.connect(home / "state.db")) as db:
        db.execute(f"PRAGMA user_version = {version}")
        db.commit()


def test_a_missing_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with pytest.raises(UserError, match=r"state\.db does not exist"):
        check(tmp_path / "home")
