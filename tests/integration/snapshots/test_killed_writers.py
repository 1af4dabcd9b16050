"""Simultaneous and killed writers leave a store that takes the next snapshot, byte for byte."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from warpdeck.snapshots import capture_folder

FILES = 200
CAPTURE = "import sys; from warpdeck.snapshots import capture_folder; print(capture_folder(*sys.argv[1:]).snapshot['tree'])"
CONTENT = b"one\r\n$Id$\n"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / ".gitattributes").write_text("* text=auto ident\n")
    for number in range(FILES):
        (folder / f"{number}.py").write_bytes(CONTENT + b"%d" % number)
    return folder


def writer(code: Path, store: Path) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", CAPTURE, str(code), str(store)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE)


def check(code: Path, store: Path) -> str:
    taken = capture_folder(str(code), str(store))
    assert taken.snapshot is not None
    with tarfile.open(taken.packed) as archive:
        for number in range(FILES):
            file = archive.extractfile(f"{number}.py")
            assert file is not None and file.read() == (code / f"{number}.py").read_bytes()
    subprocess.run(["git", "--git-dir", str(store), "fsck", "--strict"], check=True, capture_output=True)
    return str(taken.snapshot["tree"])


def test_simultaneous_writers_create_one_store_and_one_tree(code: Path, tmp_path: Path) -> None:
    store = tmp_path / "store.git"
    writers = [writer(code, store) for _ in range(4)]
    trees = {each.communicate(timeout=60)[0].decode().strip() for each in writers}
    assert [each.returncode for each in writers] == [0] * 4
    assert trees == {check(code, store)}


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_writer_does_not_harm_the_next_one(code: Path, tmp_path: Path, seed: int) -> None:
    """Only the writer is killed. Its git goes on, and must not overwrite the index of the next writer."""
    store = tmp_path / "store.git"
    chance = random.Random(seed)
    for turn in range(3):
        (code / "0.py").write_bytes(CONTENT + b"%d" % turn)
        process = writer(code, store)
        try:
            process.wait(timeout=chance.uniform(0.1, 0.6))
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
    check(code, store)


@pytest.mark.parametrize("name", ["config.lock", "HEAD.lock"])
def test_a_store_whose_creation_was_interrupted_is_completed(code: Path, tmp_path: Path, name: str) -> None:
    store = tmp_path / "store.git"
    subprocess.run(["git", "init", "-q", "--bare", str(store)], check=True)
    (store / name).touch()
    (store / "info" / "attributes.new").touch()
    check(code, store)


def test_a_damaged_index_is_replaced(code: Path, tmp_path: Path) -> None:
    store = tmp_path / "store.git"
    tree = check(code, store)
    (index,) = [each for each in (store / "indices").iterdir() if not each.suffix]
    os.truncate(index, 100)
    assert check(code, store) == tree


def test_a_change_while_a_killed_writer_reads_is_in_the_next_snapshot(code: Path, tmp_path: Path) -> None:
    """The index has the earlier content, the same second and the same size, and is written a second later."""
    store = tmp_path / "store.git"
    check(code, store)
    (index,) = [each for each in (store / "indices").iterdir() if not each.suffix]
    turn = index.with_name(index.name + ".turn")
    second_ns = os.stat(code / "0.py").st_mtime_ns // 10**9 * 10**9
    git = ["git", "update-index", "0.py"]
    env = {**os.environ, "GIT_DIR": str(store), "GIT_WORK_TREE": str(code), "GIT_INDEX_FILE": str(index)}
    os.utime(turn, ns=(second_ns, second_ns))
    os.utime(code / "0.py", ns=(second_ns, second_ns))
    subprocess.run(git, cwd=code, env=env, check=True)
    (code / "0.py").write_bytes(CONTENT + b"9")
    os.utime(code / "0.py", ns=(second_ns + 1, second_ns + 1))
    os.utime(index, ns=(second_ns + 10**10, second_ns + 10**10))
    check(code, store)
