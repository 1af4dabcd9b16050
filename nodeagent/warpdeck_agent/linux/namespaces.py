"""Whose a process is, also in a user namespace: there a user has many uids (rootless containers), and all are that user's."""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Optional

from .procfs import table

GET_PARENT, GET_OWNER_UID = 0xB702, 0xB704
"""ioctl_nsfs(2): NS_GET_PARENT, NS_GET_OWNER_UID."""
MAX_DEPTH = 32
"""How deep the kernel lets user namespaces lie in each other."""
_UID = struct.Struct("=I")


def user_of(pid: int) -> int:
    """The process's real uid; in a user namespace that a user other than root has made, that user's. -1 if it is gone."""
    uids = table(f"/proc/{pid}/status").get("Uid", "").split()
    if not uids:
        return -1
    return _maker_of_namespace(pid) or int(uids[0])


def _maker_of_namespace(pid: int) -> Optional[int]:
    """Of the outermost of the process's user namespaces below ours; None where it is in ours, or it cannot be told."""
    try:
        opened = [os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)]
    except OSError:
        return None
    try:
        ours = os.stat("/proc/self/ns/user").st_ino
        while os.fstat(opened[-1]).st_ino != ours and len(opened) <= MAX_DEPTH:
            opened.append(fcntl.ioctl(opened[-1], GET_PARENT))
        if len(opened) == 1:
            return None
        (uid,) = _UID.unpack(fcntl.ioctl(opened[-2], GET_OWNER_UID, bytes(_UID.size)))
        return int(uid)
    except OSError:  # the namespace is none of those below ours
        return None
    finally:
        for descriptor in opened:
            os.close(descriptor)
