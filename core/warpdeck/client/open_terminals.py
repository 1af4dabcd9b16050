"""Records which sessions are shown in a terminal on this machine, so that the app can offer those that are not.

A session survives its terminal, for example if an SSH connection ends. For each session that is shown there is a
file with a lock. The kernel releases the lock however the process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator

from warpdeck.base.paths import Paths

_LABEL = re.compile(r"\d{1,18}(_\d{1,9})?")


@contextlib.contextmanager
def shown(paths: Paths, job: str) -> Iterator[None]:
    """Record that this process shows the terminal of the job within this context.

    If the file cannot be written, nothing is recorded.
    """
    path = _path(paths, job)
    lock = _opened(path)
    try:
        yield
    finally:
        if lock is not None:
            with contextlib.suppress(OSError):  # another terminal shows the session too, so the file stays
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            os.close(lock)


def is_shown(paths: Paths, job: str) -> bool:
    """Return whether a terminal of this user on this machine shows the job's terminal."""
    try:
        lock = os.open(_path(paths, job), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _path(paths: Paths, job: str) -> str:
    return os.path.join(paths.terminals, job)


def _opened(path: str) -> int | None:
    """Return a descriptor of the locked file, or None if the file cannot be written."""
    if not _LABEL.fullmatch(os.path.basename(path)):
        return None
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock
