"""The user's snapshot store: a bare git repository that keeps trees byte for byte.

It is separate from the user's repositories. Attributes and filters are switched off in it (info/attributes
takes precedence over files in the tree), so that checkouts equal the captured files. The store has an index
for each captured root; the status of the files in the index makes the next capture fast.

Locks (flock) protect the store from simultaneous and killed writers. Git processes inherit them, so that a git whose
parent was killed still excludes others until it has ended.
- `setup.turn`: exclusive while the store is created.
- `indices/ROOT.turn`: exclusive while a writer uses the index of a root.

Git compares modification times in whole seconds, and compares the content of a file only if it is not older than the index. A file
that changes between its reading and the writing of the index, within one second, would keep its earlier content. Therefore the
time of `ROOT.turn` is the beginning of the last complete update, and the index gets this time before the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from warpdeck.base.errors import UserError

from .git import git_environment, run_git, run_git_as

MAX_SHOWN_BYTES = 8 * 1024 * 1024
"""Largest size in bytes of a file that is displayed."""
CLOCK_NS = 1_000_000_000
"""Margin in nanoseconds for a file system whose clock is behind ours."""
_SETTINGS = {
    "core.fsyncMethod": "batch",
    "core.looseCompression": "1",
    "gc.auto": "0",
    "core.autocrlf": "false",
    # The user's own configuration must not hide changes, or refuse names that other systems cannot store.
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.ignoreCase": "false",
    "core.trustctime": "true",
    "core.checkStat": "default",
    "core.protectHFS": "false",
    "core.protectNTFS": "false",
}
_ATTRIBUTES = "* -text -eol -ident -filter -working-tree-encoding -export-ignore -export-subst\n"


class SnapshotStore:
    """The store at `path`, which is created when first used.

    The store of another user (`uid`) can only be read, and only by root.
    """

    def __init__(self, path: str, *, uid: int | None = None) -> None:
        self.path = path
        self._uid = os.geteuid() if uid is None else uid

    def ensure(self) -> None:
        """Create the repository if it does not exist. Raises UserError."""
        self.check_own()
        attributes = os.path.join(self.path, "info", "attributes")
        if os.path.exists(attributes):
            return
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        with self._locked("setup.turn") as lock:
            if os.path.exists(attributes):
                return
            for name in ("config.lock", "HEAD.lock"):  # left by a killed git; this process holds the lock
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.path, name))
            run_git(["init", "--quiet", "--bare", "."], cwd=self.path, held=(lock,))
            for key, value in _SETTINGS.items():
                run_git(["config", key, value], cwd=self.path, held=(lock,))
            for name in ("indices", "packed", "info"):
                os.makedirs(os.path.join(self.path, name), mode=0o700, exist_ok=True)
            # The file is complete when it gets its name, because it says that the store is.
            with open(attributes + ".new", "w", encoding="ascii") as file:
                file.write(_ATTRIBUTES)
            os.replace(attributes + ".new", attributes)

    def check_own(self) -> None:
        """Raise UserError if the store belongs to another user.

        Otherwise git would run programs named in that user's configuration.
        """
        owners = {self._uid}
        with contextlib.suppress(FileNotFoundError):
            owners |= {os.lstat(self.path).st_uid, os.stat(self.path).st_uid}
            owners.add(os.stat(os.path.join(self.path, "config")).st_uid)
        if owners != {os.geteuid()}:
            raise UserError(
                f"the snapshot store {self.path} belongs to another user", "submit from a folder of your own"
            )

    def write_tree(self, root: str, files: Sequence[bytes], *, use_index: bool = True) -> str:
        """Write a tree that contains exactly these files, and return its id. Raises UserError.

        The files are relative to root and have their present content. Without `use_index`, the index of the
        last capture is dropped first; it may be damaged.
        """
        name = os.path.join("indices", hashlib.sha256(os.fsencode(root)).hexdigest()[:32])
        index = os.path.join(self.path, name)
        env = {**git_environment(), "GIT_DIR": self.path, "GIT_WORK_TREE": root, "GIT_INDEX_FILE": index}
        with self._locked(name + ".turn") as lock:
            for ending in [".lock"] if use_index else [".lock", ""]:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(index + ending)  # left by a killed git; this process holds the lock

            begun_ns = time.time_ns() - CLOCK_NS
            if os.path.exists(index):
                checked_ns = os.fstat(lock).st_mtime_ns
                os.utime(index, ns=(checked_ns, checked_ns))

            def git(*argv: str, data: bytes = b"") -> bytes:
                return run_git(argv, cwd=root, env=env, data=data, held=(lock,))

            tracked = set(git("ls-files", "-z").split(b"\0")) if os.path.exists(index) else set()
            gone = tracked - set(files) - {b""}
            if gone:
                git("update-index", "--force-remove", "-z", "--stdin", data=b"\0".join(sorted(gone)))
            data = b"\0".join(files) + (b"\0" if files else b"")
            git("update-index", "--add", "--remove", "--replace", "-z", "--stdin", data=data)
            os.utime(lock, ns=(begun_ns, begun_ns))
            return git("write-tree").decode().strip()

    def commit(self, tree: str, meta: dict[str, Any]) -> str:
        """Create a commit of the tree with these facts, and a ref that keeps it."""
        message = json.dumps(meta, sort_keys=True).encode()
        commit = self._git("commit-tree", tree, data=message).decode().strip()
        self._git("update-ref", f"refs/snapshots/{tree}", commit)
        return commit

    def pack(self, tree: str) -> tuple[str, str, int]:
        """Return (path, SHA-256, size in bytes) of the tree as tar.gz, which is created once.

        Raises UserError.
        """
        self.check_own()
        path = os.path.join(self.path, "packed", tree + ".tar.gz")
        if not os.path.exists(path):
            tar = self._git("archive", "--format=tar", f"refs/snapshots/{tree}")
            temporary = f"{path}.{os.getpid()}.{threading.get_ident()}"
            with open(temporary, "wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as packed:
                packed.write(tar)
            os.replace(temporary, path)
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return path, digest, os.path.getsize(path)

    def meta(self, tree: str) -> dict[str, Any]:
        """Return the facts recorded with the snapshot. Raises UserError if it is not in this store."""
        try:
            text = self._git("show", "-s", "--format=%B", f"refs/snapshots/{tree}")
        except UserError as error:
            raise UserError(
                f"the snapshot {tree[:12]} is not in your store",
                f"run this on its submit host, in {self.path}",
            ) from error
        found = json.loads(text)
        return dict(found)

    def files(self, tree: str) -> list[str]:
        """Return the paths in the tree."""
        out = self._git("ls-tree", "-r", "-z", "--name-only", tree)
        return [os.fsdecode(name) for name in out.split(b"\0") if name]

    def read(self, tree: str, path: str) -> bytes:
        """Return a file of the tree, or the target of a symbolic link.

        Raises UserError if the file is too large to display.
        """
        name = f"{tree}:{path}"
        size_bytes = int(self._git("cat-file", "-s", name))
        if size_bytes > MAX_SHOWN_BYTES:
            raise UserError(
                f"{path} has {size_bytes >> 20} MiB: too large to show",
                f"save it with: git --git-dir {self.path} cat-file blob {name}",
            )
        return self._git("cat-file", "blob", name)

    def diff(self, old: str, new: str) -> str:
        """Return a unified diff between two trees."""
        argv = ["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--text", old, new]
        return self._git(*argv).decode("utf-8", "replace")

    def diff_with_commit(self, commit: str, tree: str, *, root: str) -> str:
        """Return a unified diff from a commit of the user's repository at `root` to a tree of this store.

        Raises UserError if the repository does not have the commit any more.
        """
        self.check_own()
        argv = ["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--text", commit, tree]
        objects = os.path.join(self.path, "objects")
        env = {**git_environment(), "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects}
        return run_git(["-c", "core.fsmonitor=false", *argv], cwd=root, env=env).decode("utf-8", "replace")

    def restore(self, tree: str, folder: str) -> None:
        """Write the files of the tree into a folder, which is new or empty. Raises UserError.

        The files are written into a folder beside it, which then gets its name. So a folder is complete or unchanged.
        """
        self.check_own()
        self.meta(tree)
        folder = os.path.abspath(folder)
        parent, name = os.path.split(folder)
        try:
            if os.path.lexists(folder) and (os.path.islink(folder) or os.listdir(folder)):
                raise UserError(f"{folder} is not an empty folder", "name a new folder")
            os.makedirs(parent, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f".{name[:64]}.", dir=parent) as beside:
                files = os.path.join(beside, "files")
                os.mkdir(files)
                index = os.path.join(beside, "index")
                env = {
                    **git_environment(),
                    "GIT_DIR": self.path,
                    "GIT_WORK_TREE": files,
                    "GIT_INDEX_FILE": index,
                }
                run_git(["read-tree", tree], cwd=files, env=env)
                run_git(["checkout-index", "--all"], cwd=files, env=env)
                os.rename(files, folder)
        except OSError as error:
            raise UserError(
                f"cannot write the folder {folder}: {error.strerror}", "name a new folder that you can write"
            ) from error

    def _git(self, *argv: str, data: bytes = b"") -> bytes:
        if self._uid != os.geteuid():
            return run_git_as(self._uid, argv, store=self.path)
        self.check_own()
        env = {**git_environment(), "GIT_DIR": self.path}
        return run_git(argv, cwd=self.path, data=data, env=env)

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[int]:
        with open(os.path.join(self.path, name), "a+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file.fileno()
