"""Homes with a database of a real controller, for tests of backups."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

SCHEMAS = sorted((Path(__file__).parents[1] / "data" / "schemas").glob("*.sql"))
"""Databases of all schemas so far; see the README beside them."""


def make_home(home: Path, *, config: str = "grace_s = 10\n", schema: Path = SCHEMAS[-1]) -> Path:
    """Create a home with ten jobs and a configuration, and return it."""
    home.mkdir(mode=0o700)
    with contextlib.closing(sqlite3.connect(home / "state.db")) as db:
        db.executescript(schema.read_text())
        db.execute("PRAGMA journal_mode = WAL")
    (home / "config.toml").write_text(config)
    (home / "known_hosts").write_text("node1 ssh-ed25519 AAAA\n")
    (home / "ssh").mkdir(mode=0o700)
    (home / "ssh" / "id_ed25519").write_text("private\n")
    (home / "trees" / "1000").mkdir(parents=True, mode=0o700)
    (home / "trees" / "1000" / "abc.tar.gz").write_text("tree\n")
    return home


def change(home: Path, *statements: str) -> None:
    """Run SQL statements on the home's database."""
    with contextlib.closing(sqlite3.connect(home / "state.db")) as db:
        for statement in statements:
            assert db.execute(statement).rowcount, statement
        db.commit()


def job_ids(home: Path) -> list[int]:
    with contextlib.closing(sqlite3.connect(home / "state.db")) as db:
        return [row[0] for row in db.execute("SELECT id FROM jobs ORDER BY id")]


def next_job_id(home: Path) -> int:
    with contextlib.closing(sqlite3.connect(home / "state.db")) as db:
        return int(db.execute("SELECT value FROM meta WHERE key = 'next_job_id'").fetchone()[0])
