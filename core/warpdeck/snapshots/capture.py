"""Take a snapshot: select its files, and record facts about the repository.

In a git work tree, a snapshot contains the present content of all files that git tracks or does not ignore,
including nested repositories. This works during a merge conflict, while index.lock is held and before the
first commit, because the repository is only read. A snapshot of a plain folder contains all of its files,
within limits. Files with the default names of sbatch's output are excluded. If a snapshot fails, the job is
submitted without one, unless the user requires it.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any

from warpdeck.base.errors import UserError

from .git import run_git
from .store import SnapshotStore

MAX_UNTRACKED_BYTES = 50 * 1024 * 1024
"""Maximum size of an untracked file. A larger file is data and not code. It is left out, and the user gets a
message.
"""
MAX_FOLDER_FILES = 2000
MAX_FOLDER_BYTES = 64 * 1024 * 1024
"""A plain folder beyond these limits is not regarded as code."""
MAX_LINKS = 200
MAX_NESTING = 8
_OUTPUT = re.compile(rb"slurm-[0-9]+(_[0-9]+)?\.(out|err)")
_WRITTEN = re.compile(rb"\.(out|err|log)$")
"""Matches names of untracked files that jobs write. They do not make the code different from its commit."""
_LIST = (
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.untrackedCache=false",
    "ls-files",
    "-z",
    "--exclude-standard",
)


class Capture:
    """A snapshot (model.Snapshot as JSON) or None, and messages for the user."""

    def __init__(self, snapshot: dict[str, Any] | None, notes: list[str], packed: str = "") -> None:
        self.snapshot = snapshot
        self.notes = notes
        self.packed = packed
        """The path of the packed tree."""


def capture_folder(folder: str, store_path: str) -> Capture:
    """Take a snapshot of the work tree or plain folder that contains `folder`. Raises UserError if git
    fails.
    """
    folder = os.path.realpath(folder)
    root = _git_root(folder)
    skipped: list[str] = []
    facts: dict[str, Any] = {"head": "", "branch": "", "dirty": False}
    links: list[str] = []
    if root:
        untracked: list[bytes] = []
        files = _git_files(root, skipped, untracked)
        facts = _git_facts(root)
        facts["dirty"] |= any(not _WRITTEN.search(name) for name in untracked)
        links = _ignored(root)
    else:
        root = folder
        if folder in ("/", os.path.realpath(os.path.expanduser("~"))):
            return Capture(
                None, [f"no snapshot of {folder}: not a code folder; the job runs in the folder itself"]
            )
        found = folder_files(folder)
        if found is None:
            limit = f"{MAX_FOLDER_FILES:,} files or {MAX_FOLDER_BYTES >> 20} MiB"
            return Capture(
                None,
                [
                    f"no snapshot: {folder} is not a git repository and contains more than {limit}; the job runs in the folder itself"
                ],
            )
        files = found
    if not files:
        return Capture(None, [])  # A folder without code needs no message.
    store = SnapshotStore(store_path)
    store.ensure()
    tree = store.write_tree(root, files)
    meta = {"root": root, **facts, "files": len(files), "skipped": skipped}
    commit = store.commit(tree, meta)
    packed, sha256, size_bytes = store.pack(tree)
    notes = [f"not in the snapshot (over {MAX_UNTRACKED_BYTES >> 20} MiB): {name}" for name in skipped]
    subdir = os.path.relpath(folder, root)
    snapshot = {
        "commit": commit,
        "tree": tree,
        "root": root,
        "subdir": "" if subdir == "." else subdir,
        "sha256": sha256,
        "size_bytes": size_bytes,
        "links": links,
        "head": facts["head"],
        "dirty": facts["dirty"],
        "store": store_path,
    }
    return Capture(snapshot, notes, packed)


def _git_root(folder: str) -> str:
    try:
        return os.fsdecode(run_git(["rev-parse", "--show-toplevel"], cwd=folder).rstrip(b"\n"))
    except UserError:
        return ""


def _git_files(
    root: str, skipped: list[str], untracked: list[bytes] | None = None, *, depth: int = 0
) -> list[bytes]:
    """Return the tracked files and the untracked files that are not ignored, relative to root.

    Files of nested repositories are included. The untracked files of `root` itself are added to `untracked`.
    """
    tracked = set(run_git([*_LIST, "--cached"], cwd=root).split(b"\0")) - {b""}
    others = set(run_git([*_LIST, "--others"], cwd=root).split(b"\0")) - {b""}
    base = os.path.join(os.fsencode(root), b"")
    files: list[bytes] = []
    for name in sorted(tracked | others):
        path = base + name.rstrip(b"/")  # os.path.join would take a fifth of the time that the files take
        try:
            status = os.lstat(path)
        except OSError:
            continue  # deleted in the work tree
        if stat.S_ISDIR(status.st_mode):
            if depth < MAX_NESTING and os.path.exists(os.path.join(path, b".git")):
                inner = _git_files(os.fsdecode(path), skipped, depth=depth + 1)
                files += [name.rstrip(b"/") + b"/" + each for each in inner]
        elif not _is_kept(status.st_mode) or (name not in tracked and is_output(name)):
            continue
        elif name not in tracked and status.st_size > MAX_UNTRACKED_BYTES:
            skipped.append(os.fsdecode(name))
        else:
            files.append(name)
            if name not in tracked and untracked is not None:
                untracked.append(name)
    return files


def _is_kept(mode: int) -> bool:
    """Return whether this is the mode of a regular file or a symbolic link."""
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def is_output(path: bytes) -> bool:
    """Return whether the path has a default name of sbatch's output.

    Such files are not code, and they change while jobs run.
    """
    return bool(_OUTPUT.fullmatch(path.rpartition(b"/")[2]))


def _git_facts(root: str) -> dict[str, Any]:
    def git_text(*argv: str) -> str:
        try:
            return run_git(argv, cwd=root).decode("utf-8", "replace").strip()
        except UserError:
            return ""

    # Git reads nested repositories without checking their owner, and runs programs named in their
    # configuration.
    status = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")
    dirty = bool(git_text("-c", "core.fsmonitor=false", *status))
    return {
        "head": git_text("rev-parse", "--verify", "--quiet", "HEAD"),
        "branch": git_text("symbolic-ref", "--short", "--quiet", "HEAD"),
        "dirty": dirty,
    }


def _ignored(root: str) -> list[str]:
    """Return the entries directly in the root that git ignores, such as data, environments and results."""
    out = run_git([*_LIST, "--others", "--ignored", "--directory"], cwd=root)
    names = {os.fsdecode(name.rstrip(b"/")) for name in out.split(b"\0") if name}
    return sorted(name for name in names if "/" not in name)[:MAX_LINKS]


def folder_files(folder: str) -> list[bytes] | None:
    """Return all files of a plain folder, or None if they are too many or too large."""
    files: list[bytes] = []
    total = 0
    base = os.fsencode(folder)
    for where, folders, names in os.walk(base):
        folders.sort()
        for name in sorted(
            [*names, *(each for each in folders if os.path.islink(os.path.join(where, each)))]
        ):
            path = os.path.join(where, name)
            try:
                status = os.lstat(path)
            except OSError:
                continue
            if is_output(name):
                continue
            if _is_kept(status.st_mode):
                files.append(os.path.relpath(path, base))
                total += status.st_size
            if len(files) > MAX_FOLDER_FILES or total > MAX_FOLDER_BYTES:
                return None
    return files
