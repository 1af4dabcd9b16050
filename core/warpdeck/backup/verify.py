"""Check a database: its file, its rows, the relations between them, the accounting, and the invariants of the state.

The check reads a private copy and changes nothing. A copy with an earlier schema is migrated first.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.config import ConfigError, Site, build_site, load
from warpdeck.controller.state.invariants import (
    OF_JOB,
    OF_NODE,
    caches_match_the_tables,
    counts_match_the_jobs,
    cpus_and_memory_fit,
)
from warpdeck.controller.state.state import State
from warpdeck.model import Job, Node
from warpdeck.ports.store import Loaded
from warpdeck.store.database_copy import Show, check_exists, copy_database
from warpdeck.store.migration import migrate, needs_migration, newer_schema
from warpdeck.store.purge import ARCHIVE_KEY
from warpdeck.store.salvage import Salvage

from .accounting_checks import RunTimes
from .counters import read_counters
from .create import reason_of
from .manifest import CONFIG, DATABASE, Counters
from .owner import check_owner
from .pending import finish_restore
from .problem import NOTHING, RECOVER, REPORTED, Problem
from .relation_checks import check_counters, check_file, check_parts, check_relations
from .row_checks import JobCheck, check_rows
from .source import stage

MAX_PROBLEMS = 1000
"""Largest number of problems in a report. The first ones name the cause."""
MIGRATED = "migrated.db"
FIRST_WITH_RUNS = 9
"""First schema that records each start of a requeued job."""
_NODE = msgspec.msgpack.Decoder(Node)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check."""

    path: str
    """The home, backup or database file that was checked."""
    counters: Counters
    """Numbers of the database."""
    problems: tuple[Problem, ...]
    """All problems, or the first thousand."""
    truncated: bool = False
    """Whether there are more problems than the report contains."""


def verify(paths: Paths, source: str | None, *, show: Show) -> Report:
    """Check a backup, a folder of backups, a home or a database file; without a source, the home. Raises UserError."""
    try:
        if source is None:
            check_owner(paths)
            finish_restore(paths)
            check_exists(paths.database)
        with tempfile.TemporaryDirectory(prefix="warpdeck-verify-") as folder:
            staged = stage(paths.home if source is None else source, folder, show=show)
            return msgspec.structs.replace(check_database(folder, show=show), path=staged.path)
    except (OSError, sqlite3.Error) as error:
        raise UserError(
            f"cannot check {source or paths.home}: {reason_of(error)}",
            "name a backup that you can read, and set TMPDIR to a folder with enough space",
        ) from error


def check_database(folder: str, *, show: Show) -> Report:
    """Check the database and the configuration in a private folder. Raises UserError, OSError or sqlite3.Error."""
    path = os.path.join(folder, DATABASE)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        counters = read_counters(db)
        if refusal := newer_schema(counters.schema):
            raise UserError(f"the database cannot be used: {refusal}")
        is_old = needs_migration(db)
    if is_old:
        path = os.path.join(folder, MIGRATED)
        copy_database(os.path.join(folder, DATABASE), path, show=show)
    problems: list[Problem] = []
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            if is_old:
                db.execute("BEGIN IMMEDIATE")
                migrate(db)
                db.execute("COMMIT")
            for problem in _all_problems(db, os.path.join(folder, CONFIG), counters.schema, show):
                if len(problems) >= MAX_PROBLEMS:
                    return Report(path=path, counters=counters, problems=tuple(problems), truncated=True)
                problems.append(problem)
    finally:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, MIGRATED + suffix))
    return Report(path=path, counters=counters, problems=tuple(problems))


def _all_problems(db: sqlite3.Connection, config: str, schema: int, show: Show) -> Iterator[Problem]:
    state = State()
    state.site, config_problem = _site(config)
    if config_problem is not None:
        yield config_problem
    run_times = RunTimes(db, state.site)
    run_times.is_complete = schema >= FIRST_WITH_RUNS and _has_all_jobs(db)
    collected: list[Job] = []

    def on_submission(members: Sequence[Job]) -> None:
        for job in members:
            run_times.add(job)
        if not all(job.is_finished for job in members):
            collected.extend(members)

    checks: tuple[tuple[str, Callable[[], Iterable[Problem]]], ...] = (
        ("pages", lambda: check_file(db)),
        ("rows", lambda: check_rows(db)),
        ("jobs", lambda: JobCheck(db).check(on_submission, run_times.add)),
        ("references", lambda: check_relations(db)),
        ("parts of requests", lambda: check_parts(db)),
        ("counters", lambda: check_counters(db)),
        ("accounting", run_times.problems),
        ("invariants", lambda: _state_problems(db, state, collected)),
    )
    for name, check in checks:
        show(f"checking {name}")
        try:
            yield from check()
        except sqlite3.DatabaseError as error:
            yield Problem(table="", key="", problem=f"the {name} cannot be read: {error}", salvage=RECOVER)


def _has_all_jobs(db: sqlite3.Connection) -> bool:
    """Return whether no job was set aside or purged, and the database is no archive of purged jobs."""
    for query in (
        "SELECT 1 FROM set_aside",
        "SELECT 1 FROM purged",
        f"SELECT 1 FROM meta WHERE key = '{ARCHIVE_KEY}'",
    ):
        if db.execute(query).fetchone() is not None:
            return False
    return True


def _site(config: str) -> tuple[Site, Problem | None]:
    """Return the rules of the configuration, or the defaults and a problem if it is wrong."""
    try:
        return build_site(load(config).config), None
    except (ConfigError, UserError) as error:
        first = error.problems[0].sentence(CONFIG) if isinstance(error, ConfigError) else str(error)
        return Site(), Problem(
            table="",
            key="",
            problem=f"the configuration is wrong: {first}",
            salvage="the controller does not start",
        )


def _state_problems(db: sqlite3.Connection, state: State, jobs: Sequence[Job]) -> Iterator[Problem]:
    """Yield the violated invariants of the state that a controller would load."""
    counters = read_counters(db)
    state.load(
        Loaded(
            controller_id=counters.controller_id,
            next_job_id=counters.next_job_id,
            jobs=tuple(jobs),
            nodes=tuple(Salvage().read(db, "nodes", _NODE)),
        )
    )
    for job in jobs:
        for of_job in OF_JOB:
            yield from (_violated("jobs", str(job.id), text) for text in of_job(state, job))
    for name in state.nodes:
        for of_node in OF_NODE:
            yield from (_violated("nodes", name, text) for text in of_node(state, name))
    for of_state in (cpus_and_memory_fit, caches_match_the_tables, counts_match_the_jobs):
        yield from (_violated("", "", text) for text in of_state(state))
    yield from _missing_nodes(state, jobs)


def _missing_nodes(state: State, jobs: Sequence[Job]) -> Iterator[Problem]:
    for job in jobs:
        for name in job.allocation.node_names() if job.holds_resources and job.allocation is not None else ():
            if name not in state.nodes:
                yield Problem(
                    table="jobs", key=str(job.id), problem=f"its node {name} does not exist", salvage=NOTHING
                )


def _violated(table: str, key: str, text: str) -> Problem:
    return Problem(table=table, key=key, problem=f"an invariant is violated: {text}", salvage=REPORTED)
