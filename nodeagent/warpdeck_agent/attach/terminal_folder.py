"""The private folder on the node in which the terminal of a job of Slurm has its socket.

The job and the steps that join it find it by the job's number. It is below a folder with a fixed name in a local file
system that all users can write, so each folder must prove that it belongs to this user alone. Only such a folder is
used, because the socket of another user could read what is typed.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
from typing import Mapping, Optional

BASES = ("/tmp", "/dev/shm", "/var/tmp")
"""Local folders that all users can write, in the order of preference. TMPDIR may differ between the steps of a job."""
SOCKET = os.path.join("terminal", "pty.sock")


def key_of(environ: Mapping[str, str]) -> str:
    """Return the name of the folder of the job that has these variables, or "" outside of a job."""
    job, restarts = environ.get("SLURM_JOB_ID", ""), environ.get("SLURM_RESTART_COUNT", "") or "0"
    return f"{job}-{restarts}" if job.isdecimal() and restarts.isdecimal() else ""


def make(key: str) -> str:
    """Make the folder of a job and return it. Raises OSError."""
    failed = OSError("no local folder can be written")
    for base in BASES:
        own = _own(base)
        try:
            if not os.path.lexists(own):
                os.mkdir(own, 0o700)
            if not _is_private(own):
                continue
            _remove_ended(own)
            folder = os.path.join(own, key)
            os.mkdir(folder, 0o700)
            os.mkdir(os.path.join(folder, "terminal"), 0o700)
            return folder
        except OSError as error:
            failed = error
    raise failed


def find(key: str) -> Optional[str]:
    """Return the folder of a job on this node, or None if it does not exist."""
    for base in BASES:
        folder = os.path.join(_own(base), key)
        if _is_private(_own(base)) and _is_private(folder):
            return folder
    return None


def remove(folder: str) -> None:
    """Remove the folder of a job."""
    shutil.rmtree(folder, ignore_errors=True)


def _own(base: str) -> str:
    return os.path.join(base, f"warpdeck-{os.getuid()}")


def _is_private(folder: str) -> bool:
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    mode = found.st_mode
    return stat.S_ISDIR(mode) and found.st_uid == os.getuid() and not mode & 0o077


def _remove_ended(own: str) -> None:
    """Remove the folders of jobs that were killed. Nobody listens at their sockets."""
    for name in os.listdir(own):
        folder = os.path.join(own, name)
        probe = socket.socket(socket.AF_UNIX)
        try:
            probe.connect(os.path.join(folder, SOCKET))
        except ConnectionRefusedError:
            remove(folder)
        except OSError:
            pass  # The job has just begun and does not listen yet.
        finally:
            probe.close()
