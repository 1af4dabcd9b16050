"""Select the files of a snapshot. Only git decides whether a pattern matches a file.

1. Git lists the files of the work tree: tracked files, and untracked files that it does not ignore. It does so in each nested
   repository too. A nested repository that git refuses to read (it is broken, or belongs to another user) is listed like a folder.
   A plain folder is listed by `ls-files --others` with the snapshot store as the repository.
2. `_Walk` decides for each name by the file's status: kept, left out for a `Reason`, or a folder to list in turn.
3. If there is a .warpdeckignore, git lists the kept files that the patterns match, and these are left out. The files are entries of a
   temporary index for this, so no folder is read again.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from bisect import bisect_left
from collections.abc import Sequence

from warpdeck.base.errors import UserError

from .git import git_environment, run_git
from .left_out import LeftOut, Reason

MAX_UNTRACKED_BYTES = 50 * 1024 * 1024
"""Maximum size of an untracked file. A larger file is data and not code."""
MAX_FOLDER_FILES = 2000
MAX_FOLDER_BYTES = 64 * 1024 * 1024
"""A plain folder beyond these limits is not regarded as code."""
MAX_NESTING = 8
IGNORE_FILE = b".warpdeckignore"
_OUTPUT = re.compile(rb"slurm-[0-9]+(_[0-9]+)?\.(out|err)")
_UNREADABLE = re.compile(rb"^warning: could not open directory '(.*?)/?': ", re.MULTILINE)
_LS = ("-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false", "ls-files", "-z")
LIST = (*_LS, "--exclude-standard")
_PER_FOLDER = f"--exclude-per-directory={os.fsdecode(IGNORE_FILE)}"
_NO_CONTENT = b"100644 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 0\t"
"""An index entry with the id of the empty file. Only the names in the index are used."""


class Selection:
    """The files of a snapshot, relative to the root."""

    def __init__(self, root: str, store_path: str) -> None:
        self.root = root
        self.store_path = store_path
        self.files: list[bytes] = []
        self.untracked: list[bytes] = []
        """The files that the repository of the root does not track."""
        self.left_out = LeftOut()
        self.ignored_tops: set[bytes] = set()
        """Entries directly in the root that .warpdeckignore leaves out whole."""
        self.total_bytes = 0


def select_work_tree(root: str, store_path: str, *, check_access: bool = False) -> Selection:
    """Select the files of a git work tree. Raises UserError.

    With `check_access`, each file that cannot be opened is left out. This takes a system call for each file, so
    it is used only after a capture has failed.
    """
    found = Selection(root, store_path)
    _Walk(found, check_access).add(b"", *_git_names(root, found.left_out, b""))
    _apply_ignore_files(found)
    return found


def select_folder(root: str, store_path: str, *, check_access: bool = False) -> Selection | None:
    """Select the files of a plain folder. Returns None if they are too many or too large. Raises UserError.

    A folder beyond the limits is listed whole only if a .warpdeckignore in it could reduce its files.
    """
    has_ignore_file = os.path.lexists(os.path.join(os.fsencode(root), IGNORE_FILE))
    if not has_ignore_file and not _is_small(root):
        return None
    found = Selection(root, store_path)
    names = _plain_names(root, found, b"", _PER_FOLDER)
    _Walk(found, check_access).add(b"", names, set())
    if has_ignore_file:
        ignored = _plain_names(root, found, b"", "--ignored", "--directory", _PER_FOLDER)
        _leave_out(found, {name.rstrip(b"/") for name in ignored if not is_output(name)})
    _apply_ignore_files(found)
    is_too_large = len(found.files) > MAX_FOLDER_FILES or found.total_bytes > MAX_FOLDER_BYTES
    return None if is_too_large else found


def is_output(path: bytes) -> bool:
    """Return whether the path has a default name of sbatch's output.

    Such files are not code, and they change while jobs run.
    """
    return bool(_OUTPUT.fullmatch(path.rpartition(b"/")[2]))


class _Walk:
    """Adds listed names to a selection, and lists nested repositories."""

    def __init__(self, found: Selection, check_access: bool) -> None:
        self._found = found
        self._check_access = check_access
        self._base = os.path.join(os.fsencode(found.root), b"")
        self._store = os.fsencode(os.path.realpath(found.store_path))

    def add(self, prefix: bytes, tracked: set[bytes], others: set[bytes], *, depth: int = 0) -> None:
        """Add the names, which are relative to the folder `prefix` ("" or a path that ends with "/")."""
        found, base = self._found, self._base + prefix
        found_files, untracked = found.files, found.untracked
        hidden = [each for each in others if os.path.islink(base + each)]
        if self._store.startswith(base):
            hidden.append(self._store[len(base) :])
        for name in _without(sorted(tracked | others), hidden):
            try:
                status = os.lstat(base + name)  # os.path.join would take a fifth of the time of all files
            except OSError:
                continue  # deleted in the work tree
            if stat.S_ISDIR(status.st_mode):
                self._add_folder(prefix + name, depth)
                continue
            is_tracked = name in tracked
            if not is_tracked and is_output(name):
                continue
            why = self._reason(base + name, status, is_tracked)
            if why is not None:
                found.left_out.add(prefix + name, why)
                continue
            found_files.append(prefix + name)
            found.total_bytes += status.st_size
            if not is_tracked and not depth:
                untracked.append(name)

    def _reason(self, path: bytes, status: os.stat_result, is_tracked: bool) -> Reason | None:
        is_file = stat.S_ISREG(status.st_mode)
        if not is_file and not stat.S_ISLNK(status.st_mode):
            return Reason.SPECIAL
        if not is_tracked and status.st_size > MAX_UNTRACKED_BYTES:
            return Reason.LARGE
        lowered = path[len(self._base) :].lower()
        if b".git" in lowered:
            parts = lowered.split(b"/")
            if b".git" in parts or (not is_file and parts[-1] == b".gitmodules"):
                return Reason.NAME
        if self._check_access and is_file and not os.access(path, os.R_OK):
            return Reason.UNREADABLE
        return None

    def _add_folder(self, name: bytes, depth: int) -> None:
        """Add the files of a nested repository, a submodule or a folder that was a file when git tracked it."""
        left_out = self._found.left_out
        if depth >= MAX_NESTING:
            left_out.add(name, Reason.NESTING)
            return
        folder = os.fsdecode(self._base + name)
        prefix = name + b"/"
        if os.path.lexists(os.path.join(folder, ".git")):
            with contextlib.suppress(UserError):
                self.add(prefix, *_git_names(folder, left_out, prefix), depth=depth + 1)
                return
        others = _plain_names(folder, self._found, prefix, "--exclude-per-directory=.gitignore")
        if not others:
            left_out.add(name, Reason.EMPTY_SUBMODULE)
        self.add(prefix, set(), others, depth=depth + 1)


def _without(names: list[bytes], folders: Sequence[bytes]) -> list[bytes]:
    """Return the sorted names without those below these folders.

    The folders are the snapshot store, and symbolic links that have replaced a folder with tracked files.
    """
    for folder in folders:
        del names[bisect_left(names, folder + b"/") : bisect_left(names, folder + b"0")]  # "0" follows "/"
    return names


def _git_names(folder: str, left_out: LeftOut, prefix: bytes) -> tuple[set[bytes], set[bytes]]:
    """Return the tracked names, and the untracked names that git does not ignore. Raises UserError."""
    tracked = _names(run_git([*LIST, "--cached"], cwd=folder))
    warnings: list[bytes] = []
    others = _names(run_git([*LIST, "--others"], cwd=folder, warnings=warnings))
    _add_unreadable(warnings, left_out, prefix)
    return tracked, others - tracked


def _plain_names(folder: str, found: Selection, prefix: bytes, *options: str) -> set[bytes]:
    """Return the names in a folder without asking a repository in it. Raises UserError."""
    warnings: list[bytes] = []
    names = run_git(
        [*_LS, "--others", *options],
        cwd=folder,
        env=_store_environment(found.store_path, folder, os.path.join(found.store_path, "none")),
        warnings=warnings,
    )
    _add_unreadable(warnings, found.left_out, prefix)
    return _names(names)


def _names(listed: bytes) -> set[bytes]:
    return {name.rstrip(b"/") for name in listed.split(b"\0")} - {b""}


def _add_unreadable(warnings: Sequence[bytes], left_out: LeftOut, prefix: bytes) -> None:
    for text in warnings:
        for name in sorted(set(_UNREADABLE.findall(text))):
            left_out.add(prefix + name, Reason.UNREADABLE)


def _apply_ignore_files(found: Selection) -> None:
    """Leave out the files that a .warpdeckignore in their folder, or in a folder above it, names."""
    at_root = os.path.join(os.fsencode(found.root), IGNORE_FILE)
    if not any(name.endswith(IGNORE_FILE) for name in found.files) and not os.path.lexists(at_root):
        return
    with tempfile.TemporaryDirectory(dir=found.store_path, prefix="names.") as folder:
        env = _store_environment(found.store_path, found.root, os.path.join(folder, "index"))
        entries = b"".join(_NO_CONTENT + name + b"\0" for name in found.files)
        run_git(["update-index", "-z", "--index-info"], cwd=found.root, env=env, data=entries)
        listed = run_git([*_LS, "--cached", "--ignored", _PER_FOLDER], cwd=found.root, env=env)
    _leave_out(found, _names(listed))


def _leave_out(found: Selection, ignored: set[bytes]) -> None:
    for name in sorted(ignored):
        found.left_out.add(name, Reason.IGNORE_FILE)
    for name in ignored & set(found.files):
        with contextlib.suppress(OSError):
            found.total_bytes -= os.lstat(os.path.join(os.fsencode(found.root), name)).st_size
    found.files = [name for name in found.files if name not in ignored]
    found.untracked = [name for name in found.untracked if name not in ignored]
    kept = {name.partition(b"/")[0] for name in found.files}
    found.ignored_tops |= {name.partition(b"/")[0] for name in ignored} - kept
    found.ignored_tops -= kept


def _store_environment(store_path: str, root: str, index: str) -> dict[str, str]:
    return {**git_environment(), "GIT_DIR": store_path, "GIT_WORK_TREE": root, "GIT_INDEX_FILE": index}


def _is_small(folder: str) -> bool:
    """Return whether the files of a plain folder, without nested repositories, are within the limits."""
    count = total = 0
    for where, folders, names in os.walk(os.fsencode(folder)):
        if b".git" in folders or b".git" in names:
            folders.clear()
            continue
        for name in names:
            if not is_output(name):
                count += 1
                with contextlib.suppress(OSError):
                    total += os.lstat(os.path.join(where, name)).st_size
        if count > MAX_FOLDER_FILES or total > MAX_FOLDER_BYTES:
            return False
    return True
