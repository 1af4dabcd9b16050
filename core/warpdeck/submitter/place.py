"""Where a submitter is asked, and how one is started: for the thin client of sbatch, which imports next to nothing."""

from __future__ import annotations

import os
import stat
import zlib

import warpdeck
from warpdeck.background import start
from warpdeck.paths import Paths

SHARED = "/dev/shm"
"""In memory, where a file is made in 5 microseconds; on a disk it takes 300, and a question needs two. This machine's own."""
ASK = "ask"


def folder_of(paths: Paths) -> str:
    """This user's, for this home and this program: another program's submitters have a folder of their own."""
    return os.path.join(SHARED, f"warpdeck-{os.getuid()}.{_key(paths)}")


def ensure(paths: Paths) -> None:
    """Starts a submitter unless one runs. Raises OSError."""
    if not listens(paths):
        os.makedirs(paths.submitter, mode=0o700, exist_ok=True)
        start("warpdeck.submitter.service", paths.home, log=log_of(paths))


def listens(paths: Paths) -> bool:
    """Whether a submitter has the FIFO open for reading."""
    try:
        descriptor = os.open(
            os.path.join(folder_of(paths), ASK), os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        )
    except OSError:
        return False
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)


def lock_of(paths: Paths) -> str:
    """Who holds it is the submitter."""
    return os.path.join(paths.submitter, f"{_own(paths)}.lock")


def log_of(paths: Paths) -> str:
    """What the last one said of its own bugs."""
    return os.path.join(paths.submitter, f"{_own(paths)}.log")


def _own(paths: Paths) -> str:
    """Of this machine's: others may share the home."""
    return f"{os.uname().nodename}.{_key(paths)}"


def _key(paths: Paths) -> str:
    return f"{zlib.crc32(os.fsencode(f'{paths.home}:{warpdeck.__file__}')):08x}"
