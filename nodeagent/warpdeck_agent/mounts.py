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


def mounted() -> List[Mount]:
    """In the order in which they were made."""
    found = []
    for line in text("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        found.append(Mount(_unescaped(left.split()[4]), right.split(" ", 1)[0]))
    return found


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
