"""Users and groups by name and number, as this machine's directory has them. A directory may be slow: each is asked once."""

from __future__ import annotations

import functools
import grp
import pwd


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
