"""The location of the submitter's folder, and the start of the submitter.

The thin client of sbatch uses this module, so it imports next to nothing.
"""

from __future__ import annotations

import os
import stat
import time
import zlib

from warpdeck import _version

from .background_process import start
from .paths import Paths

SHARED = "/dev/shm"
"""A file system in memory, local to this machine. Creating a file there takes 5 microseconds instead of 300
on a disk, and a request needs two files.
"""
REQUEST_FIFO = "ask"
RETRY_S = 60.0
"""Seconds after a failed start until the next attempt. A start takes ten times as long as the submitter saves
per request.
"""


def folder_of(paths: Paths) -> str:
    """Return the folder for this user, this home and this program.

    Another installation of the program uses another folder.
    """
    return os.path.join(SHARED, f"warpdeck-{os.getuid()}.{_key(paths)}")


def pattern_of(paths: Paths) -> str:
    """Return a shell pattern for the submitter folders of all users, for a script that several users run."""
    return f"{SHARED}/warpdeck-*.{_key(paths)}"


def ensure(paths: Paths) -> None:
    """Start a submitter, unless one is running or one has just failed. Raises OSError."""
    if not listens(paths) and os.path.isdir(SHARED) and not _has_just_failed(log_of(paths)):
        os.makedirs(paths.submitter, mode=0o700, exist_ok=True)
        start("warpdeck.submitter.service", paths.home, log=log_of(paths))


def listens(paths: Paths) -> bool:
    """Return whether a submitter has the request FIFO open for reading."""
    try:
        descriptor = os.open(
            os.path.join(folder_of(paths), REQUEST_FIFO),
            os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC,
        )
    except OSError:
        return False
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)


def log_of(paths: Paths) -> str:
    """Return the path of the log with the errors of the last submitter.

    The name contains the name of the machine, because several machines may share the home.
    """
    return os.path.join(paths.submitter, f"{os.uname().nodename}.{_key(paths)}.log")


def _has_just_failed(log: str) -> bool:
    try:
        found = os.stat(log)
    except FileNotFoundError:
        return False
    return found.st_size > 0 and time.time() - found.st_mtime < RETRY_S


def _key(paths: Paths) -> str:
    return f"{zlib.crc32(os.fsencode(f'{paths.home}:{_version.__file__}')):08x}"
