"""Opens folders component by component.

So a user's link in the path cannot redirect a privileged process.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Iterator, Sequence

FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def opened(path: str) -> Iterator[int]:
    """Yield a descriptor of the folder at this absolute path.

    Raises OSError. Existing links in the path belong to the site: they are resolved once, before, and no link
    that is created later is followed.
    """
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
    """Return a new descriptor of a folder below an open one.

    Raises OSError if a part is a link or not a folder.
    """
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
    """Create the folder and give it to its user, even if the path is changed meanwhile. Raises OSError."""
    name = os.path.basename(path)
    with opened(os.path.dirname(path)) as parent:
        os.mkdir(name, mode, dir_fd=parent)
        if uid == os.geteuid():
            return
        made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            if os.fstat(made).st_uid != os.geteuid() or os.listdir(made):
                raise OSError(errno.EEXIST, "another folder was put at this path", path)
            os.fchown(made, uid, gid)
        finally:
            os.close(made)
