"""Where a submitter is asked, and how one is started: for the thin client of sbatch, which imports next to nothing."""

from __future__ import annotations

import os
import stat
import time
import zlib

from warpdeck import _version

from .background_process import start
from .paths import Paths

SHARED = "/dev/shm"
"""In memory, where a file is made in 5 microseconds; on a disk it takes 300, and a question needs two. This machine's own."""
ASK = "ask"
AGAIN_S = 60.0
"""After one that failed: its start takes ten times what it saves."""


def folder_of(paths: Paths) -> str:
    """This user's, for this home and this program: another program's submitters have a folder of their own."""
    return os.path.join(SHARED, f"warpdeck-{os.getuid()}.{_key(paths)}")


def pattern_of(paths: Paths) -> str:
    """The folders of all users for that, as a pattern of the shell's: for a script that several users run."""
    return f"{SHARED}/warpdeck-*.{_key(paths)}"


def ensure(paths: Paths) -> None:
    """Starts a submitter, unless one runs or one has just failed. Raises OSError."""
    if not listens(paths) and os.path.isdir(SHARED) and not _has_just_failed(log_of(paths)):
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


def log_of(paths: Paths) -> str:
    """What the last one said of its own bugs. Of this machine's: others may share the home."""
    return os.path.join(paths.submitter, f"{os.uname().nodename}.{_key(paths)}.log")


def _has_just_failed(log: str) -> bool:
    try:
        found = os.stat(log)
    except FileNotFoundError:
        return False
    return found.st_size > 0 and time.time() - found.st_mtime < AGAIN_S


def _key(paths: Paths) -> str:
    return f"{zlib.crc32(os.fsencode(f'{paths.home}:{_version.__file__}')):08x}"
