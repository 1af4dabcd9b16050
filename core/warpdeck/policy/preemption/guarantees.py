"""Guarantees of quotas: which running jobs are within the quota of an account, and which borrow beyond it.

The jobs under each account are counted against its quota: jobs of the highest rank (by QoS or tier) first,
then in the order of their starts. Jobs that no longer fit are borrowers. So a newly started job cannot take
the guarantee of a job with a higher rank, or of an earlier job. The level of a job is the depth in the tree
of the lowest account that guarantees it, or 0 if none does.

Preemptions cannot form a cycle, because each of them increases the same quantity. First, this quantity
compares the ranks of all jobs of the deepest level, highest first. If these are equal, it compares the ranks
at the next level and deeper, and so on. At last it compares the ranks of all running jobs.

When an account reclaims, it stays within its quota. The victims borrow from all accounts that the two jobs do
not share. So one more job is guaranteed below these accounts, and none less. By QoS or tier, a job only
replaces jobs of lower rank, and only if their level is not deeper than its own.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from warpdeck.model import JobId
from warpdeck.policy.input.site import AccountView, QosView, Tres
from warpdeck.policy.input.view import RunningJob
from warpdeck.policy.limits.limits import LimitUsage
from warpdeck.policy.resources.tres import add


class Guarantees:
    """The guarantees of the running jobs that are not leaving."""

    def __init__(
        self, running: Sequence[RunningJob], limit_usage: LimitUsage, *, rank: Callable[[RunningJob], int]
    ) -> None:
        self._all = running
        self._limit_usage = limit_usage
        self._rank = rank
        self._known: dict[str, dict[JobId, Tres]] = {}
        """By account, the holdings of the jobs within its quota, highest rank first."""
        self._ranks: dict[JobId, int] = {}

    @cached_property
    def _in_order(self) -> list[RunningJob]:
        """The jobs that stay, in the order in which they are counted."""
        staying = [job for job in self._all if not job.ending and not job.suspended]
        self._ranks = {job.id: self._rank(job) for job in staying}
        return sorted(staying, key=lambda job: (-self._ranks[job.id], job.start_at_unix, job.id))

    def holds(self, victim: RunningJob, accounts: Iterable[AccountView]) -> bool:
        """Return whether the job is within the quota of one of these accounts, which are above it."""
        return any(account.quota and victim.id in self._of(account) for account in accounts)

    def level(self, victim: RunningJob) -> int:
        """Return the level of a running job: the depth of the lowest account that guarantees it, or 0."""
        above = list(self._limit_usage.chain(victim.account))
        return next((len(above) - at for at, each in enumerate(above) if self.holds(victim, (each,))), 0)

    def level_for(self, account: str, tres: Tres, *, rank: int) -> int:
        """Return the level that a new job of this account with this demand would have."""
        above = list(self._limit_usage.chain(account))
        return next((len(above) - at for at, each in enumerate(above) if self._would(each, tres, rank)), 0)

    def _would(self, account: AccountView, tres: Tres, rank: int) -> bool:
        if not any(map(tres.get, account.quota)):
            return False
        used: Tres = {}
        for job_id, held in self._of(account).items():
            if self._ranks[job_id] >= rank:
                add(used, held)
        return inside(account.quota, used, tres)

    def _of(self, account: AccountView) -> dict[JobId, Tres]:
        found = self._known.get(account.name)
        if found is None:
            found = self._known[account.name] = dict(self._count_off(account))
        return found

    def _count_off(self, account: AccountView) -> Iterator[tuple[JobId, Tres]]:
        used: Tres = {}
        for job in self._in_order:
            if not any(each.name == account.name for each in self._limit_usage.chain(job.account)):
                continue
            held = self._limit_usage.tres_of(job, job.allocation)
            if any(map(held.get, account.quota)) and inside(account.quota, used, held):
                add(used, held)
                yield job.id, held


def inside(quota: Tres, used: Tres, more: Tres) -> bool:
    """Return whether the usage stays within the quota after adding `more`."""
    return all(used.get(name, 0) + more.get(name, 0) <= count for name, count in quota.items())


def ranks(table: Iterable[QosView]) -> dict[str, int]:
    """Return the rank of each QoS: the length of the longest chain of preemptions below it.

    The rank of a QoS is always greater than the rank of each QoS that it preempts.
    """
    preempts = {qos.name: qos.preempts for qos in table}
    found: dict[str, int] = {}

    def rank(name: str, above: frozenset[str]) -> int:
        if name not in found:
            below = sorted(preempts.get(name, frozenset()) - above - {name})
            found[name] = max((1 + rank(each, above | {name}) for each in below), default=0)
        return found[name]

    for name in preempts:
        rank(name, frozenset())
    return found
