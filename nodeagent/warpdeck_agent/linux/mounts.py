"""What is mounted where, as this process sees it; and letting go of it."""

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
"""umount2: at once, whoever still uses it."""
MOST_ROUNDS = 64
"""Mounts on one mount point, and mounts that come meanwhile, take a round each."""
_NEWNS, _REC, _PRIVATE = 0x0002_0000, 0x4000, 0x4_0000
_LIBC = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")
FUSERMOUNT_S = 10.0


class Mount(NamedTuple):
    """One line of mountinfo. `kind`: nfs4, tmpfs ... `number`: the kernel's id of it."""

    path: str
    kind: str
    read_only: bool = False
    number: int = 0


def mounted() -> List[Mount]:
    """In the order in which they were made."""
    found = []
    for line in text("/proc/thread-self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, *_, options) = left.split(), right.split(" ")
        read_only = "ro" in fields[5].split(",") or "ro" in options.split(",")
        found.append(Mount(_unescaped(fields[4]), kind, read_only, int(fields[0])))
    return found


def is_read_only(path: str) -> bool:
    """Whether the file system there takes no writes: a disk with errors does so of itself. Found by the path's name alone."""
    above = [each for each in mounted() if (path + "/").startswith(each.path.rstrip("/") + "/")]
    return bool(above) and max(reversed(above), key=lambda each: len(each.path)).read_only


def detach_below(parent: int, name: str) -> bool:
    """Lets go of what is mounted in that entry of an open folder, or over it. False where something stays: to remove the entry would
    remove what that shows. Only mounts that the kernel lists there are let go of, whatever lies on their paths by then."""
    for _ in range(MOST_ROUNDS):
        below = _below(parent, name)
        if not below:
            return True
        tried: List[str] = []
        gone = False
        # The outer ones first: what is mounted in a mount goes with it, and is not walked into.
        for path in sorted(set(below.values()), key=len):
            if not any(path.startswith(each + "/") for each in tried):
                tried.append(path)
                gone |= _let_go(parent, path, below)
        if (
            not gone and _below(parent, name) == below
        ):  # else it has gone, or somebody has renamed a folder on the way
            return False
    return False


def _below(parent: int, name: str) -> Dict[int, str]:
    """By their ids: where mounts are, as paths from the open folder."""
    above = os.readlink(f"/proc/self/fd/{parent}").rstrip("/") + "/"
    own = above + name
    found = [each for each in mounted() if each.path == own or each.path.startswith(own + "/")]
    return {each.number: each.path[len(above) :] for each in found}


def _let_go(parent: int, path: str, below: Dict[int, str]) -> bool:
    """The mount that is seen there, if it is one of these."""
    if os.geteuid() != 0:
        _fusermount(f"{os.readlink(f'/proc/self/fd/{parent}')}/{path}")
        return False  # the kernel's list tells
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
    """The id of the mount on which an open file lies, 0 where the kernel does not say. Asks no file system."""
    for line in text(f"/proc/self/fdinfo/{descriptor}").splitlines():
        if line.startswith("mnt_id:"):
            return int(line.split()[1])
    return 0


def apart(work: Callable[[], T]) -> T:
    """The outcome of `work`, in a thread of its own to which, as root, nobody else can mount anything. Blocks."""
    if os.geteuid() != 0:
        return work()
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            if _LIBC.unshare(_NEWNS) == 0:  # a root that may not is in a container, where nobody may mount
                _LIBC.mount(b"none", b"/", None, ctypes.c_ulong(_REC | _PRIVATE), None)
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name="apart")
    thread.start()
    thread.join()
    return outcome.result()


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
