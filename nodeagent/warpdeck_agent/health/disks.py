"""Disks that are full or read-only, and mounts that hang. A look may hang with its mount for ever, and in a way that no signal
ends: it is made by a child, stat(1), that can be left behind (see probes).
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
"""Network mounts that are looked at: a thread each, should they all hang."""
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
"""sshfs, glusterfs, and whatever else is a file system in a program."""
ROOM_AGAIN = 2
"""A full disk has room again when it has so many times what it must have: else it would come and go with every file."""
MIB = 2**20

_STAT_FORMAT = "%s %S %b %f %a %c %d"
"""Block sizes, blocks, those that are free, and free for everybody; files, and how many more there can be."""
_ERRORS = {os.strerror(number): number for number in errno.errorcode}


def ask_disk(path: str) -> os.statvfs_result:
    """What statvfs(3) says, from a child. Raises OSError, also what statvfs would. Blocks as long as the disk does."""
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
        words = done.stderr.strip().rpartition(": ")[2]
        raise OSError(_ERRORS.get(words, errno.EIO), words, path)
    size, unit, blocks, free, available, files, more = (int(word) for word in done.stdout.split())
    return os.statvfs_result((size, unit, blocks, free, available, files, more, more, 0, 255))


class Disks:
    """Looks at these folders' disks, and at the network mounts there are."""

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

    async def look(self, min_free_bytes: int) -> List[Check]:
        """One check for all folders that are well, one for each that is not; the same for mounts."""
        mounts = self._mounts()
        found = await self._probes.ask(list(dict.fromkeys((*self._folders, *mounts))))
        bad = []
        for path in self._folders:
            state = found[path]
            if isinstance(state, os.statvfs_result):
                message = self._lacks_room(path, state, min_free_bytes)
                bad += [Check("disk", "fail", message)] if message else []
            elif not isinstance(state, BaseException):
                bad.append(Check("mount", "fail", f"{path} does not answer"))
        checks = bad or [Check("disk", "ok", f"room in {', '.join(self._folders)}")]
        return [*checks, *self._judge_mounts([path for path in mounts if path not in self._folders], found)]

    def _judge_mounts(self, mounts: List[str], found: Dict[str, Any]) -> List[Check]:
        hanging = [path for path in mounts if found[path] is None]
        stale = [path for path in mounts if isinstance(found[path], OSError) and not _is_private(found[path])]
        if hanging or stale:
            return [Check("mount", "fail", f"{path} does not answer") for path in hanging] + [
                Check("mount", "fail", f"{path}: {os.strerror(found[path].errno or 0)}") for path in stale
            ]
        return [Check("mount", "ok", f"{len(mounts)} network mounts answer")] if mounts else []

    def _lacks_room(self, path: str, state: os.statvfs_result, min_free_bytes: int) -> str:
        least = min(min_free_bytes, state.f_blocks * state.f_frsize // 100)
        free = state.f_bavail * state.f_frsize
        full = free < least * (ROOM_AGAIN if self._full.get(path) else 1)
        no_files = state.f_files > 0 and state.f_favail == 0
        self._full[path] = full or no_files
        if is_read_only(path):
            return f"{path} may not be written: its file system is read-only"
        if full:
            return f"{path} is full: {free // MIB} MiB are free"
        return f"{path} can hold no more files" if no_files else ""


def _is_private(error: OSError) -> bool:
    """Another user's mount, which a plain agent may not look into, is none of its business."""
    return isinstance(error, PermissionError)


def network_mounts() -> List[str]:
    """Where network file systems are mounted now."""
    return [each.path for each in mounted() if each.kind in NETWORK or each.kind.startswith(NETWORK_FUSE)][
        :MAX_MOUNTS
    ]
