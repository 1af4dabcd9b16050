"""Users and groups by name and number, as this machine's directory has them. A directory may be slow: each is asked once."""

from __future__ import annotations

import contextlib
import functools
import grp
import pwd
import re

_NUMBER = re.compile(r"[ \t]*[+-]?[0-9]{1,20}")


@functools.cache
def uid_of(name: str) -> int | None:
    """The user's number; None is unknown. A number stands for itself."""
    if name.isdecimal():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


@functools.cache
def gid_of(name: str) -> int | None:
    """The group's number; None is unknown. A number stands for itself."""
    if name.isdecimal():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def members_of(group: str) -> list[str]:
    """The users that are known to be in a group, also those whose first it is; [] for one that is not known."""
    try:
        found = grp.getgrnam(group)
    except KeyError:
        return []
    first = [user.pw_name for user in pwd.getpwall() if user.pw_gid == found.gr_gid]
    return sorted({*found.gr_mem, *first})


def user_there(word: str) -> int | None:
    """The number of a user that there is, by name or number as sbatch's --uid reads it; None if there is none."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(word).pw_uid
    with contextlib.suppress(KeyError, OverflowError):
        return pwd.getpwuid(int(word)).pw_uid if _NUMBER.fullmatch(word) else None
    return None


def group_there(word: str) -> int | None:
    """The same of a group."""
    with contextlib.suppress(KeyError):
        return grp.getgrnam(word).gr_gid
    with contextlib.suppress(KeyError, OverflowError):
        return grp.getgrgid(int(word)).gr_gid if _NUMBER.fullmatch(word) else None
    return None


@functools.cache
def name_of(uid: int) -> str:
    """The user's name, or the number of one that has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


@functools.cache
def full_name_of(name: str) -> str:
    """What the directory calls the user, up to the first comma; nothing where it does not know the name."""
    try:
        return pwd.getpwnam(name).pw_gecos.partition(",")[0]
    except KeyError:
        return ""


@functools.cache
def group_of(uid: int) -> tuple[str, int]:
    """The user's first group: name and number; ("nobody", 65534) where the user is not known."""
    try:
        gid = pwd.getpwuid(uid).pw_gid
    except KeyError:
        return "nobody", 65_534
    return group_name(gid), gid


@functools.cache
def group_name(gid: int) -> str:
    """The group's name, or its number."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
