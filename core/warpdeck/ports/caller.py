"""Who asks, as the kernel says, or as an agent does of a job's own processes; and what they may do. Pure.

Here alone is decided whose a job is: by uid, never by name. The name of a deleted account may be another user's by now.
"""

from __future__ import annotations

import msgspec

from warpdeck.model import Job


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks. `admin`: root, or the controller's own user."""

    user: str
    uid: int
    admin: bool = False


def owns(who: Principal, job: Job) -> bool:
    """Whether it is the asker's own job. Of what only the owner gets, such as its variables, root gets nothing either."""
    return who.uid == job.uid


def may_touch(who: Principal, job: Job) -> bool:
    """Owners and admins."""
    return who.admin or owns(who, job)


def is_namesake(who: Principal, job: Job) -> bool:
    """Whether the job is of somebody else who had the asker's name."""
    return who.user == job.user and not owns(who, job)


def whose(who: Principal, job: Job) -> str:
    """The job's user, in words for who asks."""
    return f"{job.user} (uid {job.uid}, where you have {who.uid})" if is_namesake(who, job) else job.user
