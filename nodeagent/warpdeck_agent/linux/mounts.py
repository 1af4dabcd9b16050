"""Lists the mounts of this process's mount namespace, and detaches mounts."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import threading
from concurrent.futures import Future
from typing import Callable, Dict, List, NamedTuple, TypeVar

from .own_program import SYSTEM_PATH
from .procfs import text
from .safe_paths import enter

_DETACH = 2
"""Flag of umount2: detach at once, even if processes still use the mount."""
MOST_ROUNDS = 64
"""The most rounds of detaching. Mounts on one mount point take a round each, and so do mounts that are added
meanwhile.
"""
_NEWNS, _REC, _PRIVATE = 0x0002_0000, 0x4000, 0x4_0000
_LIBC = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")
FUSERMOUNT_S = 10.0


class MountPoint(NamedTuple):
    """One line of mountinfo. `kind` is nfs4, tmpfs etc.; `number` is the kernel's mount id."""

    path: str
    kind: str
    read_only: bool = False
    number: int = 0


def mounted() -> List[MountPoint]:
    """Return all mounts, in the order in which they were made."""
    found = []
    for line in text("/proc/thread-self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, *_, options) = left.split(), right.split(" ")
        read_only = "ro" in fields[5].split(",") or "ro" in options.split(",")
        found.append(MountPoint(_unescaped(fields[4]), kind, read_only, int(fields[0])))
    return found


def is_read_only(path: str) -> bool:
    """Return whether the file system at `path` is read-only.

    The kernel also makes a disk with errors read-only. Only the path's name is used; the file system is not
    accessed.
    """
    above = [each for each in mounted() if (path + "/").startswith(each.path.rstrip("/") + "/")]
    return bool(above) and max(reversed(above), key=lambda each: len(each.path)).read_only


def detach_below(parent: int, name: str) -> bool:
    """Detach all mounts in the entry `name` of an open folder, and over it.

    Returns False if a mount stays; removing the entry would then remove the mounted files. Only mounts that
    the kernel lists there are detached, even if users change the paths meanwhile.
    """
    for _ in range(MOST_ROUNDS):
        below = _below(parent, name)
        if not below:
            return True
        tried: List[str] = []
        gone = False
        # Outer mounts first: an inner mount is detached with its outer one, and not accessed.
        for path in sorted(set(below.values()), key=len):
            if not any(path.startswith(each + "/") for each in tried):
                tried.append(path)
                gone |= _detach(parent, path, below)
        if (
            not gone and _below(parent, name) == below
        ):  # else a mount has gone, or a user has renamed a folder in the path
            return False
    return False


def _below(parent: int, name: str) -> Dict[int, str]:
    """Return the paths of the mounts there by mount id, relative to the open folder."""
    above = os.readlink(f"/proc/self/fd/{parent}").rstrip("/") + "/"
    own = above + name
    found = [each for each in mounted() if each.path == own or each.path.startswith(own + "/")]
    return {each.number: each.path[len(above) :] for each in found}


def _detach(parent: int, path: str, below: Dict[int, str]) -> bool:
    """Detach the mount at that path, if it is one of `below`. Returns whether it was detached."""
    if os.geteuid() != 0:
        _fusermount(f"{os.readlink(f'/proc/self/fd/{parent}')}/{path}")
        return False  # the kernel's list of mounts shows the result
    *folders, last = path.split("/")
    try:
        folder = enter(parent, folders)
        try:
            point = os.open(last, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError:
        return False
    try:
        return mount_of(point) in below and _LIBC.umount2(f"/proc/self/fd/{point}".encode(), _DETACH) == 0
    finally:
        os.close(point)


def mount_of(descriptor: int) -> int:
    """Return the id of the mount of an open file, 0 if the kernel does not report it.

    Does not access the file system.
    """
    for line in text(f"/proc/self/fdinfo/{descriptor}").splitlines():
        if line.startswith("mnt_id:"):
            return int(line.split()[1])
    return 0


def apart(work: Callable[[], T]) -> T:
    """Run `work` in a thread and return its result.

    As root, the thread has a mount namespace of its own, so that nobody else can add mounts. Blocks.
    """
    if os.geteuid() != 0:
        return work()
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            # root may not unshare in a container, and there no process may mount either
            if _LIBC.unshare(_NEWNS) == 0:
                _LIBC.mount(b"none", b"/", None, ctypes.c_ulong(_REC | _PRIVATE), None)
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name="apart")
    thread.start()
    thread.join()
    return outcome.result()


def _fusermount(path: str) -> None:
    """Unmount a path as an ordinary user. A user's own mounts are FUSE mounts."""
    program = shutil.which("fusermount3", path=SYSTEM_PATH) or shutil.which("fusermount", path=SYSTEM_PATH)
    if program is not None:
        null = subprocess.DEVNULL
        argv = [program, "-u", "-z", "--", path]
        with contextlib.suppress(subprocess.TimeoutExpired):  # then the mount stays, and that is reported
            subprocess.run(
                argv, stdin=null, stdout=null, stderr=null, check=False, timeout=FUSERMOUNT_S, cwd="/"
            )


def _unescaped(path: str) -> str:
    """Replace the octal escapes that the kernel uses for blanks, tabs, line ends and backslashes in paths."""
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, letter)
    return path
