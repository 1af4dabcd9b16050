"""Checks for disks that are full or read-only, and for mounts that hang.

A query may hang together with its mount, and then no signal ends it. So a child process (stat(1)) makes the
query. If the child hangs, it is abandoned (see `probes`).
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from typing import Any, Callable, Dict, List, Optional, Tuple

from warpdeck_agent.linux.mounts import is_read_only, mounted
from warpdeck_agent.linux.own_program import OWN, SYSTEM_PATH
from warpdeck_agent.linux.probes import ANSWER_S, Probe, Probes
from warpdeck_agent.wire.messages import Check

MAX_MOUNTS = 64
"""The most network mounts that are checked. If all of them hang, each blocks one thread."""
NETWORK = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "lustre",
    "beegfs",
    "beegfs_nodev",
    "gpfs",
    "ceph",
    "glusterfs",
    "9p",
)
NETWORK_FUSE = "fuse."
"""Prefix of sshfs, glusterfs, and other file systems in user space."""
FREE_AGAIN_FACTOR = 2
"""A full disk counts as free again when it has this many times the minimum. Otherwise it would change with
every file.
"""
MIB = 2**20

_STAT_FORMAT = "%s %S %b %f %a %c %d"
"""The block size, the fragment size, blocks, free blocks, blocks that are free for every user, files, and free
files.
"""
_ERRORS = {os.strerror(number): number for number in errno.errorcode}


def ask_disk(path: str) -> os.statvfs_result:
    """Return the result of statvfs(3), obtained by a child.

    Raises OSError, also as statvfs would. Blocks as long as the disk does.
    """
    stat = shutil.which("stat", path=SYSTEM_PATH) or "stat"
    done = subprocess.run(
        [stat, "-f", "-c", _STAT_FORMAT, "--", path],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={"LC_ALL": "C", OWN: "1"},
        cwd="/",
        check=False,
    )
    if done.returncode:
        reason = done.stderr.strip().rpartition(": ")[2]
        raise OSError(_ERRORS.get(reason, errno.EIO), reason, path)
    size, unit, blocks, free, available, files, more = (int(field) for field in done.stdout.split())
    return os.statvfs_result((size, unit, blocks, free, available, files, more, more, 0, 255))


class Disks:
    """Checks the disks of these folders, and all network mounts."""

    def __init__(
        self,
        folders: Tuple[str, ...],
        *,
        probe: Probe = ask_disk,
        mounts: Optional[Callable[[], List[str]]] = None,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._folders = folders
        self._mounts = mounts or network_mounts
        self._probes = Probes(probe, answer_s=answer_s)
        self._full: Dict[str, bool] = {}

    async def check(self, min_free_bytes: int) -> List[Check]:
        """Return one check for all healthy folders and one for each faulty folder; the same for mounts."""
        mounts = self._mounts()
        found = await self._probes.ask(list(dict.fromkeys((*self._folders, *mounts))))
        bad = []
        for path in self._folders:
            state = found[path]
            if isinstance(state, os.statvfs_result):
                message = self._space_problem(path, state, min_free_bytes)
                bad += [Check("disk", "fail", message)] if message else []
            elif not isinstance(state, BaseException):
                bad.append(Check("mount", "fail", f"{path} does not answer"))
        checks = bad or [Check("disk", "ok", f"free space in {', '.join(self._folders)}")]
        return [*checks, *self._judge_mounts([path for path in mounts if path not in self._folders], found)]

    def _judge_mounts(self, mounts: List[str], found: Dict[str, Any]) -> List[Check]:
        hanging = [path for path in mounts if found[path] is None]
        stale = [path for path in mounts if isinstance(found[path], OSError) and not _is_private(found[path])]
        if hanging or stale:
            return [Check("mount", "fail", f"{path} does not answer") for path in hanging] + [
                Check("mount", "fail", f"{path}: {os.strerror(found[path].errno or 0)}") for path in stale
            ]
        return [Check("mount", "ok", f"{len(mounts)} network mounts answer")] if mounts else []

    def _space_problem(self, path: str, state: os.statvfs_result, min_free_bytes: int) -> str:
        least = min(min_free_bytes, state.f_blocks * state.f_frsize // 100)
        free = state.f_bavail * state.f_frsize
        full = free < least * (FREE_AGAIN_FACTOR if self._full.get(path) else 1)
        no_files = state.f_files > 0 and state.f_favail == 0
        self._full[path] = full or no_files
        if is_read_only(path):
            return f"cannot write to {path}: its file system is read-only"
        if full:
            return f"{path} is full: {free // MIB} MiB are free"
        return f"cannot create more files in {path}: its file system has no free inodes" if no_files else ""


def _is_private(error: OSError) -> bool:
    """Return whether a mount belongs to another user.

    An agent without root rights may not read it, and does not judge it.
    """
    return isinstance(error, PermissionError)


def network_mounts() -> List[str]:
    """Return the paths of mounted network file systems."""
    return [each.path for each in mounted() if each.kind in NETWORK or each.kind.startswith(NETWORK_FUSE)][
        :MAX_MOUNTS
    ]
