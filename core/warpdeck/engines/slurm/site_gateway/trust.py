"""Decides whether a socket belongs to a site gateway that this user may believe.

The server at the socket must be root, this user, or the account that an administrator has chosen: the owner of a folder that
only root can have created, or the account that the user's settings name. The kernel tells the account of the server.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import stat
import struct

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def trusted_uids(folder: str, *, owner: str, uid: int) -> frozenset[int]:
    """Return the accounts that may run a trusted site gateway. `owner` is the name from the settings, or ""."""
    found = {0, uid}
    if owner:
        try:
            found.add(pwd.getpwnam(owner).pw_uid)
        except KeyError:
            pass
    elif (made_by_root := _owner_by_root(folder)) is not None:
        found.add(made_by_root)
    return frozenset(found)


def _owner_by_root(folder: str) -> int | None:
    """Return the owner of a folder that only root can have put there, or None."""
    try:
        found = os.lstat(folder)
        parent = os.path.realpath(os.path.dirname(os.path.abspath(folder)))
        if not stat.S_ISDIR(found.st_mode):
            return None
        while True:
            above = os.stat(parent)
            if above.st_uid != 0 or above.st_mode & OTHERS_WRITE:
                return None
            if parent == "/":
                return found.st_uid
            parent = os.path.dirname(parent)
    except OSError:
        return None


def name_of(uid: int) -> str:
    """Return the name of an account, or its number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def peer_uid(writer: asyncio.StreamWriter) -> int:
    """Return the user at the other end of a Unix socket (SO_PEERCRED)."""
    peer: socket.socket = writer.get_extra_info("socket")
    _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(uid)
