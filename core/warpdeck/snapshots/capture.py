"""Take a snapshot: store its files (snapshots/selection), and record facts about the repository.

In a git work tree, a snapshot contains the present content of all files that git tracks or does not ignore,
including nested repositories. This works during a merge conflict, while index.lock is held and before the
first commit, because the repository is only read. A snapshot of a plain folder contains all of its files,
within limits. Files with the default names of sbatch's output are excluded. If a snapshot fails, the job is
submitted without one, unless the user requires it.
"""

from __future__ import annotations

import os
import re
from typing import Any

from warpdeck.base.errors import UserError

from .git import run_git
from .selection import (
    LIST,
    MAX_FOLDER_BYTES,
    MAX_FOLDER_FILES,
    Selection,
    select_folder,
    select_work_tree,
)
from .store import SnapshotStore

MAX_LINKS = 200
ATTEMPTS = 3
"""Number of attempts to store the files. Files may change or disappear meanwhile."""
_WRITTEN = re.compile(rb"\.(out|err|log)$")
"""Matches names of untracked files that jobs write. They do not make the code different from its commit."""


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
    if not root and folder in ("/", os.path.realpath(os.path.expanduser("~"))):
        return Capture(
            None, [f"no snapshot of {folder}: not a code folder; the job runs in the folder itself"]
        )
    store = SnapshotStore(store_path)
    store.ensure()
    found, tree = _stored(store, folder, root)
    if found is None:
        limit = f"{MAX_FOLDER_FILES:,} files or {MAX_FOLDER_BYTES >> 20} MiB"
        return Capture(
            None,
            [
                f"no snapshot: {folder} is not a git repository and contains more than {limit}; the job runs in the folder itself"
            ],
        )
    notes = [found.left_out.note()] if found.left_out.note() else []
    if not found.files:
        return Capture(None, notes)  # A folder without code needs no message.
    facts: dict[str, Any] = {"head": "", "branch": "", "dirty": False}
    if root:
        facts = _git_facts(root)
        facts["dirty"] |= any(not _WRITTEN.search(name) for name in found.untracked)
    meta = {"root": found.root, **facts, "files": len(found.files), "left_out": found.left_out.facts()}
    commit = store.commit(tree, meta)
    packed, sha256, size_bytes = store.pack(tree)
    subdir = os.path.relpath(folder, found.root)
    snapshot = {
        "commit": commit,
        "tree": tree,
        "root": found.root,
        "subdir": "" if subdir == "." else subdir,
        "sha256": sha256,
        "size_bytes": size_bytes,
        "links": _links(found, is_repository=bool(root)),
        "head": facts["head"],
        "dirty": facts["dirty"],
        "store": store_path,
    }
    return Capture(snapshot, notes, packed)


def _stored(store: SnapshotStore, folder: str, root: str) -> tuple[Selection | None, str]:
    """Select the files and write their tree. Returns (None, "") for a plain folder beyond the limits. Raises UserError.

    Further attempts do not use the index of the root, and leave out unreadable files.
    """
    for attempt in range(1, ATTEMPTS + 1):
        select, where = (select_work_tree, root) if root else (select_folder, folder)
        found = select(where, store.path, check_access=attempt > 1)
        if found is None or not found.files:
            return found, ""
        try:
            return found, store.write_tree(found.root, found.files, use_index=attempt == 1)
        except UserError:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError


def _git_root(folder: str) -> str:
    try:
        return os.fsdecode(run_git(["rev-parse", "--show-toplevel"], cwd=folder).rstrip(b"\n"))
    except UserError:
        return ""


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


def _links(found: Selection, *, is_repository: bool) -> list[str]:
    """Return the entries directly in the root that the checkout of a snapshot links.

    They are the data, environments and results that git or .warpdeckignore leaves out. A name that is not UTF-8
    cannot be sent to a node.
    """
    names = set(found.ignored_tops)
    if is_repository:
        out = run_git([*LIST, "--others", "--ignored", "--directory"], cwd=found.root)
        names |= {name.rstrip(b"/") for name in out.split(b"\0") if name}
    texts = {name.decode("utf-8", "replace") for name in names if b"/" not in name}
    return sorted(text for text in texts if "\ufffd" not in text)[:MAX_LINKS]
