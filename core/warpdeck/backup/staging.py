"""Private folders for files that are not complete yet. Those of killed processes are deleted."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator

PREFIX = ".warpdeck-partial-"


@contextlib.contextmanager
def private_folder(parent: str) -> Iterator[str]:
    """Create a folder of this user in `parent`, and delete it afterwards. Raises OSError.

    Its lock shows that it is in use, so the folder of a killed process can be recognized and deleted.
    """
    _delete_abandoned(parent)
    folder = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sync_folder(folder: str) -> None:
    """Make the names in the folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _delete_abandoned(parent: str) -> None:
    with os.scandir(parent) as entries:
        names = [
            entry.name
            for entry in entries
            if entry.name.startswith(PREFIX)
            and entry.is_dir(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_uid == os.geteuid()
        ]
    for name in names:
        with contextlib.suppress(OSError):
            lock = os.open(
                os.path.join(parent, name), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            )
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
            finally:
                os.close(lock)
