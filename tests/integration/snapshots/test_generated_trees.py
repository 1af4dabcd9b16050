"""Any work tree is restored from its snapshot byte for byte, except for the files that the snapshot lists as left out."""

from __future__ import annotations

import os
import stat
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from warpdeck.snapshots import Capture, SnapshotStore, capture_folder
from warpdeck.snapshots.left_out import Reason, left_out_of

NAMES = st.sampled_from(
    [
        b"a",
        b"b.py",
        b"caf\xc3\xa9",
        b"latin\xe9",
        b"with space",
        b"new\nline",
        b"-x",
        b"a.b",
        b"back\\slash",
        b"git~1",
        b":(top)x",
        b"*",
    ]
)
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a" * 16 + b"\nsize 12345\n"
CONTENTS = st.sampled_from([b"", b"x", b"line\r\nline\n", b"\x00\xff\xfe", LFS, b"$Id$ $Format:%H$\n"])
FILES = st.tuples(st.just("file"), CONTENTS, st.booleans())
LINKS = st.tuples(
    st.just("link"),
    st.sampled_from([b"a", b"missing", b"/etc/passwd", b"/", b"..", b".", b"b.py/x", b"\xff"]),
)
FOLDERS = st.deferred(lambda: st.tuples(st.just("folder"), st.dictionaries(NAMES, ENTRIES, max_size=3)))
REPOSITORIES = st.deferred(
    lambda: st.tuples(
        st.sampled_from(["new repository", "repository", "submodule", "broken repository"]),
        st.dictionaries(NAMES, ENTRIES, max_size=3),
    )
)
ENTRIES: st.SearchStrategy[tuple[Any, ...]] = st.one_of(FILES, FILES, LINKS, FOLDERS, REPOSITORIES)
TREES = st.dictionaries(NAMES, ENTRIES, min_size=1, max_size=4)
ATTRIBUTES = (
    b"* text=auto eol=crlf filter=lfs ident export-subst\n*.py export-ignore working-tree-encoding=UTF-16\n"
)


def git(folder: bytes, *argv: str, check: bool = True) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "core.protectNTFS=false", *argv],
        cwd=folder,
        check=check,
        capture_output=True,
    )


def make(folder: bytes, entries: dict[bytes, tuple[Any, ...]], outside: str) -> None:
    for name, entry in entries.items():
        path = os.path.join(folder, name)
        if entry[0] == "file":
            Path(os.fsdecode(path)).write_bytes(entry[1])
            os.chmod(path, 0o755 if entry[2] else 0o644)
        elif entry[0] == "link":
            os.symlink(entry[1], path)
        else:
            os.mkdir(path)
            make(path, entry[1], outside)
            make_repository(path, entry[0], outside)


def make_repository(path: bytes, kind: str, outside: str) -> None:
    if kind == "broken repository":
        Path(os.fsdecode(path), ".git").write_text("gitdir: /nowhere/at/all\n")
        return
    if kind == "submodule":  # the form in which `git submodule` leaves a checkout: .git is a file
        git(path, "init", "-q", "--separate-git-dir", tempfile.mkdtemp(dir=outside))
    elif kind != "folder":
        git(path, "init", "-q")
    if kind in ("repository", "submodule"):
        git(path, "add", "-A", "--ignore-errors", check=False)
        git(path, "commit", "-q", "--allow-empty", "-m", "x")


def facts(folder: bytes) -> dict[bytes, tuple[str, bytes]]:
    """Return the kind and content of each file below a folder, without git's own."""
    found: dict[bytes, tuple[str, bytes]] = {}
    for where, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if each != b".git"]
        for name in [*names, *folders]:
            path = os.path.join(where, name)
            mode = os.lstat(path).st_mode
            if name == b".git" or stat.S_ISDIR(mode):
                continue
            if stat.S_ISLNK(mode):
                found[os.path.relpath(path, folder)] = "link", os.readlink(path)
            else:
                kind = "program" if mode & 0o100 else "file"
                found[os.path.relpath(path, folder)] = kind, Path(os.fsdecode(path)).read_bytes()
    return found


def unpacked(taken: Capture) -> dict[bytes, tuple[str, bytes]]:
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(taken.packed, errors="surrogateescape", encoding="utf-8") as archive:
            archive.extractall(folder, filter="fully_trusted")
        return facts(os.fsencode(folder))


class Tree:
    """A work tree or plain folder of generated entries, and a snapshot store beside it."""

    def __init__(self, folder: str, entries: dict[bytes, tuple[Any, ...]], kind: str) -> None:
        self.root = os.path.join(os.fsencode(folder), b"root")
        self.store = os.path.join(folder, "store.git")
        os.mkdir(self.root)
        make(self.root, entries, folder)
        Path(os.fsdecode(self.root), ".gitattributes").write_bytes(ATTRIBUTES)
        make_repository(self.root, kind, folder)

    def taken(self) -> Capture:
        return capture_folder(os.fsdecode(self.root), self.store)


def replace_folder_by_link(root: bytes) -> None:
    """Replace a folder by a link to its moved content. Git still tracks the files below the old name."""
    for name in sorted(os.listdir(root)):
        path = os.path.join(root, name)
        if name != b".git" and os.path.isdir(path) and not os.path.islink(path):
            os.rename(path, path + b".moved")
            os.symlink(name + b".moved", path)
            return


@settings(max_examples=8, deadline=None)
@given(
    entries=TREES, kind=st.sampled_from(["folder", "new repository", "repository"]), is_moved=st.booleans()
)
def test_a_snapshot_restores_each_file_of_any_tree(
    entries: dict[bytes, tuple[Any, ...]], kind: str, is_moved: bool
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        tree = Tree(folder, entries, kind)
        if is_moved:
            replace_folder_by_link(tree.root)
        taken = tree.taken()
        assert taken.snapshot is not None
        assert unpacked(taken) == facts(tree.root)
        restored = os.path.join(folder, "new", "restored")
        SnapshotStore(tree.store).restore(taken.snapshot["tree"], restored)
        assert facts(os.fsencode(restored)) == facts(tree.root)
        left_out = left_out_of(SnapshotStore(tree.store).meta(taken.snapshot["tree"]))
        assert {each["why"] for each in left_out["paths"]} <= {Reason.EMPTY_SUBMODULE}
        assert tree.taken().snapshot == taken.snapshot


PATTERNS = st.lists(
    st.sampled_from(
        ["a", "/a", "a/", "*", "!b.py", "*.py", "a/**", "**/b.py", "!a/", "# a", "caf\u00e9", "\\*", "[ab]*"]
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=8, deadline=None)
@given(
    entries=st.dictionaries(NAMES, st.one_of(FILES, LINKS, FOLDERS), min_size=1, max_size=4).filter(
        lambda entries: "repository" not in repr(entries)
    ),
    kind=st.sampled_from(["folder", "new repository", "repository"]),
    patterns=PATTERNS,
    inner=PATTERNS,
)
def test_an_ignore_file_means_what_gitignore_means(
    entries: dict[bytes, tuple[Any, ...]], kind: str, patterns: list[str], inner: list[str]
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        tree = Tree(folder, entries, kind)
        root = os.fsdecode(tree.root)
        Path(root, ".warpdeckignore").write_text("\n".join(patterns))
        below = [
            each
            for each in Path(root).iterdir()
            if each.is_dir() and not each.is_symlink() and each.name != ".git"
        ]
        for each in below:
            (each / ".warpdeckignore").write_text("\n".join(inner))
        argv = ["git", f"--git-dir={folder}/other.git", f"--work-tree={root}"]
        subprocess.run(["git", "init", "-q", "--bare", f"{folder}/other.git"], check=True)
        listed = subprocess.run(
            [*argv, "ls-files", "-z", "--others", "--exclude-per-directory=.warpdeckignore"],
            check=True,
            capture_output=True,
            cwd=root,
        ).stdout
        expected = {name for name in listed.split(b"\0") if name}
        taken = tree.taken()
        kept = set(unpacked(taken)) if taken.snapshot else set()
        assert kept == expected
        if taken.snapshot:
            left_out = left_out_of(SnapshotStore(tree.store).meta(taken.snapshot["tree"]))["paths"]
            gone = {os.fsencode(each["path"]) for each in left_out}
            for name in set(facts(tree.root)) - expected:
                assert any(name == each or name.startswith(each + b"/") for each in gone), name
