"""Preemption: chooses running jobs that must leave for a pending one, by QoS, by partition tier, or to
restore a quota.

The victims are chosen in a fixed order. First come jobs that use more than their account's quota. Then come
jobs with the lowest QoS or tier. Among equal jobs, those that lose the least work (started last) come first.
On each node as few jobs as needed are preempted, on the nodes where the least work is lost.

Some jobs are no victims: jobs under a QoS or partition with preempt_mode off, jobs that are already leaving,
and jobs that have not yet run for their exempt time. A job that is guaranteed by a quota is no victim of a
job that would be guaranteed less, regardless of their QoS and tiers (see `guarantees`). Otherwise two jobs
could preempt each other forever.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from warpdeck.model import JobId, PreemptedClaim, Share
from warpdeck.policy.input.decisions import Preempt
from warpdeck.policy.input.settings import PlannerSettings
from warpdeck.policy.input.site import AccountView, PartitionView, QosView, Tres
from warpdeck.policy.input.view import PendingJob, PlannerView, RunningJob
from warpdeck.policy.limits.limits import LimitUsage
from warpdeck.policy.placement.request_class import Placement, RequestClass
from warpdeck.policy.resources.cluster import CPUS, GPUS, Cluster, Ints
from warpdeck.policy.resources.timeline import OVERRUN_S, Timeline
from warpdeck.policy.resources.tres import add

from .guarantees import Guarantees, inside, ranks
from .victims import PreemptionCandidate, VictimSearch, ends_of_victim


class Claim(msgspec.Struct, frozen=True):
    """The right of one job to preempt another, with the reason and the mode."""

    rank: int
    """Victims with a lower rank are preempted first."""
    mode: str
    because: str
    borrowers: tuple[AccountView, ...] = ()
    """For a claim on borrowed resources: the accounts that must exceed their quotas for the claim to hold."""


def may_preempt_at_all(view: PlannerView, settings: PlannerSettings) -> bool:
    """Return whether some job of the site could have the right to preempt another."""
    if settings.preempt_by == "qos" and any(qos.preempts for qos in view.qos):
        return True
    if settings.preempt_by == "partition" and len({part.priority_tier for part in view.partitions}) > 1:
        return True
    return settings.reclaim and any(account.quota for account in view.accounts)


class PreemptionRules:
    """The site's preemption rules, applied to the running jobs."""

    def __init__(
        self, view: PlannerView, now: float, settings: PlannerSettings, limit_usage: LimitUsage
    ) -> None:
        self._now = now
        self._settings = settings
        self._limit_usage = limit_usage
        self._qos: dict[str, QosView] = {qos.name: qos for qos in view.qos}
        self._partitions: dict[str, PartitionView] = {part.name: part for part in view.partitions}
        self.quotas = any(account.quota for account in view.accounts)
        self._by_qos = settings.preempt_by == "qos" and any(qos.preempts for qos in view.qos)
        tiers = {part.priority_tier for part in view.partitions}
        self._lowest_tier = min(tiers, default=1)
        self._by_tier = settings.preempt_by == "partition" and len(tiers) > 1
        self._guarantees = Guarantees(view.running, limit_usage, rank=self._rank)
        self._qos_ranks = ranks(view.qos) if self._by_qos and self.quotas else {}
        self.active = may_preempt_at_all(view, settings)

    def within_quota(self, job: PendingJob, tres: Tres) -> bool:
        """Return whether the job can start within its account's quota, so that it has a guaranteed right to
        resources.
        """
        return self._is_within(self._limit_usage.chain(job.account), tres)

    def _is_within(self, accounts: Iterable[AccountView], tres: Tres) -> bool:
        return any(
            account.quota and inside(account.quota, self._limit_usage.account_use(account.name), tres)
            for account in accounts
        )

    def _unshared_accounts(
        self, one: str, other: str
    ) -> tuple[tuple[AccountView, ...], tuple[AccountView, ...]]:
        """Return the accounts above each of the two accounts that are not above both.

        An account that both share gives neither of them a better right.
        """
        ours, theirs = list(self._limit_usage.chain(one)), list(self._limit_usage.chain(other))
        names = {account.name for account in ours} & {account.name for account in theirs}
        return (
            tuple(account for account in ours if account.name not in names),
            tuple(account for account in theirs if account.name not in names),
        )

    def may_preempt(self, job: PendingJob, tres: Tres) -> bool:
        """Return whether this job has a right to preempt at all."""
        qos = self._qos.get(job.qos)
        return (
            (self._by_qos and qos is not None and bool(qos.preempts))
            or (self._by_tier and self._tier(job.partition) > self._lowest_tier)
            or (self.quotas and self._settings.reclaim and self.within_quota(job, tres))
        )

    def claim(self, job: PendingJob, tres: Tres, victim: RunningJob) -> Claim | None:
        """Return the right of a pending job to preempt a running one, or None."""
        if victim.ending or victim.suspended or self._mode(victim) == "off":
            return None
        qos, own = self._qos.get(victim.qos), self._qos.get(job.qos)
        exempt = max(self._settings.preempt_exempt_s, qos.preempt_exempt_s if qos else 0)
        if self._now - victim.start_at_unix < exempt:
            return None
        if self.quotas and self._settings.reclaim and victim.account != job.account:
            own_accounts, others = self._unshared_accounts(job.account, victim.account)
            borrower = None if self._guarantees.holds(victim, others) else self._borrower(others)
            if borrower is not None and self._is_owed(own_accounts, tres) and self._borrows(borrower, victim):
                because = f"account {borrower.name} borrows beyond its quota, and account {job.account} is within its own"
                return Claim(0, self._mode(victim), because, others)
        if self._is_guaranteed_against(victim, job, tres):
            return None
        if self._by_qos and own is not None and victim.qos in own.preempts:
            rank = 1 + (qos.priority if qos else 0)
            return Claim(rank, self._mode(victim), f"QoS {own.name} preempts QoS {victim.qos}")
        if self._by_tier:
            ours, theirs = self._tier(job.partition), self._tier(victim.partition)
            if ours > theirs:
                because = (
                    f"partition {job.partition} (tier {ours}) goes before {victim.partition} (tier {theirs})"
                )
                return Claim(1 + theirs, self._mode(victim), because)
        return None

    def _is_owed(self, accounts: Iterable[AccountView], tres: Tres) -> bool:
        """Return whether the job would use resources that are guaranteed to these accounts, and would stay
        within the quota.
        """
        return self._is_within([each for each in accounts if any(map(tres.get, each.quota))], tres)

    def _borrows(self, borrower: AccountView, victim: RunningJob) -> bool:
        """Return whether the victim holds resources that the borrower uses beyond its share."""
        use, held = (
            self._limit_usage.account_use(borrower.name),
            self._limit_usage.tres_of(victim, victim.allocation),
        )
        quota = borrower.quota or NO_QUOTA
        return any(held.get(name, 0) and use.get(name, 0) > most for name, most in quota.items())

    def _is_guaranteed_against(self, victim: RunningJob, job: PendingJob, tres: Tres) -> bool:
        """Return whether a quota guarantees the victim, and the job would be guaranteed at a lower level or
        not at all.
        """
        if not (self.quotas and self._settings.reclaim):
            return False
        own = self._guarantees.level_for(job.account, tres, rank=self._rank(job))
        return self._guarantees.level(victim) > own

    @property
    def suspended_keep_gpus(self) -> bool:
        """True if a suspended job keeps its GPUs."""
        return self._settings.suspend_keeps_gpus

    def grace_s(self, victim: RunningJob) -> int:
        """Return the time in seconds that the victim gets to save its work."""
        qos, part = self._qos.get(victim.qos), self._partitions.get(victim.partition)
        return max(qos.grace_s if qos else 0, part.grace_s if part else 0) or self._settings.grace_s

    def frees(self, cluster: Cluster, share: Share, mode: str) -> tuple[Ints, tuple[tuple[int, int], ...]]:
        """Return the resources that preempting a share in this mode frees.

        These are amounts by column, and parts of GPUs as (index, percent).
        """
        amounts = cluster.amounts(share)
        parts: tuple[tuple[int, int], ...] = ()
        if share.gpu_share_pct < 100 and self.frees_gpus(mode):
            parts = tuple((index, share.gpu_share_pct) for index in share.gpus)
        if mode == "suspend":
            kept = amounts.copy()
            amounts[:] = 0
            amounts[CPUS] = kept[CPUS]
            if self.frees_gpus(mode):
                amounts[GPUS:] = kept[GPUS:]
        return amounts, parts

    def frees_gpus(self, mode: str) -> bool:
        """Return whether a victim frees its GPUs in this mode."""
        return mode != "suspend" or not self._settings.suspend_keeps_gpus

    def _mode(self, victim: RunningJob) -> str:
        qos, part = self._qos.get(victim.qos), self._partitions.get(victim.partition)
        mode = (qos.preempt_mode if qos else "") or (part.preempt_mode if part else "")
        mode = mode or self._settings.preempt_mode
        return "cancel" if mode == "requeue" and not victim.requeue else mode

    def _rank(self, job: PendingJob | RunningJob) -> int:
        return self._tier(job.partition) if self._by_tier else self._qos_ranks.get(job.qos, 0)

    def _tier(self, name: str) -> int:
        part = self._partitions.get(name)
        return part.priority_tier if part is not None else 1

    def _borrower(
        self, accounts: Sequence[AccountView], freed: Mapping[str, Tres] = {}
    ) -> AccountView | None:
        """Return the nearest account with a quota if none of these accounts is within its quota; else None.

        If no account has a quota, everything that the nearest account uses counts as borrowed. `freed` holds,
        by account, the amounts that already chosen victims free.
        """
        with_quota = [account for account in accounts if account.quota] or list(accounts[:1])
        for account in with_quota:
            use, less = self._limit_usage.account_use(account.name), freed.get(account.name, {})
            quota = account.quota or NO_QUOTA
            if not any(use.get(name, 0) - less.get(name, 0) > most for name, most in quota.items()):
                return None
        return with_quota[0] if with_quota else None

    def too_many(self, victims: Iterable[RunningJob], claims: Mapping[JobId, Claim]) -> list[RunningJob]:
        """Return the victims that can stay, because the other victims alone bring their accounts back within
        their quotas.
        """
        freed: dict[str, Tres] = {}
        found = []
        for victim in victims:
            borrowers = claims[victim.id].borrowers
            if borrowers and self._borrower(borrowers, freed) is None:
                found.append(victim)
                continue
            held = self._limit_usage.tres_of(victim, victim.allocation)
            for account in self._limit_usage.chain(victim.account):
                add(freed.setdefault(account.name, {}), held)
        return found


NO_QUOTA: Tres = {"gres/gpu": 0}
"""Quota of an account without one: all GPUs that it uses are borrowed."""
MAX_ROUNDS = 8
"""Maximum number of attempts to find victims so that no account falls below its quota."""
CLAIM_KEPT_S = 120.0
"""Seconds after the grace time for which the cleared nodes stay reserved for the preempting job. The victims
need it for SIGKILL, epilogs and freeing GPU memory. A job that cannot start by then for another reason loses
its precedence on these nodes.
"""
Found = tuple[Placement, list[Preempt]]
Claimant = tuple[object, ...]


def claimant(job: PendingJob, *, exclusivity_key: str | None) -> Claimant:
    """Return a key that is equal for jobs that may preempt the same jobs for the same request.

    For `exclusivity_key`, see `RequestClassTable.exclusivity_key`.
    """
    return (
        id(job.resources),
        job.partition,
        job.reservation,
        job.account,
        job.qos,
        job.time_limit_s,
        job.unlimited,
        exclusivity_key,
    )


class Preemption:
    """Finds victims for one pending job."""

    def __init__(
        self, rules: PreemptionRules, timeline: Timeline, running: Iterable[RunningJob], now: float
    ) -> None:
        self._rules = rules
        self._timeline = timeline
        self._running = list(running)
        self._now = now
        self._preempted: set[JobId] = set()

    def find(
        self,
        job: PendingJob,
        tres: Tres,
        request_class: RequestClass,
        duration_s: float,
        *,
        granted: Callable[[Placement], Tres],
    ) -> Found | None:
        """Return a placement for the job and the jobs that must leave for it; None if preemption would not
        help.

        `tres` is the requested amount. `granted` returns the amount that the job would get on a placement. It
        may be more with whole nodes.
        """
        claims: dict[JobId, Claim] = {}
        for victim in self._running:
            if victim.id not in self._preempted:
                claim = self._rules.claim(job, tres, victim)
                if claim is not None:
                    claims[victim.id] = claim
        for _ in range(MAX_ROUNDS):
            found = self._among(job, request_class, duration_s, claims) if claims else None
            if found is None:
                return None
            chosen = [victim for victim in self._running if victim.id in found[1]]
            chosen.sort(key=lambda victim: (-victim.start_at_unix, victim.id))
            spared = self._without_claim(job, granted(found[0]), chosen, claims)
            spared = spared or self._rules.too_many(chosen, claims)
            if not spared:
                return found[0], self._orders(job, found[0], chosen, claims)
            for victim in spared:
                del claims[victim.id]
        return None

    def _without_claim(
        self, job: PendingJob, granted: Tres, chosen: Iterable[RunningJob], claims: dict[JobId, Claim]
    ) -> list[RunningJob]:
        """Return the victims on which a job with these amounts has no claim. Update the claims on the other
        victims.
        """
        spared = []
        for victim in chosen:
            claim = self._rules.claim(job, granted, victim)
            if claim is None:
                spared.append(victim)
            else:
                claims[victim.id] = claim
        return spared

    def vacate(self, preempts: Iterable[Preempt], *, back: bool = False) -> None:
        """Treat the jobs of these preemptions as gone while a placement is tried, so that no other job can
        preempt them. `back` undoes it.
        """
        modes, timeline = {each.job_id: each.mode for each in preempts}, self._timeline
        (self._preempted.difference_update if back else self._preempted.update)(modes)
        for victim in self._running:
            for share in victim.allocation.shares if victim.id in modes else ():
                row = timeline.cluster.row.get(share.node)
                if row is not None:
                    amounts, _ = self._rules.frees(timeline.cluster, share, modes[victim.id])
                    ends = max(ends_of_victim(victim, self._now), self._now + OVERRUN_S)
                    timeline.take(row, self._now, ends, amounts if back else -amounts)

    def record(self, preempts: Iterable[Preempt]) -> None:
        """Record these preemptions, so that no other job can preempt the same jobs.

        Parts of shared GPUs that these jobs hold are counted until the end of their grace time.
        """
        modes = {each.job_id: each for each in preempts}
        self._preempted.update(modes)
        timeline = self._timeline
        for victim in self._running:
            order = modes.get(victim.id)
            if order is None or not self._rules.frees_gpus(order.mode):
                continue
            gone_at = self._now + order.grace_s
            sharer_ends = ends_of_victim(victim, self._now)
            for share in victim.allocation.shares:
                row = timeline.cluster.row.get(share.node, -1)
                for index in share.gpus if share.gpu_share_pct < 100 else ():
                    gpu = timeline.shared.get(row, {}).get(index)
                    if gpu is not None:
                        change = partial(gpu.cut_short, (sharer_ends, share.gpu_share_pct), gone_at)
                        timeline.reshare(row, gpu, change, times_unix=(gone_at,))

    def _among(
        self, job: PendingJob, request_class: RequestClass, duration_s: float, claims: Mapping[JobId, Claim]
    ) -> tuple[Placement, set[JobId]] | None:
        victims = [victim for victim in self._running if victim.id in claims]
        victims.sort(key=lambda victim: (claims[victim.id].rank, -victim.start_at_unix, victim.id))
        candidates = self._candidates_by_row(victims, claims)
        for mask in request_class.masks:
            search = VictimSearch(self._timeline, mask, duration_s, candidates, lost_work=self._lost_work)
            for gang in request_class.gangs:
                found = search.find(gang)
                if found is not None:
                    return found
        return None

    def _candidates_by_row(
        self, victims: Sequence[RunningJob], claims: Mapping[JobId, Claim]
    ) -> dict[int, list[PreemptionCandidate]]:
        cluster = self._timeline.cluster
        found: dict[int, list[PreemptionCandidate]] = {}
        for victim in victims:
            for share in victim.allocation.shares:
                row = cluster.row.get(share.node)
                if row is not None:
                    mode = claims[victim.id].mode
                    amounts, parts = self._rules.frees(cluster, share, mode)
                    found.setdefault(row, []).append(
                        PreemptionCandidate(victim, amounts, parts, mode != "suspend")
                    )
        return found

    def _lost_work(self, victims: Iterable[RunningJob]) -> float:
        return sum(
            (self._now - victim.start_at_unix) * max(1, victim.allocation.gpu_count()) for victim in victims
        )

    def _orders(
        self,
        job: PendingJob,
        placement: Placement,
        chosen: Sequence[RunningJob],
        claims: Mapping[JobId, Claim],
    ) -> list[Preempt]:
        """Return the preemption of each chosen job. Each contains the nodes that are kept for the preempting
        job until it starts.
        """
        graces_s = [
            0 if claims[victim.id].mode == "suspend" else self._rules.grace_s(victim) for victim in chosen
        ]
        nodes = tuple(self._timeline.cluster.nodes[row].name for row, _ in placement)
        claim = PreemptedClaim(nodes=nodes, until_unix=self._now + max(graces_s) + CLAIM_KEPT_S)
        return [
            Preempt(
                job_id=victim.id,
                for_job_id=job.id,
                mode=claims[victim.id].mode,
                grace_s=grace_s,
                keeps_gpus=self._rules.suspended_keep_gpus,
                preempted_claim=claim,
                sentence=f"resources needed by job {job.name} of {job.user}: {claims[victim.id].because}",
            )
            for victim, grace_s in zip(chosen, graces_s, strict=True)
        ]
