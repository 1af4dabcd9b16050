"""The fingerprint that shows whether a folder has changed since its last capture covers exactly what a
capture reads.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.waiting import eventually

from warpdeck.snapshots import Capture, capture_folder
from warpdeck.snapshots.folder_state import FolderState, folder_state


def git(folder: Path, *argv: str) -> None:
    named = ("-c", "user.name=t", "-c", "user.email=t@t")
    subprocess.run(["git", *named, *argv], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "a.py").write_text("one\n")
    (folder / ".gitignore").write_text("data/\n")
    return folder


@pytest.fixture
def code(plain: Path) -> Path:
    """Return the same folder as a repository with a commit."""
    git(plain, "init", "-q")
    git(plain, "add", "-A")
    git(plain, "commit", "-qm", "x")
    return plain


def captured(folder: Path) -> Capture:
    return capture_folder(str(folder), str(folder.parent / "store.git"))


def seen(taken: Capture) -> FolderState:
    found = folder_state(taken)
    assert found is not None
    return found


def edit(folder: Path) -> None:
    (folder / "pkg" / "a.py").write_text("two\n")  # same length as before


def add(folder: Path) -> None:
    (folder / "pkg" / "b.py").write_text("")


def remove(folder: Path) -> None:
    (folder / "pkg" / "a.py").unlink()


def make_executable(folder: Path) -> None:
    (folder / "pkg" / "a.py").chmod(0o755)


CHANGES = [edit, add, remove, make_executable]
OF_REPOSITORIES: list[Callable[[Path], None]] = [
    *CHANGES,
    lambda folder: (folder / "data").mkdir(),  # ignored, and linked into checkouts
    lambda folder: git(folder, "commit", "-q", "--allow-empty", "-m", "y"),
    lambda folder: git(folder, "checkout", "-q", "-b", "other"),
]


@pytest.mark.parametrize("change", OF_REPOSITORIES)
def test_every_change_that_a_capture_would_include_changes_the_fingerprint(
    code: Path, change: Callable[[Path], None]
) -> None:
    taken = captured(code)
    before = seen(taken)
    assert seen(taken).facts == before.facts
    change(code)
    assert seen(taken).facts != before.facts


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_in_a_plain_folder_changes_the_fingerprint(
    plain: Path, change: Callable[[Path], None]
) -> None:
    taken = captured(plain)
    before = seen(taken)
    assert seen(taken).facts == before.facts
    change(plain)
    assert seen(taken).facts != before.facts


def test_a_folder_that_becomes_a_repository_has_another_fingerprint(plain: Path) -> None:
    taken = captured(plain)
    before = seen(taken)
    git(plain, "init", "-q")
    assert seen(taken).facts != before.facts
    git(plain.parent, "init", "-q")
    (plain / ".git").rename(plain.parent / "elsewhere")
    assert folder_state(taken) is None


@pytest.mark.parametrize("name", ["slurm-12.out", "slurm-12_3.err"])
def test_default_output_files_of_jobs_are_ignored(code: Path, name: str) -> None:
    taken = captured(code)
    before = seen(taken)
    (code / name).write_text("loss 0.1\n")
    assert seen(taken).facts == before.facts
    later = captured(code)
    assert taken.snapshot is not None and later.snapshot is not None
    assert later.snapshot["tree"] == taken.snapshot["tree"]


def test_a_fingerprint_is_reliable_only_a_while_after_the_last_change(code: Path) -> None:
    taken = captured(code)
    eventually(lambda: seen(taken).shows_every_change)
    soon = time.time() + 3600
    os.utime(code / "pkg" / "a.py", (soon, soon))
    assert not seen(taken).shows_every_change


def test_a_nested_repository_has_no_reliable_fingerprint(code: Path) -> None:
    (code / "inner").mkdir()
    git(code / "inner", "init", "-q")
    (code / "inner" / "c.py").write_text("c")
    assert folder_state(captured(code)) is None
