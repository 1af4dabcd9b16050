"""A migration that is killed leaves the old database as it was."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.unit.store.test_migrations import FIXTURES, make_database, rows, user_version

from warpdeck.store.migration import SCHEMA, migrate


@pytest.mark.parametrize("statements", [1, 3, 10, 20])
def test_a_migration_that_is_killed_leaves_the_old_database_usable(statements: int, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make_database(FIXTURES[0], path)
    before = rows(path)
    script = textwrap.dedent("""
        import os, signal, sqlite3, sys
        from warpdeck.store.migration import migrate
        db = sqlite3.connect(sys.argv[1], isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA cache_size = 1")  # pages are written before the end of the transaction
        left = int(sys.argv[2])
        def count(statement):
            global left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
        db.execute("BEGIN IMMEDIATE")
        db.set_trace_callback(count)
        migrate(db)
        """)
    done = subprocess.run([sys.executable, "-c", script, str(path), str(statements)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert rows(path) == before
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert user_version(db) == 1
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        db.execute("BEGIN IMMEDIATE")
        migrate(db)  # the next start migrates it
        db.execute("COMMIT")
        assert user_version(db) == SCHEMA
    assert rows(path)["jobs"] == before["jobs"]
