"""Folders that each job has for itself, where everybody else has the node's: /tmp, /var/tmp, /dev/shm (Slurm's
job_container/tmpfs). What a job leaves there goes with it.

    <place>/warpdeck-<agent>-<id>.<restarts>-<random>/       root's alone, removed as TMPDIRs are (tempdirs)
        in/                                                  what the job sees as <place>

No namespace is kept: each process that is started for the job gets a mount namespace of its own, in which the same folders
cover the same places. So there is nothing that an agent which was killed, or a reboot, could leave but folders. What a job
mounts itself is seen by what that process starts, and by nobody else.

Some paths below a place stay the node's: those that the site shares (sockets of X11 and of MPS), and the agent's own. Their
mount points are made with the folder, by root, in a sticky folder of root's: a job cannot put a link in their place. On the
node somebody else may have: links are not shared.

Needs root, in the mount namespace that it may change. Source: mount_namespaces(7), slurm job_container.conf(5).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

from warpdeck_agent.wire.places import place_of

CLONE_NEWNS = 0x0002_0000
MS_BIND, MS_REC, MS_SLAVE, MS_SHARED = 0x1000, 0x4000, 0x8_0000, 0x10_0000
T = TypeVar("T")
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class PrivateDirs:
    """What was made for one launch. `covers`: (place, its folder on the node). `shows`: paths that stay the node's."""

    covers: Tuple[Tuple[str, str], ...]
    shows: Tuple[str, ...] = ()
    tmp_dir: str = ""
    """The place that is the launch's TMPDIR; "": its TMPDIR lies in none of them."""

    def folders(self) -> List[str]:
        """What is removed with the launch."""
        return [os.path.dirname(folder) for _, folder in self.covers]

    def outside(self, path: str) -> str:
        """Where on the node that is which the launch sees under this path."""
        place = place_of(path, [place for place, _ in self.covers])
        if place is None or place_of(path, self.shows):
            return path
        return os.path.normpath(dict(self.covers)[place] + "/" + os.path.relpath(path, place))


def private_from(values: Optional[Dict[str, Any]]) -> Optional[PrivateDirs]:
    """As it was written down."""
    if values is None:
        return None
    covers = tuple((place, folder) for place, folder in values["covers"])
    return PrivateDirs(covers, tuple(values["shows"]), values["tmp_dir"])


def folders_of(tmp_dir: str, private: Optional[PrivateDirs]) -> List[str]:
    """What is removed with a launch that has this TMPDIR ("": none of its own) and these."""
    return ([tmp_dir] if tmp_dir else []) + (private.folders() if private is not None else [])


def can_cover() -> bool:
    """Whether a process of ours may have mounts of its own. Tried in a thread, which takes them with it."""
    if os.geteuid() != 0:
        return False
    try:
        _in_thread(_leave_mounts)
    except OSError:
        return False
    return True


def within(private: Optional[PrivateDirs], start: Callable[[], T]) -> T:
    """The outcome of `start`, whose children see the launch's folders. Blocks. Raises what it raises, and OSError."""
    if private is None:
        return start()

    def work() -> T:
        cover(private)
        return start()

    return _in_thread(work)


def cover(private: PrivateDirs) -> None:
    """This thread, or process of one thread, has mounts of its own from here on. Raises OSError."""
    _leave_mounts()
    _mount(
        "none", "/", MS_REC | MS_SLAVE
    )  # what is mounted on the node later is seen, and nothing of ours there
    _mount("none", "/", MS_REC | MS_SHARED)  # to those that begin below us: Podman warns where it is not so
    with contextlib.ExitStack() as opened:
        folders = [(place, _open(folder, opened)) for place, folder in private.covers]
        shown: List[Tuple[str, int]] = []
        for path in private.shows:
            with contextlib.suppress(OSError):  # it is gone: the job sees an empty one
                shown.append((path, _open(path, opened)))
        for place, source in folders:
            _mount(f"/proc/self/fd/{source}", place, MS_BIND)
        for path, source in shown:
            with contextlib.suppress(OSError):  # it is another kind of file now
                _mount(f"/proc/self/fd/{source}", path, MS_BIND | MS_REC)


def _open(path: str, opened: contextlib.ExitStack) -> int:
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    opened.callback(os.close, descriptor)
    return descriptor


def _in_thread(work: Callable[[], T]) -> T:
    """In a thread of its own: its mounts are for it and for the processes that it starts, and go with them."""
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
    words = [source.encode(), os.fsencode(target), None, ctypes.c_ulong(flags), None]
    _check(_LIBC.mount(*words), target)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
