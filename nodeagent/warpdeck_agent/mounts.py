"""What is mounted where, as this process sees it; and letting go of it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from typing import List, NamedTuple

from .procfs import text
from .program import SYSTEM_PATH

_DETACH, _NOFOLLOW = 2, 8
"""umount2: at once, whoever still uses it; never by way of a link that somebody has put there meanwhile."""
FUSERMOUNT_S = 10.0


class Mount(NamedTuple):
    """One line of mountinfo. `kind`: nfs4, tmpfs ..."""

    path: str
    kind: str
    read_only: bool = False


def mounted() -> List[Mount]:
    """In the order in which they were made."""
    found = []
    for line in text("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, *_, options) = left.split(), right.split(" ")
        read_only = "ro" in fields[5].split(",") or "ro" in options.split(",")
        found.append(Mount(_unescaped(fields[4]), kind, read_only))
    return found


def is_read_only(path: str) -> bool:
    """Whether the file system there takes no writes: a disk with errors does so of itself. Found by the path's name alone."""
    above = [each for each in mounted() if (path + "/").startswith(each.path.rstrip("/") + "/")]
    return bool(above) and max(reversed(above), key=lambda each: len(each.path)).read_only


def detach_below(folder: str) -> bool:
    """Lets go of what is mounted in the folder, or over it. False where something stays: to remove the folder would remove what
    that shows. Links below the folder lead nowhere; whoever calls trusts the folder that it is in."""
    real = os.path.join(os.path.realpath(os.path.dirname(folder)), os.path.basename(folder))
    for path in reversed(_below(real)):
        if os.geteuid() == 0:
            ctypes.CDLL(None).umount2(os.fsencode(path), _DETACH | _NOFOLLOW)
        else:
            _fusermount(path)
    return not _below(real)


def _below(folder: str) -> List[str]:
    return [each.path for each in mounted() if each.path == folder or each.path.startswith(folder + "/")]


def _fusermount(path: str) -> None:
    """A user's own mounts are FUSE's."""
    program = shutil.which("fusermount3", path=SYSTEM_PATH) or shutil.which("fusermount", path=SYSTEM_PATH)
    if program is not None:
        null = subprocess.DEVNULL
        argv = [program, "-u", "-z", "--", path]
        with contextlib.suppress(subprocess.TimeoutExpired):  # then it stays, and is said to
            subprocess.run(
                argv, stdin=null, stdout=null, stderr=null, check=False, timeout=FUSERMOUNT_S, cwd="/"
            )


def _unescaped(path: str) -> str:
    """The kernel writes blanks, tabs, line ends and backslashes of a path as octal numbers."""
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, letter)
    return path
