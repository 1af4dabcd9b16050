"""Who must leave so that another may start: by QoS, by partition tier, or to give an account back its quota. Pure.

Victims, worst claim first: those who borrow beyond their account's quota, then lowest QoS or tier, then those that lose
least work (started last). Whose place a quota guarantees is no victim of one whose would not be guaranteed as well, whatever
their QoS and tiers (`guarantees`): they would go in circles. A QoS or partition with preempt_mode off gives up nobody. On each node as
few as meet the need; nodes on which least work is lost. A job that has not yet run for its exempt time, or is leaving
already, is no victim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from warpdeck.model import JobId, Room, Share
from warpdeck.policy.input.decisions import Preempt
from warpdeck.policy.input.settings import Settings
from warpdeck.policy.input.site import AccountView, PartitionView, QosView, Tres
from warpdeck.policy.input.view import PendingJob, RunningJob, View
from warpdeck.policy.limits.limits import Ledger
from warpdeck.policy.placement.request_shape import Shape, Spot
from warpdeck.policy.resources.cluster import CPUS, GPUS, Cluster, Ints
from warpdeck.policy.resources.timeline import OVERDUE_S, Timeline
from warpdeck.policy.resources.tres import add

from .guarantees import Guarantees, inside, ranks
from .victims import Clearing, Give, ends_of_victim


class Claim(msgspec.Struct, frozen=True):
    """Why one job may push another aside, and how."""

    rank: int
    """Lower is pushed first."""
    mode: str
    because: str
    borrowers: tuple[AccountView, ...] = ()
    """Of a claim on what is borrowed: the accounts that must borrow for it to hold."""


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
        self._guarantees = Guarantees(view.running, ledger, rank=self._rank)
        self._qos_ranks = ranks(view.qos) if self._by_qos and self.quotas else {}
        self.active = self._by_qos or self._by_tier or (self.quotas and settings.reclaim)

    def within_quota(self, job: PendingJob, tres: Tres) -> bool:
        """Whether the job can start without its account borrowing: it has a guaranteed right to resources."""
        return self._is_within(self._ledger.chain(job.account), tres)

    def _is_within(self, accounts: Iterable[AccountView], tres: Tres) -> bool:
        return any(
            account.quota and inside(account.quota, self._ledger.account_use(account.name), tres)
            for account in accounts
        )

    def _apart(self, one: str, other: str) -> tuple[tuple[AccountView, ...], tuple[AccountView, ...]]:
        """The accounts above each that are not above the other too: what both share gives neither a better right."""
        ours, theirs = list(self._ledger.chain(one)), list(self._ledger.chain(other))
        names = {account.name for account in ours} & {account.name for account in theirs}
        return (
            tuple(account for account in ours if account.name not in names),
            tuple(account for account in theirs if account.name not in names),
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
        if victim.ending or victim.suspended or self._mode(victim) == "off":
            return None
        qos, own = self._qos.get(victim.qos), self._qos.get(job.qos)
        exempt = max(self._settings.preempt_exempt_s, qos.preempt_exempt_s if qos else 0)
        if self._now - victim.start_at_unix < exempt:
            return None
        if self.quotas and self._settings.reclaim and victim.account != job.account:
            own_accounts, others = self._apart(job.account, victim.account)
            borrower = None if self._guarantees.holds(victim, others) else self._borrower(others)
            if borrower is not None and self._is_owed(own_accounts, tres) and self._borrows(borrower, victim):
                why = f"account {borrower.name} borrows beyond its quota, and account {job.account} is within its own"
                return Claim(0, self._mode(victim), why, others)
        if self._is_guaranteed_against(victim, job, tres):
            return None
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

    def _is_owed(self, accounts: Iterable[AccountView], tres: Tres) -> bool:
        """Whether such a job would have some of what is guaranteed to these, and would stay within it."""
        return self._is_within([each for each in accounts if any(map(tres.get, each.quota))], tres)

    def _borrows(self, borrower: AccountView, victim: RunningJob) -> bool:
        """Whether the victim holds some of what its account has too much of."""
        use, held = (
            self._ledger.account_use(borrower.name),
            self._ledger.tres_of(victim, victim.allocation),
        )
        quota = borrower.quota or NO_QUOTA
        return any(held.get(name, 0) and use.get(name, 0) > most for name, most in quota.items())

    def _is_guaranteed_against(self, victim: RunningJob, job: PendingJob, tres: Tres) -> bool:
        """Whether the victim's place is guaranteed to it by a quota, and the job's would not be, or less so."""
        if not (self.quotas and self._settings.reclaim):
            return False
        own = self._guarantees.level_for(job.account, tres, rank=self._rank(job))
        return self._guarantees.level(victim) > own

    @property
    def suspended_keep_gpus(self) -> bool:
        """Whether a suspended job keeps its GPUs."""
        return self._settings.suspend_keeps_gpus

    def grace_s(self, victim: RunningJob) -> int:
        """How long it has to save its work."""
        qos, part = self._qos.get(victim.qos), self._partitions.get(victim.partition)
        return max(qos.grace_s if qos else 0, part.grace_s if part else 0) or self._settings.grace_s

    def frees(self, cluster: Cluster, share: Share, mode: str) -> tuple[Ints, tuple[tuple[int, int], ...]]:
        """What a victim's share gives back in that mode: amounts by column, and parts of GPUs as (index, percent)."""
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
        """Whether a victim gives its GPUs back in that mode."""
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
        self, accounts: Sequence[AccountView], given_back: Mapping[str, Tres] = {}
    ) -> AccountView | None:
        """The nearest account, if none of these is within its quota. Without any quota all that they use is borrowed.

        `given_back` is what victims that were chosen already free, by account.
        """
        with_quota = [account for account in accounts if account.quota] or list(accounts[:1])
        for account in with_quota:
            use, less = self._ledger.account_use(account.name), given_back.get(account.name, {})
            quota = account.quota or NO_QUOTA
            if not any(use.get(name, 0) - less.get(name, 0) > most for name, most in quota.items()):
                return None
        return with_quota[0] if with_quota else None

    def too_many(self, victims: Iterable[RunningJob], claims: Mapping[JobId, Claim]) -> list[RunningJob]:
        """Those of the victims without whom the others alone bring their accounts back to their quotas."""
        given_back: dict[str, Tres] = {}
        found = []
        for victim in victims:
            borrowers = claims[victim.id].borrowers
            if borrowers and self._borrower(borrowers, given_back) is None:
                found.append(victim)
                continue
            held = self._ledger.tres_of(victim, victim.allocation)
            for account in self._ledger.chain(victim.account):
                add(given_back.setdefault(account.name, {}), held)
        return found


NO_QUOTA: Tres = {"gres/gpu": 0}
"""Of an account without one: all GPUs that it uses are borrowed."""
MAX_ROUNDS = 8
"""Tries to find victims so that no account is pushed below its quota."""
ROOM_KEPT_S = 120.0
"""How long those who leave may take beyond their grace time until others may have what is cleared: KILL, epilogs, the
emptying of GPUs. A job that cannot start by then for another reason has no more right to it than anybody."""
Found = tuple[Spot, list[Preempt]]
Claimant = tuple[object, ...]


def claimant(job: PendingJob, *, tenant: str | None) -> Claimant:
    """What jobs have in common that may push the same others aside for the same request. `tenant`: Ground.tenant_of."""
    return (
        id(job.resources),
        job.partition,
        job.reservation,
        job.account,
        job.qos,
        job.time_limit_s,
        job.unlimited,
        tenant,
    )


class Preemption:
    """Finds victims for one waiting job."""

    def __init__(self, rules: Rules, timeline: Timeline, running: Iterable[RunningJob], now: float) -> None:
        self._rules = rules
        self._timeline = timeline
        self._running = list(running)
        self._now = now
        self._told: set[JobId] = set()

    def find(
        self, job: PendingJob, tres: Tres, shape: Shape, duration_s: float, *, given: Callable[[Spot], Tres]
    ) -> Found | None:
        """Where the job can go and who must leave for it; None if nobody it may push aside would help.

        `tres` is what it asks for, `given` what it would have somewhere: whole nodes may be more.
        """
        claims: dict[JobId, Claim] = {}
        for victim in self._running:
            if victim.id not in self._told:
                claim = self._rules.claim(job, tres, victim)
                if claim is not None:
                    claims[victim.id] = claim
        for _ in range(MAX_ROUNDS):
            found = self._among(job, shape, duration_s, claims) if claims else None
            if found is None:
                return None
            chosen = [victim for victim in self._running if victim.id in found[1]]
            chosen.sort(key=lambda victim: (-victim.start_at_unix, victim.id))
            spared = self._without_claim(job, given(found[0]), chosen, claims)
            spared = spared or self._rules.too_many(chosen, claims)
            if not spared:
                return found[0], self._orders(job, found[0], chosen, claims)
            for victim in spared:
                del claims[victim.id]
        return None

    def _without_claim(
        self, job: PendingJob, given: Tres, chosen: Iterable[RunningJob], claims: dict[JobId, Claim]
    ) -> list[RunningJob]:
        """Those who need not leave for a job that is given so much; the claims on the others are as they are then."""
        spared = []
        for victim in chosen:
            claim = self._rules.claim(job, given, victim)
            if claim is None:
                spared.append(victim)
            else:
                claims[victim.id] = claim
        return spared

    def vacate(self, told: Iterable[Preempt], *, back: bool = False) -> None:
        """For a try these have left, and nobody else can have them leave; or they come back."""
        modes, timeline = {each.job_id: each.mode for each in told}, self._timeline
        (self._told.difference_update if back else self._told.update)(modes)
        for victim in self._running:
            for share in victim.allocation.shares if victim.id in modes else ():
                row = timeline.cluster.row.get(share.node)
                if row is not None:
                    amounts, _ = self._rules.frees(timeline.cluster, share, modes[victim.id])
                    ends = max(ends_of_victim(victim, self._now), self._now + OVERDUE_S)
                    timeline.take(row, self._now, ends, amounts if back else -amounts)

    def tell(self, told: Iterable[Preempt]) -> None:
        """These leave: nobody else can have them leave, and their parts of GPUs are counted until the end of their grace."""
        modes = {each.job_id: each for each in told}
        self._told.update(modes)
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
                        timeline.reshare(row, gpu, change, moments=(gone_at,))

    def _among(
        self, job: PendingJob, shape: Shape, duration_s: float, claims: Mapping[JobId, Claim]
    ) -> tuple[Spot, set[JobId]] | None:
        victims = [victim for victim in self._running if victim.id in claims]
        victims.sort(key=lambda victim: (claims[victim.id].rank, -victim.start_at_unix, victim.id))
        gives = self._gives(victims, claims)
        for mask in shape.masks:
            clearing = Clearing(self._timeline, mask, duration_s, gives, lost_work=self._lost_work)
            for gang in shape.gangs:
                found = clearing.find(gang)
                if found is not None:
                    return found
        return None

    def _gives(self, victims: Sequence[RunningJob], claims: Mapping[JobId, Claim]) -> dict[int, list[Give]]:
        cluster = self._timeline.cluster
        found: dict[int, list[Give]] = {}
        for victim in victims:
            for share in victim.allocation.shares:
                row = cluster.row.get(share.node)
                if row is not None:
                    mode = claims[victim.id].mode
                    amounts, parts = self._rules.frees(cluster, share, mode)
                    found.setdefault(row, []).append(Give(victim, amounts, parts, mode != "suspend"))
        return found

    def _lost_work(self, victims: Iterable[RunningJob]) -> float:
        return sum(
            (self._now - victim.start_at_unix) * max(1, victim.allocation.gpu_count()) for victim in victims
        )

    def _orders(
        self, job: PendingJob, spot: Spot, chosen: Sequence[RunningJob], claims: Mapping[JobId, Claim]
    ) -> list[Preempt]:
        """To leave, and to leave the room to the job."""
        graces_s = [
            0 if claims[victim.id].mode == "suspend" else self._rules.grace_s(victim) for victim in chosen
        ]
        nodes = tuple(self._timeline.cluster.nodes[row].name for row, _ in spot)
        room = Room(nodes=nodes, until_unix=self._now + max(graces_s) + ROOM_KEPT_S)
        return [
            Preempt(
                job_id=victim.id,
                for_job_id=job.id,
                mode=claims[victim.id].mode,
                grace_s=grace_s,
                keeps_gpus=self._rules.suspended_keep_gpus,
                room=room,
                sentence=f"makes room for job {job.name} of {job.user}: {claims[victim.id].because}",
            )
            for victim, grace_s in zip(chosen, graces_s, strict=True)
        ]
