"""Which running jobs are what a quota above them guarantees, and which are what is borrowed beyond it. Pure.

The jobs under each account are counted off against its quota, those of the highest rank (by QoS or tier) first, then those that
began first; who no longer fits is borrowed. So nobody who begins takes the guarantee of one of higher rank, or who was there
before. A job's level is the depth in the tree of the lowest account that guarantees it, 0 for none.

No preemptions go in a circle, as each makes the same thing greater: the ranks of all jobs of the deepest level, the highest first;
where these are the same those of the next level and deeper; at last those of all who run. To reclaim, the account stays within its
quota, and only those leave who are borrowed from all accounts that the two have not in common: so a job more is guaranteed below
these, and none less. By QoS or tier a job takes the place of jobs of lower rank, and of none whose level is deeper than its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from warpdeck.model import JobId
from warpdeck.policy.input.site import AccountView, QosView, Tres
from warpdeck.policy.input.view import RunningJob
from warpdeck.policy.limits.limits import Ledger
from warpdeck.policy.resources.tres import add


class Guarantees:
    """Of the jobs that run, as far as they are not leaving."""

    def __init__(
        self, running: Sequence[RunningJob], ledger: Ledger, *, rank: Callable[[RunningJob], int]
    ) -> None:
        self._all = running
        self._ledger = ledger
        self._rank = rank
        self._known: dict[str, dict[JobId, Tres]] = {}
        """By account what each of those holds who are within its quota, the highest rank first."""
        self._ranks: dict[JobId, int] = {}

    @cached_property
    def _in_order(self) -> list[RunningJob]:
        """Those who stay, in the order in which they are counted off."""
        staying = [job for job in self._all if not job.ending and not job.suspended]
        self._ranks = {job.id: self._rank(job) for job in staying}
        return sorted(staying, key=lambda job: (-self._ranks[job.id], job.start_at_unix, job.id))

    def holds(self, victim: RunningJob, accounts: Iterable[AccountView]) -> bool:
        """Whether it is within the quota of one of these, which are above it."""
        return any(account.quota and victim.id in self._of(account) for account in accounts)

    def level(self, victim: RunningJob) -> int:
        """Of a running job."""
        above = list(self._ledger.chain(victim.account))
        return next((len(above) - at for at, each in enumerate(above) if self.holds(victim, (each,))), 0)

    def level_for(self, account: str, tres: Tres, *, rank: int) -> int:
        """Of a job of this account that would run, too."""
        above = list(self._ledger.chain(account))
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
            if not any(each.name == account.name for each in self._ledger.chain(job.account)):
                continue
            held = self._ledger.tres_of(job, job.allocation)
            if any(map(held.get, account.quota)) and inside(account.quota, used, held):
                add(used, held)
                yield job.id, held


def inside(quota: Tres, used: Tres, more: Tres) -> bool:
    """Whether with so much more the use stays within the quota."""
    return all(used.get(name, 0) + more.get(name, 0) <= count for name, count in quota.items())


def ranks(table: Iterable[QosView]) -> dict[str, int]:
    """By QoS how many preempt each other below it: always more than those that it preempts."""
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
