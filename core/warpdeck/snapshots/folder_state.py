"""Detect whether a folder has changed since its last capture.

The module compares the names of the files and their status in the kernel. If nothing has changed, the last
capture is reused, which takes a tenth of the work. A file could be changed twice within one tick of the file
system's clock, and the second change would not be visible in its status. A state that was recorded too soon
after a change is therefore not used.
"""

from __future__ import annotations

import os
import stat
import time

from .capture import Capture
from .git import run_git
from .selection import IGNORE_FILE, is_output, select_folder

CLOCK_NS = 100_000_000
"""Safety margin in nanoseconds, far larger than the ticks of file systems."""
NAMES = ("-c", "core.fsmonitor=false", "ls-files", "-z", "--cached", "--others", "--exclude-standard")

NOTHING = (0, 0, 0, 0, 0)
Fact = tuple[bytes, int, int, int, int, int]
"""A name, and for a file its mtime and ctime in nanoseconds, size, inode number and mode."""


class FolderState:
    """The state of a folder. If the `facts` of two states are equal, nothing has changed between them."""

    def __init__(self, facts: tuple[Fact, ...], taken_ns: int) -> None:
        self.facts = facts
        self._newest_ns = max((max(each[1], each[2]) for each in facts), default=0)
        self._taken_ns = taken_ns

    @property
    def shows_every_change(self) -> bool:
        """Whether every later change would be visible, because the newest file is old enough."""
        return self._newest_ns + CLOCK_NS < self._taken_ns


def folder_state(capture: Capture) -> FolderState | None:
    """Return the state of the folder of a capture.

    Returns None if the folder cannot be compared (linked work trees, nested repositories). Raises UserError
    and OSError if the folder cannot be read.
    """
    assert capture.snapshot is not None
    begun_ns = time.time_ns()
    root = capture.snapshot["root"]
    git = os.path.join(root, ".git")
    if os.path.isdir(git):
        found = sorted(set(run_git(NAMES, cwd=root).split(b"\0")) - {b""})
        names = [name for name in found if not is_output(name)]
        facts = [*_of_top(root), *_of_repository(git), _of(root, IGNORE_FILE)]
    elif capture.snapshot["head"] or _is_below_repository(root):
        return None
    else:
        selection = select_folder(root, capture.snapshot["store"])
        names, facts = selection.files if selection else [], [_of(root, IGNORE_FILE)]
    files = [_of(root, name) for name in names]
    if any(stat.S_ISDIR(each[-1]) for each in files):
        return None
    facts += files
    return FolderState(tuple(facts), begun_ns)


def _of(root: str, name: bytes) -> Fact:
    try:
        found = os.lstat(os.path.join(os.fsencode(root), name))
    except FileNotFoundError:
        return name, *NOTHING
    return name, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode


def _of_top(root: str) -> list[Fact]:
    """Return the names directly in the root. They include ignored files, because these are linked into
    checkouts.
    """
    return [(name, *NOTHING) for name in sorted(os.listdir(os.fsencode(root))) if not is_output(name)]


def _of_repository(git: str) -> list[Fact]:
    """Return the state of the commit, branch and index."""
    with open(os.path.join(git, "HEAD"), "rb") as file:
        head = file.read(4096)
    named = head.removeprefix(b"ref: ").strip() if head.startswith(b"ref: ") else b"HEAD"
    return [
        (head, *NOTHING),
        *(_of(git, name) for name in (named, b"packed-refs", b"index", b"info/exclude")),
    ]


def _is_below_repository(folder: str) -> bool:
    while folder != "/":
        if os.path.lexists(os.path.join(folder, ".git")):
            return True
        folder = os.path.dirname(folder)
    return False
