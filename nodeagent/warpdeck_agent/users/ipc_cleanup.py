"""Removes shared memory that jobs leave.

This covers files in /dev/shm, POSIX message queues, and System V's shared memory objects. They stay in the
node's memory until they are removed, and nothing shows which job made them. So they are removed when the
last launch of their user on this node has ended. Only objects are removed that were made since the first of
those launches began and that no process uses. Objects that another job may need stay, also jobs of other
agents. Root's objects may belong to the system, and stay.

A user who is logged in on a terminal of the node may have put files there by hand. Then only files with names
that libraries use are removed. /tmp is not touched, because people keep files there. Jobs have a TMPDIR, and
if the site configures it a private /tmp (see `private_folders`). Slurm leaves this cleanup to the site's epilog.
Source: sysvipc(7), shm_overview(7), mq_overview(7), proc(5).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from typing import Dict, FrozenSet, Iterator, List, NamedTuple, Set

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.linux.bounded_programs import run_for
from warpdeck_agent.linux.mounts import mounted
from warpdeck_agent.linux.own_program import SYSTEM_PATH
from warpdeck_agent.linux.procfs import text
from warpdeck_agent.linux.system_calls import born_unix
from warpdeck_agent.linux.systemv import IpcObject, objects, remove

from .accounts import rights_of

SHM = "/dev/shm"
MADE_BY_LIBRARIES = (
    *("nccl-", "torch_", "cuda.shm.", "psm_", "sem.", "pymp-", "loky-", "joblib_memmapping", "plasma"),
    *("sm_segment", "vader_segment", "mpich_", "MPICH_", "psm2_shm", "ucx_", "ucp_", "boost_interprocess"),
)
"""Name prefixes of files that NCCL, PyTorch, CUDA, Python, Open MPI, MPICH, UCX and others create."""
KEPT = ("libpod_", "warpdeck-")
"""Files that stay: Podman's table of locks for all containers of a user, including kept ones, and our FIFOs
for submitting from shells.
"""
COARSE_S = 0.02
"""Error of file times in seconds: a file is stamped with the time of the kernel's last tick."""
WHOLE_S = 1.0
"""Seconds that are added to the time of the last change, which is used for a file without a birth time. The
kernel notes whole seconds for queues.
"""
MAX_NAMED = 6
"""The most names in one sentence."""
REMOVE_S = 60.0
MIB = 2**20


class SharedMemoryFile(NamedTuple):
    """A file or folder of a user in one of the kernel's file systems for shared memory."""

    path: str
    born_unix: float
    size_bytes: int

    @property
    def by_library(self) -> bool:
        """Whether its name shows that a library made it."""
        return os.path.basename(self.path).startswith(MADE_BY_LIBRARIES)


class IpcCleanup:
    """The users with launches on this node, and the shared memory that they leave.

    The methods may run in any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._launches: Dict[int, Set[str]] = {}
        self._since: Dict[int, float] = {}

    def enter(self, uid: int, name: str, *, at_unix: float) -> None:
        """Record that a launch of that user exists since `at_unix`."""
        with self._lock:
            self._launches.setdefault(uid, set()).add(name)
            self._since[uid] = min(at_unix, self._since.get(uid, at_unix))

    def leave(self, uid: int, name: str) -> bool:
        """Record that the launch is over.

        Returns whether it was its user's last one here and left objects to be removed.
        """
        with self._lock:
            launches = self._launches.get(uid, set())
            launches.discard(name)
            if launches or uid not in self._since:
                return False
            if uid and (any(self._files(uid)) or any(self._objects(uid))):
                return True
            self._drop(uid)
            return False

    def clear(self, uid: int) -> str:
        """Remove the objects that `leave` has found. Returns a sentence that lists them. Blocks."""
        other = _other_activity(uid)
        if other == "job":
            return ""
        files = list(self._files(uid))
        in_use = _paths_in_use() if files else frozenset()
        idle = [each for each in files if not _is_in_use(each.path, in_use)]
        removable = [each for each in idle if each.by_library or not other]
        gone = [_named(each) for each in removable if self._is_gone(uid) and _remove(each, uid)]
        for each in self._objects(uid):
            if not each.is_held(unknown=other == "terminal") and self._is_gone(uid) and remove(each):
                gone.append(str(each))
        with self._lock:
            if not self._launches.get(uid):
                self._drop(uid)
        return _sentence(gone, [_named(each) for each in idle if each not in removable])

    def _drop(self, uid: int) -> None:
        self._launches.pop(uid, None)
        self._since.pop(uid, None)

    def _is_gone(self, uid: int) -> bool:
        """Return whether no launch of the user has begun meanwhile.

        A new launch may need the objects that it finds.
        """
        return not self._launches.get(uid)

    def _files(self, uid: int) -> Iterator[SharedMemoryFile]:
        since = self._since.get(uid, time.time())
        for folder in (SHM, *queues()):
            for found in _of_user(folder, uid):
                if found.born_unix + COARSE_S >= since:
                    yield found

    def _objects(self, uid: int) -> Iterator[IpcObject]:
        since = self._since.get(uid, time.time())
        return (each for each in objects(uid) if each.born_before_unix >= since)


def queues() -> List[str]:
    """Return the folder with the POSIX message queues, as a list.

    A kernel can mount it in several places; one is enough.
    """
    return [each.path for each in mounted() if each.kind == "mqueue"][:1]


def _of_user(folder: str, uid: int) -> Iterator[SharedMemoryFile]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    points = {each.path for each in mounted()} if entries else set()
    for entry in entries:
        if entry.path in points:  # a stat of a mount point would query its file server
            continue
        with contextlib.suppress(OSError):
            found = entry.stat(follow_symlinks=False)
            if found.st_uid == uid and not entry.name.startswith(KEPT):
                born = born_unix(entry.path) or found.st_ctime + WHOLE_S
                yield SharedMemoryFile(entry.path, born, found.st_size)


def _other_activity(uid: int) -> str:
    """Return the user's other activity on this node, besides the ended launches.

    "job" is a job of any agent, "terminal" a login on a terminal, and "" anything else or nothing.
    """
    found = ""
    for name in os.listdir("/proc"):
        try:
            if not name.isdigit() or os.stat(f"/proc/{name}").st_uid != uid:
                continue
        except OSError:
            continue
        fields = job_processes.stat_fields(int(name))
        if len(fields) < 5 or fields[0] in "ZX":
            continue
        if job_processes.variable(int(name), job_processes.JOB_VARIABLE):
            return "job"
        if fields[4] != "0":
            found = "terminal"
    return found


def _paths_in_use() -> FrozenSet[str]:
    """Return the paths that living processes have open, mapped, or as their working folder.

    Links are read but never followed, because a mount may hang.
    """
    found: Set[str] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        for line in text(f"/proc/{name}/maps").splitlines():
            if SHM in line:
                found.add(line.split(None, 5)[5])
        for path in (f"/proc/{name}/cwd", *_descriptors(name)):
            with contextlib.suppress(OSError):
                found.add(os.readlink(path))
    return frozenset(found)


def _descriptors(pid: str) -> List[str]:
    try:
        return [f"/proc/{pid}/fd/{each}" for each in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return []


def _is_in_use(path: str, in_use: FrozenSet[str]) -> bool:
    """Return whether the object, or a file below it, is among the paths `in_use`.

    The kernel shows an open queue only by its name.
    """
    own = {path} if path.startswith(SHM) else {path, "/" + os.path.basename(path)}
    return not own.isdisjoint(in_use) or any(each.startswith(path + "/") for each in in_use)


def _remove(found: SharedMemoryFile, uid: int) -> bool:
    """Remove a file with its user's rights.

    So no file of another user is removed, even if the name now means another file.
    """
    rm = shutil.which("rm", path=SYSTEM_PATH) or "rm"
    with contextlib.suppress(OSError):
        run_for(REMOVE_S, [rm, "-rf", "--", found.path], **rights_of(uid))
    return not os.path.lexists(found.path)


def _named(found: SharedMemoryFile) -> str:
    return found.path + (f" ({found.size_bytes / MIB:.0f} MiB)" if found.size_bytes >= MIB else "")


def _sentence(gone: List[str], left: List[str]) -> str:
    sentences = []
    if gone:
        sentences.append("removed from the node's shared memory: " + _list(gone))
    if left:
        sentences.append(
            "not removed from shared memory, because the user is logged in on the node: " + _list(left)
        )
    return "; ".join(sentences)


def _list(names: List[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
