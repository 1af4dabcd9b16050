"""Opening folders from component to component, so that no link that a user puts on the way leads a privileged process elsewhere."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Iterator, Sequence

FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def opened(path: str) -> Iterator[int]:
    """A descriptor of the folder at this absolute path. Links on the way are the site's: they are resolved once, before, and none
    that comes later is followed. Raises OSError."""
    top = os.open("/", FOLDER)
    try:
        found = enter(top, [part for part in os.path.realpath(path).split("/") if part])
    finally:
        os.close(top)
    try:
        yield found
    finally:
        os.close(found)


def enter(top: int, parts: Sequence[str]) -> int:
    """A new descriptor of the folder below an open one. Raises OSError where a part is a link or no folder."""
    at = os.dup(top)
    for part in parts:
        try:
            if part in ("", ".", ".."):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), part)
            below = os.open(part, FOLDER, dir_fd=at)
        finally:
            os.close(at)
        at = below
    return at


def make_folder(path: str, mode: int, *, uid: int, gid: int) -> None:
    """Makes the folder, and gives it to its user, whatever its path leads to by then. Raises OSError."""
    name = os.path.basename(path)
    with opened(os.path.dirname(path)) as parent:
        os.mkdir(name, mode, dir_fd=parent)
        if uid == os.geteuid():
            return
        made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            if os.fstat(made).st_uid != os.geteuid() or os.listdir(made):
                raise OSError(errno.EEXIST, "somebody has put another folder there", path)
            os.fchown(made, uid, gid)
        finally:
            os.close(made)
