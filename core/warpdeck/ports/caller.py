"""The identity of a caller and the caller's rights. The functions are pure.

The kernel reports the identity of a caller, or an agent reports it for the processes of a job. All code that
decides about the ownership of a job is here. It compares uids and never names, because the name of a deleted
account may now belong to another user.

The rights are Slurm's (sacctmgr(1), AdminLevel and Coordinator). tests/slurm_parity/administration/test_rights.py compares them:

- `admin` is set for root and for the controller's own user. Only they reach the output and the processes of other
  users' jobs, and the whole configuration. Only they add nodes, because a node sees everything of its jobs.
- An administrator (AdminLevel) changes everything else: nodes, partitions, QoS, admin levels, accounts, jobs.
- An operator changes accounts, reservations and jobs.
- A coordinator changes the users and the subaccounts of an account, and controls the jobs that run under it.

A process of a job never has more rights than an ordinary user, because the job's node could forge its requests.
"""

from __future__ import annotations

import asyncio

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import Job, JobId, NodeName
from warpdeck.model.admin_level import AdminLevel

NOT_ADMIN = "not_admin"
"""Code of the error for a request that needs more rights on the site."""
NOT_YOURS = "not_yours"
"""Code of the error for an object of another user, where Slurm has no message of its own."""
DENIED_CODES = frozenset({NOT_ADMIN, "not_owner", NOT_YOURS, "denied", "not_user", "reservation_denied"})
"""Codes of the errors for requests that the caller has no right to."""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The user of a caller, with the rights that the site gives this user now.

    `admin` is set for root and for the controller's own user. `coordinates` are accounts, with those below them.
    """

    user: str
    uid: int
    admin: bool = False
    level: AdminLevel = AdminLevel.NONE
    coordinates: frozenset[str] = frozenset()


class LocalClient(msgspec.Struct, frozen=True, kw_only=True):
    """The process at the other end of the controller's own socket, as it was when it connected.

    `program` is the name of its program, which the process itself may have chosen.
    """

    pid: int
    program: str = ""


class JobProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A job's process on one of our nodes that acts as a client.

    `lost` is set if its connection ended because the link to the node broke, not because the process ended
    it.
    """

    job_id: JobId
    node: NodeName
    lost: asyncio.Event


class Caller(msgspec.Struct, frozen=True):
    """The identity of a client: its user, and its process on a node of a job or on this machine."""

    who: Principal
    process: JobProcess | None = None
    client: LocalClient | None = None

    @property
    def origin(self) -> str:
        """Where the caller's requests come from, for the audit log."""
        if self.process is not None:
            return f"job {self.process.job_id} on {self.process.node}"
        if self.client is not None:
            return f"pid {self.client.pid} {self.client.program}".rstrip()
        return ""


def owns(principal: Principal, job: Job) -> bool:
    """Return whether the caller owns the job.

    Some data is only for the owner, such as the job's environment. Root has no access to it either.
    """
    return principal.uid == job.uid


def is_operator(principal: Principal) -> bool:
    """Return whether the caller is an operator, an administrator, or root."""
    return principal.admin or principal.level is not AdminLevel.NONE


def is_administrator(principal: Principal) -> bool:
    """Return whether the caller is an administrator, or root."""
    return principal.admin or principal.level is AdminLevel.ADMINISTRATOR


def coordinates(principal: Principal, job: Job) -> bool:
    """Return whether the caller is an operator, or a coordinator of the job's account."""
    return is_operator(principal) or job.request.account in principal.coordinates


def may_control(principal: Principal, job: Job) -> bool:
    """Return whether the caller may cancel, hold and change the job."""
    return owns(principal, job) or coordinates(principal, job)


def may_read(principal: Principal, job: Job) -> bool:
    """Return whether the caller may read the job's script and its details."""
    return owns(principal, job) or is_operator(principal)


def may_access(principal: Principal, job: Job) -> bool:
    """Return whether the caller may read the job's output and use its processes. Its owner and root may."""
    return principal.admin or owns(principal, job)


def require_root(who: Principal) -> None:
    """Raise UserError unless the caller is root or the controller's own user."""
    if not who.admin:
        raise UserError("only root and the controller's user may do this", "ask root", code=NOT_ADMIN)


def require_admin(who: Principal) -> None:
    """Raise UserError unless the caller is an administrator."""
    if not is_administrator(who):
        raise UserError(
            "only root and the controller's user, and administrators, may do this",
            "ask an administrator",
            code=NOT_ADMIN,
        )


def require_operator(who: Principal) -> None:
    """Raise UserError unless the caller is an operator."""
    if not is_operator(who):
        raise UserError(
            "only root and the controller's user, administrators and operators may do this",
            "ask an administrator",
            code=NOT_ADMIN,
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
