"""Finds the user of a process, also in user namespaces.

Rootless containers have many uids, which all belong to one user.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Optional

from .procfs import table

GET_PARENT, GET_OWNER_UID = 0xB702, 0xB704
"""ioctl_nsfs(2): NS_GET_PARENT, NS_GET_OWNER_UID."""
MAX_DEPTH = 32
"""The kernel's maximum nesting depth of user namespaces."""
_UID = struct.Struct("=I")


def user_of(pid: int) -> int:
    """Return the process's real uid, or -1 if it is gone.

    In a user namespace of a user other than root, it is that user's uid.
    """
    uids = table(f"/proc/{pid}/status").get("Uid", "").split()
    if not uids:
        return -1
    return _maker_of_namespace(pid) or int(uids[0])


def _maker_of_namespace(pid: int) -> Optional[int]:
    """Return the owner of the process's outermost user namespace below ours.

    Returns None if the process is in ours, or if the owner cannot be found.
    """
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
    except OSError:  # the namespace is not below ours
        return None
    finally:
        for descriptor in opened:
            os.close(descriptor)
