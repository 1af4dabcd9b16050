"""Users and groups by name and id, from this machine's directory.

Results are cached, because a directory may be slow.
"""

from __future__ import annotations

import contextlib
import functools
import grp
import pwd
import re

_NUMBER = re.compile(r"[ \t]*[+-]?[0-9]{1,20}")


@functools.cache
def uid_of(name: str) -> int | None:
    """Return the user's id, or None if the user is unknown. A number stands for itself."""
    if name.isdecimal():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


@functools.cache
def gid_of(name: str) -> int | None:
    """Return the group's id, or None if the group is unknown. A number stands for itself."""
    if name.isdecimal():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def members_of(group: str) -> list[str]:
    """Return the known members of a group, or [] for an unknown group.

    Users with this primary group are included.
    """
    try:
        found = grp.getgrnam(group)
    except KeyError:
        return []
    first = [user.pw_name for user in pwd.getpwall() if user.pw_gid == found.gr_gid]
    return sorted({*found.gr_mem, *first})


def existing_uid(word: str) -> int | None:
    """Return the id of an existing user, given by name or number as in sbatch's --uid, or None."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(word).pw_uid
    with contextlib.suppress(KeyError, OverflowError):
        return pwd.getpwuid(int(word)).pw_uid if _NUMBER.fullmatch(word) else None
    return None


def existing_gid(word: str) -> int | None:
    """Return the id of an existing group, given by name or number, or None."""
    with contextlib.suppress(KeyError):
        return grp.getgrnam(word).gr_gid
    with contextlib.suppress(KeyError, OverflowError):
        return grp.getgrgid(int(word)).gr_gid if _NUMBER.fullmatch(word) else None
    return None


@functools.cache
def name_of(uid: int) -> str:
    """Return the user's name, or the number if it has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


@functools.cache
def full_name_of(name: str) -> str:
    """Return the user's full name from the directory, up to the first comma, or "" if the user is unknown."""
    try:
        return pwd.getpwnam(name).pw_gecos.partition(",")[0]
    except KeyError:
        return ""


@functools.cache
def group_of(uid: int) -> tuple[str, int]:
    """Return the name and id of the user's primary group; ("nobody", 65534) for an unknown user."""
    try:
        gid = pwd.getpwuid(uid).pw_gid
    except KeyError:
        return "nobody", 65_534
    return group_name(gid), gid


@functools.cache
def group_name(gid: int) -> str:
    """Return the group's name, or the number if it has no name."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
