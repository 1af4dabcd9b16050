"""Users as this node knows them: who they are, which groups they have, and how a program becomes one of them.

A job is a name's and a uid's. A root agent becomes the user only where this node means the same by both: an account that was
deleted and made anew, or that has another uid here than where the job was submitted, is somebody else's.

The system may ask a directory for each of these words, and an array's tasks want the same ones hundreds of times a second:
what was just learnt holds for a second.
"""

from __future__ import annotations

import functools
import os
import pwd
import time
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Tuple

from warpdeck_agent.linux.refusals import LaunchError

if TYPE_CHECKING:
    from warpdeck_agent.storage.spool import Meta
    from warpdeck_agent.wire.messages import Launch

KNOWN_S = 1.0
MOST_KNOWN = 256
"""Answers that are remembered, of each kind."""


class Account(NamedTuple):
    """A user on this node."""

    uid: int
    gid: int


def account(launch: Launch) -> Account:
    """Whose it is on this node. A root agent looks the user up; any other runs everything as itself. Raises LaunchError."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    return _account_of(launch.user, launch.uid)


def _account_of(user: str, uid: int) -> Account:
    """The account that has both this name and this uid. Raises LaunchError."""
    try:
        found = _by_name(user, _moment())
    except KeyError as error:
        raise LaunchError(
            f"there is no user {user} on this node, and the job is of {user} with uid {uid}: add the account to the node"
        ) from error
    if found.pw_uid != uid:
        raise LaunchError(
            f"user {user} has uid {found.pw_uid} on this node, and the job is of {user} with uid {uid}:"
            " give the account the same uid on all machines, or submit the job again as the new user"
        )
    return Account(found.pw_uid, found.pw_gid)


def account_environment(uid: int) -> Dict[str, str]:
    """What this node says of the user; nothing where the account is not listed (containers)."""
    try:
        known = _by_uid(uid, _moment())
    except KeyError:
        return {}
    shell = known.pw_shell or "/bin/sh"
    return {"HOME": known.pw_dir, "USER": known.pw_name, "LOGNAME": known.pw_name, "SHELL": shell}


def group_of(meta: Meta) -> int:
    """The gid of the job's processes. Raises LaunchError where its user's account is not what it was."""
    return _account_of(meta.user, meta.uid).gid if os.geteuid() == 0 else os.getegid()


def groups_of(user: str, *, gid: int) -> List[int]:
    """All groups of a user whose own is that one."""
    return list(_groups(user, gid, _moment()))


def as_user(user: str, *, uid: int, gid: int) -> Dict[str, Any]:
    """Popen's arguments that drop to the user before exec; none where that is who we are (and Popen stays a vfork)."""
    if os.geteuid() != 0 or uid == 0:
        return {}
    return {"user": uid, "group": gid, "extra_groups": groups_of(user, gid=gid)}


def rights_of(uid: int) -> Dict[str, Any]:
    """`as_user` by the uid alone; one without an account here has no other group."""
    try:
        found = _by_uid(uid, _moment())
    except KeyError:
        return {} if os.geteuid() != 0 else {"user": uid, "group": uid, "extra_groups": []}
    return as_user(found.pw_name, uid=uid, gid=found.pw_gid)


def _moment() -> int:
    """Equal for as long as an answer holds."""
    return int(time.monotonic() / KNOWN_S)


@functools.lru_cache(maxsize=MOST_KNOWN)
def _by_name(name: str, moment: int) -> pwd.struct_passwd:
    return pwd.getpwnam(name)


@functools.lru_cache(maxsize=MOST_KNOWN)
def _by_uid(uid: int, moment: int) -> pwd.struct_passwd:
    return pwd.getpwuid(uid)


@functools.lru_cache(maxsize=MOST_KNOWN)
def _groups(user: str, gid: int, moment: int) -> Tuple[int, ...]:
    return tuple(os.getgrouplist(user, gid))
