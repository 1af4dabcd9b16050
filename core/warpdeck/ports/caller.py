"""The identity of a caller and the caller's rights on jobs. The functions are pure.

The kernel reports the identity of a caller, or an agent reports it for the processes of a job. All code that
decides about the ownership of a job is here. It compares uids and never names, because the name of a deleted
account may now belong to another user.
"""

from __future__ import annotations

import asyncio

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import Job, JobId, NodeName


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The user of a caller. `admin` is set for root and for the controller's own user."""

    user: str
    uid: int
    admin: bool = False


class JobProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A job's process on one of our nodes that acts as a client.

    `lost` is set if its connection ended because the link to the node broke, not because the process ended
    it.
    """

    job_id: JobId
    node: NodeName
    lost: asyncio.Event


class Caller(msgspec.Struct, frozen=True):
    """The identity of a client: its user, and its process if it is a process of a job."""

    who: Principal
    process: JobProcess | None = None


def owns(principal: Principal, job: Job) -> bool:
    """Return whether the caller owns the job.

    Some data is only for the owner, such as the job's environment. Root has no access to it either.
    """
    return principal.uid == job.uid


def may_control(principal: Principal, job: Job) -> bool:
    """Return whether the caller may control the job. Its owner and administrators may."""
    return principal.admin or owns(principal, job)


def require_admin(who: Principal) -> None:
    """Raise UserError unless the caller is an administrator."""
    if not who.admin:
        raise UserError(
            "only root and the controller's user may do this", "ask an administrator", code="not_admin"
        )


def is_namesake(principal: Principal, job: Job) -> bool:
    """Return whether the job belongs to another user who had the caller's name."""
    return principal.user == job.user and not owns(principal, job)


def owner_text(principal: Principal, job: Job) -> str:
    """Return the job's user as text for the caller, with both uids if the names are equal."""
    return (
        f"{job.user} (uid {job.uid}, where you have {principal.uid})"
        if is_namesake(principal, job)
        else job.user
    )
