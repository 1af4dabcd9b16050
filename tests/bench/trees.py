"""Time of a code snapshot of a large work tree that has not changed since the last submission."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from warpdeck.snapshots import capture_folder

from .table import Line, Table, timed

FILES = 10_000
FOLDERS = 100
UNCHANGED = Line(f"snapshot of {FILES:,} unchanged files, second time", "ms", budget=150)


def measure(table: Table) -> None:
    """Measure a committed git tree of small files."""
    with TemporaryDirectory(prefix="wdb", dir="/tmp") as base:
        root = Path(base) / "tree"
        for number in range(FOLDERS):
            (root / f"part{number:03}").mkdir(parents=True)
        for number in range(FILES):
            (root / f"part{number % FOLDERS:03}" / f"file{number:05}.py").write_text(f"VALUE = {number}\n")
        git = ["git", "-C", str(root), "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        for argv in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
            subprocess.run([*git, *argv], check=True, capture_output=True)
        store = str(Path(base) / "snapshots.git")
        table.add(UNCHANGED, timed(lambda: capture_folder(str(root), store), 7))
