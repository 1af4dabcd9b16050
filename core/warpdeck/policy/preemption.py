"""Who must leave so that another may start: by QoS, by partition tier, or to give an account back its quota. Pure.

Victims, worst claim first: those who borrow beyond their account's quota, then lowest QoS or tier, then those that lose
least work (started last). On each node as few as meet the need; nodes on which least work is lost. A job that has not yet
run for its exempt time, or is leaving already, is no victim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from warpdeck.model import JobId, Share

from .answer import Preempt
from .cluster import CPUS, GPUS, Cluster, Ints
from .demand import Need
from .limits import Ledger
from .placement import Gang, Shape, Spot, choose
from .settings import Settings
from .site import AccountView, PartitionView, QosView, Tres
from .timeline import Timeline
from .view import PendingJob, RunningJob, View


class Claim(msgspec.Struct, frozen=True):
    """Why one job may push another aside, and how."""

    rank: int
    """Lower is pushed first."""
    mode: str
    because: str


class Rules:
    """The site's preemption rules over the jobs that run."""

    def __init__(self, view: View, now: float, settings: Settings, ledger: Ledger) -> None:
        self._now = now
        self._settings = settings
        self._ledger = ledger
        self._qos: dict[str, QosView] = {qos.name: qos for qos in view.qos}
        self._partitions: dict[str, PartitionView] = {part.name: part for part in view.partitions}
        self.quotas = any(account.quota for account in view.accounts)
        self._by_qos = settings.preempt_by == "qos" and any(qos.preempts for qos in view.qos)
        tiers = {part.priority_tier for part in view.partitions}
        self._lowest_tier = min(tiers, default=1)
        self._by_tier = settings.preempt_by == "partition" and len(tiers) > 1
        self.active = self._by_qos or self._by_tier or (self.quotas and settings.reclaim)

    def within_quota(self, job: PendingJob, tres: Tres) -> bool:
        """Whether the job can start without its account borrowing: it has a guaranteed right to resources."""
        return any(
            account.quota and _inside(account.quota, self._ledger.account_use(account.name), tres)
            for account in self._ledger.chain(job.account)
        )

    def may_push(self, job: PendingJob, tres: Tres) -> bool:
        """Whether there is anybody at all over whom the job could have a claim."""
        qos = self._qos.get(job.qos)
        return (
            (self._by_qos and qos is not None and bool(qos.preempts))
            or (self._by_tier and self._tier(job.partition) > self._lowest_tier)
            or (self.quotas and self._settings.reclaim and self.within_quota(job, tres))
        )

    def claim(self, job: PendingJob, tres: Tres, victim: RunningJob) -> Claim | None:
        """The right of a waiting job over a running one, None if it has none."""
        if victim.ending or victim.suspended:
            return None
        qos, own = self._qos.get(victim.qos), self._qos.get(job.qos)
        exempt = max(self._settings.preempt_exempt_s, qos.preempt_exempt_s if qos else 0)
        if self._now - victim.start_at_unix < exempt:
            return None
        if self.quotas and self._settings.reclaim and victim.account != job.account:
            borrower = self._borrower(victim)
            if borrower is not None and self.within_quota(job, tres):
                why = f"account {borrower.name} borrows beyond its quota, and account {job.account} is within its own"
                return Claim(0, self._mode(victim), why)
        if self._by_qos and own is not None and victim.qos in own.preempts:
            rank = 1 + (qos.priority if qos else 0)
            return Claim(rank, self._mode(victim), f"QoS {own.name} preempts QoS {victim.qos}")
        if self._by_tier:
            ours, theirs = self._tier(job.partition), self._tier(victim.partition)
            if ours > theirs:
                why = (
                    f"partition {job.partition} (tier {ours}) goes before {victim.partition} (tier {theirs})"
                )
                return Claim(1 + theirs, self._mode(victim), why)
        return None

    @property
    def suspended_keep_gpus(self) -> bool:
        """Whether a suspended job keeps its GPUs."""
        return self._settings.suspend_keeps_gpus

    def grace_s(self, victim: RunningJob) -> int:
        """How long it has to save its work."""
        qos, part = self._qos.get(victim.qos), self._partitions.get(victim.partition)
        return max(qos.grace_s if qos else 0, part.grace_s if part else 0) or self._settings.grace_s

    def frees(self, cluster: Cluster, share: Share, mode: str) -> Ints:
        """What a victim's share gives back in that mode."""
        amounts = cluster.amounts(share)
        if mode == "suspend":
            kept = amounts.copy()
            amounts[:] = 0
            amounts[CPUS] = kept[CPUS]
            if not self._settings.suspend_keeps_gpus:
                amounts[GPUS:] = kept[GPUS:]
        return amounts

    def _mode(self, victim: RunningJob) -> str:
        qos, part = self._qos.get(victim.qos), self._partitions.get(victim.partition)
        mode = (qos.preempt_mode if qos else "") or (part.preempt_mode if part else "")
        mode = mode or self._settings.preempt_mode
        return "cancel" if mode == "requeue" and not victim.requeue else mode

    def _tier(self, name: str) -> int:
        part = self._partitions.get(name)
        return part.priority_tier if part is not None else 1

    def _borrower(self, victim: RunningJob) -> AccountView | None:
        """The account that borrows what the victim holds: beyond its quota even without this job's share of it."""
        chain = list(self._ledger.chain(victim.account))
        with_quota = [account for account in chain if account.quota]
        account = with_quota[0] if with_quota else (chain[0] if chain else None)
        if account is None:
            return None
        use = self._ledger.account_use(account.name)
        beyond = [
            name for name in account.quota or {"gres/gpu": 0} if use.get(name, 0) > account.quota.get(name, 0)
        ]
        return account if beyond else None


def _inside(quota: Mapping[str, int], used: Mapping[str, int], more: Mapping[str, int]) -> bool:
    return all(used.get(name, 0) + more.get(name, 0) <= count for name, count in quota.items())


Found = tuple[Spot, list[Preempt]]


class Preemption:
    """Finds victims for one waiting job."""

    def __init__(self, rules: Rules, timeline: Timeline, running: Iterable[RunningJob], now: float) -> None:
        self._rules = rules
        self._timeline = timeline
        self._running = list(running)
        self._now = now
        self._told: set[JobId] = set()

    def find(self, job: PendingJob, tres: Tres, shape: Shape) -> Found | None:
        """Where the job can go and who must leave for it; None if nobody it may push aside would help."""
        claims: dict[JobId, Claim] = {}
        for victim in self._running:
            if victim.id in self._told:
                continue
            claim = self._rules.claim(job, tres, victim)
            if claim is not None:
                claims[victim.id] = claim
        if not claims:
            return None
        victims = [victim for victim in self._running if victim.id in claims]
        victims.sort(key=lambda victim: (claims[victim.id].rank, -victim.start_at_unix, victim.id))
        for gang in shape.gangs:
            for mask in shape.masks:
                found = self._on(job, gang, mask.nonzero()[0], victims, claims)
                if found is not None:
                    self._told.update(preempt.job_id for preempt in found[1])
                    return found
        return None

    def _on(
        self,
        job: PendingJob,
        gang: Gang,
        rows: Ints,
        victims: list[RunningJob],
        claims: Mapping[JobId, Claim],
    ) -> Found | None:
        cluster = self._timeline.cluster
        allowed = set(rows.tolist())
        there: dict[int, list[tuple[RunningJob, Ints]]] = {}
        for victim in victims:
            for share in victim.allocation.shares:
                row = cluster.row.get(share.node, -1)
                if row in allowed:
                    gives = self._rules.frees(cluster, share, claims[victim.id].mode)
                    there.setdefault(row, []).append((victim, gives))
        leaving: dict[tuple[int, Need], list[RunningJob]] = {}
        fitting = []
        for need, _ in gang.wanted:
            fits = []
            for row in sorted(allowed):
                chosen = self._least(need, row, there.get(row, []))
                if chosen is not None:
                    fits.append((self._lost_work(chosen), row))
                    leaving[row, need] = chosen
            fits.sort()
            fitting.append(np.array([row for _, row in fits[: gang.nodes]], dtype=np.int64))
        spot = choose(self._timeline, gang, fitting, self._now, None)
        if spot is None:
            return None
        names: dict[JobId, RunningJob] = {}
        for row, need in spot:
            for victim in leaving[row, need]:
                names[victim.id] = victim
        return spot, [self._order(job, victim, claims[victim.id]) for victim in names.values()]

    def _least(self, need: Need, row: int, victims: list[tuple[RunningJob, Ints]]) -> list[RunningJob] | None:
        """The fewest victims, worst claim first, without whom the need is met on the node; None if it never is."""
        timeline = self._timeline
        amounts = timeline.cluster.need_amounts(need)
        if need.exclusive:
            amounts[CPUS] = max(1, int(timeline.cluster.capacity[CPUS, row]))
        missing = amounts - timeline.free[:, row, 0]
        chosen: list[tuple[RunningJob, Ints]] = []
        for victim, gives in victims:
            if (missing <= 0).all():
                break
            if (gives[missing > 0] > 0).any():
                chosen.append((victim, gives))
                missing = missing - gives
        if (missing > 0).any():
            return None
        for one in list(reversed(chosen)):
            if (missing + one[1] <= 0).all():
                chosen = [other for other in chosen if other is not one]
                missing = missing + one[1]
        return [victim for victim, _ in chosen]

    def _lost_work(self, victims: list[RunningJob]) -> float:
        return sum(
            (self._now - victim.start_at_unix) * max(1, victim.allocation.gpu_count()) for victim in victims
        )

    def _order(self, job: PendingJob, victim: RunningJob, claim: Claim) -> Preempt:
        return Preempt(
            job_id=victim.id,
            for_job_id=job.id,
            mode=claim.mode,
            grace_s=0 if claim.mode == "suspend" else self._rules.grace_s(victim),
            keeps_gpus=self._rules.suspended_keep_gpus,
            sentence=f"makes room for job {job.name} of {job.user}: {claim.because}",
        )
