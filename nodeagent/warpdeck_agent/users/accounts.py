"""User accounts on this node: their ids and groups, and starting programs as a user.

A job has a user name and a uid. A root agent only switches to the user if both mean the same account on this
node. An account that was deleted and created again, or that has another uid here than on the submit host, may
belong to another person.

Each lookup may query a directory service, and the tasks of an array need the same ones hundreds of times per
second. So results are cached for one second.
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
"""The most cached results of each kind."""


class UserIds(NamedTuple):
    """A user on this node."""

    uid: int
    gid: int


def account(request: Launch) -> UserIds:
    """Return the account of the launch's user on this node.

    A root agent looks the user up; any other agent runs everything as its own user. Raises LaunchError.
    """
    if os.geteuid() != 0:
        return UserIds(os.geteuid(), os.getegid())
    return _account_of(request.user, request.uid)


def _account_of(user: str, uid: int) -> UserIds:
    """Return the account that has both this name and this uid. Raises LaunchError."""
    try:
        found = _by_name(user, _cache_period())
    except KeyError as error:
        raise LaunchError(
            f"the job's user {user} (uid {uid}) does not exist on this node: add the account to the node"
        ) from error
    if found.pw_uid != uid:
        raise LaunchError(
            f"user {user} has uid {found.pw_uid} on this node, but the job belongs to {user} with uid {uid}:"
            " give the account the same uid on all machines, or submit the job again as the new user"
        )
    return UserIds(found.pw_uid, found.pw_gid)


def account_environment(uid: int) -> Dict[str, str]:
    """Return the variables from the user's account on this node.

    The result is empty if the account is not listed (containers).
    """
    try:
        known = _by_uid(uid, _cache_period())
    except KeyError:
        return {}
    shell = known.pw_shell or "/bin/sh"
    return {"HOME": known.pw_dir, "USER": known.pw_name, "LOGNAME": known.pw_name, "SHELL": shell}


def group_of(meta: Meta) -> int:
    """Return the gid of the job's processes. Raises LaunchError if its user's account has changed."""
    return _account_of(meta.user, meta.uid).gid if os.geteuid() == 0 else os.getegid()


def groups_of(user: str, *, gid: int) -> List[int]:
    """Return all groups of a user with the primary group `gid`."""
    return list(_groups(user, gid, _cache_period()))


def as_user(user: str, *, uid: int, gid: int) -> Dict[str, Any]:
    """Return Popen's arguments that switch to the user before exec.

    They are empty if that is our own user, in which case Popen can use vfork.
    """
    if os.geteuid() != 0 or uid == 0:
        return {}
    return {"user": uid, "group": gid, "extra_groups": groups_of(user, gid=gid)}


def rights_of(uid: int) -> Dict[str, Any]:
    """Like `as_user`, for a uid alone. A user without an account on this node has no other group."""
    try:
        found = _by_uid(uid, _cache_period())
    except KeyError:
        return {} if os.geteuid() != 0 else {"user": uid, "group": uid, "extra_groups": []}
    return as_user(found.pw_name, uid=uid, gid=found.pw_gid)


def _cache_period() -> int:
    """Return a number that stays equal as long as a cached result is valid."""
    return int(time.monotonic() / KNOWN_S)


@functools.lru_cache(maxsize=MOST_KNOWN)
def _by_name(name: str, period: int) -> pwd.struct_passwd:
    return pwd.getpwnam(name)


@functools.lru_cache(maxsize=MOST_KNOWN)
def _by_uid(uid: int, period: int) -> pwd.struct_passwd:
    return pwd.getpwuid(uid)


@functools.lru_cache(maxsize=MOST_KNOWN)
def _groups(user: str, gid: int, period: int) -> Tuple[int, ...]:
    return tuple(os.getgrouplist(user, gid))
