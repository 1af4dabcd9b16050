"""Private folders of each job in place of the node's: /tmp, /var/tmp, /dev/shm (Slurm's job_container/tmpfs).

Files that a job leaves there are removed with the job. For a path like /tmp, the folders are:

  /tmp/warpdeck-<agent>-<id>.<restarts>-<random>/    belongs to root, and is removed like a TMPDIR (`tmpdirs`)
    in/                                              the job sees it as /tmp

No namespace is kept: each process that is started for the job gets a mount namespace of its own, in which the
same folders are mounted over the same paths. So a killed agent or a reboot leaves only folders. Mounts that
a job makes are visible only to the process that made them and to its children.

Below a private path, some paths stay the node's: paths that the site shares (sockets of X11 and of MPS), and
the agent's own. Their mount points are created with the folder, by root, in a sticky folder of root's, so a
job cannot replace them by a link. On the node, another user might have put a link there, so links are not
shared.

It needs root, in a mount namespace that root may change. Source: mount_namespaces(7), slurm
job_container.conf(5).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

from warpdeck_agent.wire.paths import folder_containing

CLONE_NEWNS = 0x0002_0000
MS_BIND, MS_REC, MS_SLAVE, MS_SHARED = 0x1000, 0x4000, 0x8_0000, 0x10_0000
T = TypeVar("T")
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class PrivateDirs:
    """The private folders of one launch.

    `covers` has pairs of a path in the launch and the folder of the node that the launch sees there. `shows`
    are paths below them at which the launch sees the node's own files.
    """

    covers: Tuple[Tuple[str, str], ...]
    shows: Tuple[str, ...] = ()
    tmp_dir: str = ""
    """The launch's TMPDIR if it is one of the private paths; "" if it is elsewhere."""

    def folders(self) -> List[str]:
        """Return the folders that are removed with the launch."""
        return [os.path.dirname(folder) for _, folder in self.covers]

    def outside(self, path: str) -> str:
        """Return the path on the node of a path that the launch sees."""
        covered = folder_containing(path, [covered for covered, _ in self.covers])
        if covered is None or folder_containing(path, self.shows):
            return path
        return os.path.normpath(dict(self.covers)[covered] + "/" + os.path.relpath(path, covered))


def private_from(values: Optional[Dict[str, Any]]) -> Optional[PrivateDirs]:
    """Return the PrivateDirs that were stored as `values`."""
    if values is None:
        return None
    covers = tuple((covered, folder) for covered, folder in values["covers"])
    return PrivateDirs(covers, tuple(values["shows"]), values["tmp_dir"])


def folders_of(tmp_dir: str, private: Optional[PrivateDirs]) -> List[str]:
    """Return the folders that are removed with a launch.

    `tmp_dir` is its TMPDIR ("": it has none outside of the private folders).
    """
    return ([tmp_dir] if tmp_dir else []) + (private.folders() if private is not None else [])


def can_cover() -> bool:
    """Return whether our processes may have mounts of their own.

    This is tried in a thread. Its mounts disappear when the thread ends.
    """
    if os.geteuid() != 0:
        return False
    try:
        _in_thread(_leave_mounts)
    except OSError:
        return False
    return True


def within(private: Optional[PrivateDirs], start: Callable[[], T]) -> T:
    """Run `start` so that its child processes see the launch's private folders, and return its result.

    Blocks. Raises the exceptions of `start`, and OSError.
    """
    if private is None:
        return start()

    def work() -> T:
        cover(private)
        return start()

    return _in_thread(work)


def cover(private: PrivateDirs) -> None:
    """Give this thread (or single-threaded process) mounts of its own and mount the private folders.

    Raises OSError.
    """
    _leave_mounts()
    _mount(
        "none", "/", MS_REC | MS_SLAVE
    )  # later mounts on the node become visible here, and ours do not on the node
    _mount("none", "/", MS_REC | MS_SHARED)  # shared with namespaces below ours; Podman warns otherwise
    with contextlib.ExitStack() as opened:
        folders = [(covered, _open(folder, opened)) for covered, folder in private.covers]
        shown: List[Tuple[str, int]] = []
        for path in private.shows:
            with contextlib.suppress(OSError):  # it is gone: the job sees an empty one
                shown.append((path, _open(path, opened)))
        for covered, source in folders:
            _mount(f"/proc/self/fd/{source}", covered, MS_BIND)
        for path, source in shown:
            with contextlib.suppress(OSError):  # it is another kind of file now
                _mount(f"/proc/self/fd/{source}", path, MS_BIND | MS_REC)


def _open(path: str, opened: contextlib.ExitStack) -> int:
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    opened.callback(os.close, descriptor)
    return descriptor


def _in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a new thread.

    Its mounts apply to the thread and the processes that it starts, and end with them.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name="mounts")
    thread.start()
    thread.join()
    return outcome.result()


def _leave_mounts() -> None:
    _check(_LIBC.unshare(CLONE_NEWNS), "a mount namespace")


def _mount(source: str, target: str, flags: int) -> None:
    arguments = [source.encode(), os.fsencode(target), None, ctypes.c_ulong(flags), None]
    _check(_LIBC.mount(*arguments), target)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
