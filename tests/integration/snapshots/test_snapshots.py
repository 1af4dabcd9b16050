"""Snapshots with real git: byte for byte, in any state of the repository."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from warpdeck.base.errors import UserError
from warpdeck.snapshots import Capture, SnapshotStore, capture_folder


def git(folder: Path, *argv: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *argv],
        cwd=folder,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "pkg").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "pkg" / "a.py").write_text("one\n")
    (folder / ".gitignore").write_text("data/\n*.log\n")
    return folder


def taken(folder: Path) -> Capture:
    return capture_folder(str(folder), str(folder.parent / "store.git"))


def content(found: Capture) -> dict[str, bytes]:
    with tarfile.open(found.packed) as archive:
        members = {member.name: archive.extractfile(member) for member in archive if member.isfile()}
        return {name: file.read() for name, file in members.items() if file is not None}


def test_a_snapshot_has_uncommitted_files_and_links_ignored_ones(code: Path) -> None:
    git(code, "add", "-A")
    git(code, "commit", "-qm", "x")
    (code / "pkg" / "a.py").write_text("two\n")
    (code / "new file.txt").write_bytes(b"\x00\xff\r\n")
    (code / "data").mkdir()
    (code / "data" / "big.bin").write_text("x")
    found = taken(code / "pkg")
    assert found.snapshot is not None
    assert content(found) == {
        ".gitignore": b"data/\n*.log\n",
        "new file.txt": b"\x00\xff\r\n",
        "pkg/a.py": b"two\n",
    }
    assert found.snapshot["subdir"] == "pkg"
    assert found.snapshot["links"] == ["data"]
    assert found.snapshot["dirty"] and len(found.snapshot["head"]) == 40


@pytest.mark.parametrize(
    ("name", "is_dirty"),
    [("slurm-12.out", False), ("logs/train.out", False), ("train.err", False), ("model.py", True)],
)
def test_new_output_files_are_no_uncommitted_changes(code: Path, name: str, is_dirty: bool) -> None:
    git(code, "add", "-A")
    git(code, "commit", "-qm", "x")
    (code / name).parent.mkdir(exist_ok=True)
    (code / name).write_text("x\n")
    found = taken(code)
    assert found.snapshot is not None and found.snapshot["dirty"] is is_dirty


def test_a_snapshot_needs_no_commit_and_no_index_lock(code: Path) -> None:
    (code / ".git" / "index.lock").write_text("")
    assert "pkg/a.py" in content(taken(code))


def test_a_snapshot_can_be_taken_during_a_merge_conflict(code: Path) -> None:
    git(code, "add", "-A")
    git(code, "commit", "-qm", "base")
    git(code, "checkout", "-qb", "other")
    (code / "pkg" / "a.py").write_text("theirs\n")
    git(code, "commit", "-qam", "theirs")
    git(code, "checkout", "-q", "-")
    (code / "pkg" / "a.py").write_text("ours\n")
    git(code, "commit", "-qam", "ours")
    with pytest.raises(subprocess.CalledProcessError):
        git(code, "merge", "other")
    assert b"<<<<<<<" in content(taken(code))["pkg/a.py"]


def test_git_attributes_do_not_change_files(code: Path) -> None:
    (code / ".gitattributes").write_text(
        "* text=auto eol=crlf filter=lfs ident export-subst\nsecret export-ignore\n"
    )
    (code / "secret").write_bytes(b"$Format:%H$ $Id$\r\nx\n")
    assert content(taken(code))["secret"] == b"$Format:%H$ $Id$\r\nx\n"


def test_nested_repositories_links_and_modes_are_kept(code: Path) -> None:
    inner = code / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "x.py").write_text("inner\n")
    (code / "run.sh").write_text("#!/bin/sh\n")
    os.chmod(code / "run.sh", 0o755)
    os.symlink("/etc/passwd", code / "link")
    os.mkfifo(code / "fifo")
    found = taken(code)
    assert content(found)["inner/x.py"] == b"inner\n"
    with tarfile.open(found.packed) as archive:
        assert archive.getmember("run.sh").mode & 0o100
        assert archive.getmember("link").linkname == "/etc/passwd"
        assert "fifo" not in archive.getnames()


def test_equal_code_has_one_tree_without_deleted_files(code: Path) -> None:
    first, second = taken(code), taken(code)
    assert first.snapshot == second.snapshot
    (code / "pkg" / "a.py").unlink()
    (code / "b.py").write_text("b")
    assert sorted(content(taken(code))) == [".gitignore", "b.py"]


def test_a_diff_shows_the_changes(code: Path) -> None:
    first = taken(code).snapshot
    (code / "pkg" / "a.py").write_text("three\n")
    second = taken(code).snapshot
    assert first is not None and second is not None
    text = SnapshotStore(first["store"]).diff(first["tree"], second["tree"])
    assert "-one" in text and "+three" in text


def test_a_plain_folder_is_captured_only_within_limits(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    assert content(taken(folder)) == {"a.txt": b"a"}
    with open(folder / "huge", "wb") as file:
        file.truncate(65 * 2**20)
    found = taken(folder)
    assert found.snapshot is None and "64 MiB" in found.notes[0]


def test_a_folder_without_files_needs_no_snapshot(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    found = taken(folder)
    assert (found.snapshot, found.notes) == (None, [])


def test_a_file_of_a_snapshot_can_be_read_unless_it_is_too_large(code: Path) -> None:
    (code / "model.py").write_text("layers = 1\n")
    found = taken(code)
    assert found.snapshot is not None
    store, tree = SnapshotStore(found.snapshot["store"]), found.snapshot["tree"]
    (code / "model.py").write_text("layers = 2\n")
    assert store.read(tree, "model.py") == b"layers = 1\n"
    with pytest.raises(UserError):
        store.read(tree, "none.py")
    (code / "large.bin").write_bytes(b"x" * (9 * 1024 * 1024))
    git(code, "add", "large.bin")
    large = taken(code).snapshot
    assert large is not None
    with pytest.raises(UserError, match=r"large\.bin has 9 MiB: too large to show"):
        store.read(large["tree"], "large.bin")


def test_a_snapshot_is_restored_to_a_new_or_empty_folder_only(code: Path) -> None:
    found = taken(code).snapshot
    assert found is not None
    store = SnapshotStore(found["store"])
    target = code.parent / "restored"
    target.mkdir()
    store.restore(found["tree"], str(target))
    assert (target / "pkg" / "a.py").read_text() == "one\n"
    (target / "pkg" / "a.py").write_text("mine\n")
    link = code.parent / "link"
    link.symlink_to(target)
    for path in (target, link, target / "pkg" / "a.py"):
        with pytest.raises(UserError, match=r"name a new folder|cannot write"):
            store.restore(found["tree"], str(path))
    assert (target / "pkg" / "a.py").read_text() == "mine\n"
    with pytest.raises(UserError, match="not in your store"):
        store.restore("0" * 40, str(code.parent / "other"))
    assert sorted(path.name for path in code.parent.iterdir()) == ["code", "link", "restored", "store.git"]


def test_an_ignore_file_may_leave_out_everything(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / ".warpdeckignore").write_text("*\n")
    (folder / "a.py").write_text("one\n")
    assert taken(folder).snapshot is None
