"""Limits of QoS and associations: current usage, and whether one more job would exceed a limit.

Source: slurm.schedmd.com/resource_limits.html. The QoS of the partition is checked first, then the QoS of the
job, unless the latter has OverPartQOS. The user's association and its accounts up to the root follow.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec

from warpdeck.model import Allocation
from warpdeck.policy.input.settings import PlannerSettings
from warpdeck.policy.input.site import AccountView, Limits, QosView, Tres
from warpdeck.policy.input.view import PendingJob, PlannerView, RunningJob
from warpdeck.policy.resources.tres import WALL, add, held_per_node, over, tres_text

from .inherited import effective
from .reason_codes import JOBS_CODES, reason_code
from .usage_by_scope import Scope, Scopes, ScopeUsage, UsageByScope

NO_LIMITS = Limits()
Savepoint = tuple[dict[Scope, ScopeUsage], dict[str, int], dict[str, dict[str, int]]]
"""Saved state of a `LimitUsage`: its usage, free licenses, and unused licenses of reservations."""


class Blocked(msgspec.Struct, frozen=True):
    """A limit that prevents a start: Slurm's reason code and a sentence."""

    code: str
    sentence: str


class LimitUsage:
    """Usage counted against limits during a pass, by scope: running jobs, and jobs that the pass starts.

    `usage_by_scope` must belong to the same view.
    """

    def __init__(
        self,
        view: PlannerView,
        now: float,
        settings: PlannerSettings,
        usage_by_scope: UsageByScope | None = None,
    ) -> None:
        self._settings = settings
        self._now = now
        self._scopes = Scopes(view)
        self._users = {(user.account, user.user): user for user in view.users}
        self._running = view.running
        self._started: dict[Scope, ScopeUsage] = {}
        """The scopes under which this pass started jobs, with their usage."""
        self.limits_anything = bool(view.qos or view.accounts or view.users)
        tables = [qos.limits for qos in view.qos] + [account.limits for account in view.accounts]
        tables += [user.limits for user in view.users]
        self.limits_nodes = any(limits.max_tres_per_node for limits in tables)
        self._counted_unix = view.counted_unix
        self._usage_by_scope = (
            UsageByScope(settings.billing_weights) if usage_by_scope is None else usage_by_scope
        )
        if self.limits_anything:
            self._usage_by_scope.follow(view, self._scopes)
        self._levels: dict[tuple[str, str], list[_Level]] = {}
        self._licenses = dict(view.licenses)
        for job in view.running if view.licenses else ():
            for name, count in job.licenses:
                self._licenses[name] = self._licenses.get(name, 0) - count
        self._claims = [each for each in view.reservations if each.licenses and each.end_unix > now]
        self._unused = {each.name: dict(each.licenses) for each in self._claims}
        """For each reservation, the licenses that its jobs have not taken."""
        for job in view.running if self._claims else ():
            self._use_claim(job)

    @cached_property
    def _committed_minutes(self) -> dict[Scope, dict[str, float]]:
        """TRES-minutes that running jobs may still use, for the scopes that limit them."""
        limited: set[Scope] = {
            ("qos", qos.name) for qos in self._scopes.qos.values() if _limits_minutes(qos.limits)
        }
        accounts = self._scopes.accounts.values()
        limited |= {("account", each.name) for each in accounts if _limits_minutes(each.limits)}
        limited |= {("user", *key) for key, user in self._users.items() if _limits_minutes(user.limits)}
        found: dict[Scope, dict[str, float]] = {scope: {} for scope in limited}
        # Sorted by id: the result of a float sum depends on its order, but the plan must not.
        for job in sorted(self._running, key=lambda job: job.id) if limited else ():
            minutes = self._minutes(job.qos, left_s(job, self._now, counted_unix=self._counted_unix))
            tres, scopes = self._usage_by_scope.of(job)
            for scope in scopes:
                if scope in limited:
                    add_minutes(found[scope], tres, minutes)
        return found

    def _minutes(self, qos: str, limit_s: float | None) -> float:
        """Return the minutes that a job may use, multiplied by the usage factor of its QoS. Infinite without
        a time limit.
        """
        own = self._scopes.qos.get(qos)
        factor = 1.0 if own is None else own.usage_factor
        return _minutes(limit_s) * factor if factor else 0.0

    def tres_of(self, job: RunningJob | PendingJob, allocation: Allocation) -> Tres:
        """Return the TRES that a job holds with this allocation; {} if nothing is limited."""
        if not self.limits_anything:
            return {}
        found = self._usage_by_scope.held_by(allocation)
        for name, count in job.licenses:
            found[f"license/{name}"] = count
        return found

    def lifts_partition(self, qos: str) -> bool:
        """Return whether the QoS overrides the limits of partitions."""
        own = self._scopes.qos.get(qos)
        return own is not None and own.overrides_partition

    def take(self, job: PendingJob, tres: Tres, limit_s: float | None) -> None:
        """Count the resources and licenses of a job that starts."""
        for name, count in job.licenses:
            self._licenses[name] = self._licenses.get(name, 0) - count
        self._use_claim(job)
        if self.limits_anything:
            self._take(job, tres, self._minutes(job.qos, limit_s))

    def _use_claim(self, job: RunningJob | PendingJob) -> None:
        """Subtract the job's licenses from those of its reservation."""
        own = self._unused.get(job.reservation, {})
        for name, count in job.licenses if own else ():
            if name in own:
                own[name] = max(0, own[name] - count)

    def _claimed(self, name: str, job: PendingJob, limit_s: float | None) -> int:
        """Return how many licenses of this name other reservations hold while the job would run."""
        ends = math.inf if limit_s is None else self._now + limit_s
        return sum(
            self._unused[each.name].get(name, 0)
            for each in self._claims
            if each.name != job.reservation and each.start_unix < ends
        )

    def savepoint(self) -> Savepoint:
        """Return a savepoint of the usage, for `rollback`."""
        started = {scope: use.copy() for scope, use in self._started.items()}
        return started, dict(self._licenses), {name: dict(left) for name, left in self._unused.items()}

    def rollback(self, savepoint: Savepoint) -> None:
        """Restore the usage to a savepoint."""
        self._started, self._licenses, self._unused = savepoint

    def per_node_of(self, allocation: Allocation) -> Tres:
        """Return the largest amounts that a job holds on any node with this allocation."""
        return held_per_node(allocation, self._usage_by_scope.types) if self.limits_nodes else {}

    def most_per_node(self, job: PendingJob) -> Tres:
        """Return the maximum that the job may use of one node, by all limits together; {} without limits per
        node.
        """
        if not (self.limits_nodes and self._settings.enforce_limits):
            return {}
        tables = [qos.limits for qos in self._scopes.qos_of(job.qos, job.partition)]
        tables += [level.limits for level in self._levels_of(job.account, job.user)]
        found: Tres = {}
        for limits in tables:
            for name, most in limits.max_tres_per_node.items():
                found[name] = min(most, found.get(name, most))
        return found

    def check(self, job: PendingJob, tres: Tres, limit_s: float | None, *, per_node: Tres) -> Blocked | None:
        """Return the first limit that keeps the job from starting now, or None.

        `per_node` holds, for each TRES, the largest amount that the job takes of one node.
        """
        for name, count in job.licenses:
            left = self._licenses.get(name, 0) - (self._claimed(name, job, limit_s) if self._claims else 0)
            if count > left:
                return Blocked("Licenses", f"needs {count} licenses of {name}; {max(0, left)} are free")
        if not (self.limits_anything and self._settings.enforce_limits):
            return None
        wants = _Wants(tres, per_node, limit_s, self._minutes(job.qos, limit_s))
        for qos in self._scopes.qos_of(job.qos, job.partition):
            blocked = self._check_qos(qos, job, wants)
            if blocked is not None:
                return blocked
        return self._check_association(job, wants)

    def account_use(self, account: str) -> Tres:
        """Return the current usage of an account and the accounts below it."""
        return self._at(("account", account)).tres

    def chain(self, account: str) -> Iterator[AccountView]:
        """Return the account and its parents, nearest first."""
        return self._scopes.chain(account)

    def _at(self, scope: Scope) -> ScopeUsage:
        return self._started.get(scope) or self._usage_by_scope.at(scope)

    def _minutes_at(self, scope: Scope) -> dict[str, float]:
        started = self._started.get(scope)
        return self._committed_minutes.get(scope, {}) if started is None else started.minutes

    def _take(self, job: PendingJob, tres: Tres, minutes: float) -> None:
        for scope in self._scopes.of(job.user, job.account, job.qos, job.partition):
            use = self._started.get(scope)
            if use is None:
                before = self._usage_by_scope.at(scope)
                use = self._started[scope] = ScopeUsage(before.jobs, dict(before.tres))
                use.minutes = dict(self._committed_minutes.get(scope, {}))
            use.jobs += 1
            add(use.tres, tres)
            add_minutes(use.minutes, tres, minutes)

    def _check_qos(self, qos: QosView, job: PendingJob, wants: _Wants) -> Blocked | None:
        limits, subject = qos.limits, f"QoS {qos.name}"
        own_scopes = {
            "user": ("qos", qos.name, "user", job.user),
            "account": ("qos", qos.name, "account", job.account),
        }
        return (
            _per_job(limits, wants, prefix="QOS", subject=subject)
            or self._group(limits, ("qos", qos.name), wants, qos.usage, prefix="QOS", subject=subject)
            or self._each(limits, own_scopes, wants, prefix="QOS", subject=subject)
        )

    def _check_association(self, job: PendingJob, wants: _Wants) -> Blocked | None:
        own_scopes = {"user": ("user", job.account, job.user)}
        for limits, scope, used, subject in self._levels_of(job.account, job.user):
            blocked = (
                _per_job(limits, wants, prefix="Assoc", subject=subject)
                or self._group(limits, scope, wants, used, prefix="Assoc", subject=subject)
                or self._each(limits, own_scopes, wants, prefix="Assoc", subject=subject)
            )
            if blocked is not None:
                return blocked
        return None

    def _levels_of(self, account: str, user: str) -> list[_Level]:
        """Return the limits in force for the user's association, the account and its parents, nearest first.

        Levels without effective limits are left out.
        """
        found = self._levels.get((account, user))
        if found is None:
            own = self._users.get((account, user))
            above = list(self._scopes.chain(account))
            levels = [
                _Level(each.limits, ("account", each.name), each.tres_usage, f"account {each.name}")
                for each in above
            ]
            if own is not None:
                subject = f"user {user} in account {account}"
                levels.insert(0, _Level(own.limits, ("user", account, user), own.tres_usage, subject))
            holds = effective(level.limits for level in levels)
            found = [
                level._replace(limits=limits)
                for level, limits in zip(levels, holds, strict=True)
                if limits != NO_LIMITS
            ]
            self._levels[account, user] = found
        return found

    def _each(
        self, limits: Limits, own_scopes: Mapping[str, Scope], wants: _Wants, *, prefix: str, subject: str
    ) -> Blocked | None:
        """Check the limits on each user and each account. `own_scopes` maps "user" and "account" to the scope in
        which the job is counted.
        """
        tables = {
            "user": (limits.max_tres_per_user, limits.max_jobs_per_user),
            "account": (limits.max_tres_per_account, limits.max_jobs_per_account),
        }
        for kind, scope in own_scopes.items():
            (most, jobs), use, name = tables[kind], self._at(scope), f"{kind} {scope[-1]}"
            limited = subject if subject.startswith(name) else f"{subject} for {name}"
            over_limit = over(most, use.tres, wants.tres)
            if over_limit:
                code = reason_code(
                    prefix, f"Per{kind.capitalize()}" if prefix == "QOS" else "Grp", over_limit
                )
                return Blocked(code, _limit_text(limited, most[over_limit], over_limit, use.tres, wants.tres))
            if jobs is not None and use.jobs >= jobs:
                return Blocked(JOBS_CODES[prefix, kind], _jobs_text(limited, jobs, use.jobs))
        return None

    def _group(
        self,
        limits: Limits,
        scope: tuple[str, ...],
        wants: _Wants,
        usage: dict[str, float],
        *,
        prefix: str,
        subject: str,
    ) -> Blocked | None:
        use, tres = self._at(scope), wants.tres
        kind = over(limits.grp_tres, use.tres, tres)
        if kind:
            return Blocked(
                reason_code(prefix, "Grp", kind),
                _limit_text(subject, limits.grp_tres[kind], kind, use.tres, tres),
            )
        if limits.grp_jobs is not None and use.jobs >= limits.grp_jobs:
            return Blocked(f"{prefix}GrpJobsLimit", _jobs_text(subject, limits.grp_jobs, use.jobs))
        minutes = self._minutes_at(scope) if _limits_minutes(limits) else {}
        if limits.grp_wall_s is not None:
            used = usage.get(WALL, 0.0) / 60 + minutes.get(WALL, 0.0)
            if used + wants.minutes > limits.grp_wall_s / 60:
                budget = _Budget(limits.grp_wall_s / 60, "minutes of running jobs", used, wants.minutes)
                return Blocked(f"{prefix}GrpWallLimit", budget.sentence(subject))
        return _group_minutes(limits, minutes, wants, usage, prefix=prefix, subject=subject)


def _group_minutes(
    limits: Limits,
    minutes: Mapping[str, float],
    wants: _Wants,
    usage: Mapping[str, float],
    *,
    prefix: str,
    subject: str,
) -> Blocked | None:
    """Check limits on TRES-minutes: on the sum of past and committed use (GrpTRESMins), and on committed use
    alone (GrpTRESRunMins).
    """
    nothing: Mapping[str, float] = {}
    for what, table, recorded in (
        ("GrpMinutes", limits.grp_tres_mins, usage),
        ("GrpRunMinutes", limits.grp_tres_run_mins, nothing),
    ):
        for name in sorted(table):
            used = recorded.get(name, 0.0) / 60 + minutes.get(name, 0.0)
            more = wants.tres_minutes(name, wants.minutes)
            if more and used + more > table[name]:
                budget = _Budget(table[name], f"minutes of {tres_text(name)}", used, more)
                return Blocked(reason_code(prefix, what, name), budget.sentence(subject))
    return None


class _Level(NamedTuple):
    """One level of associations: the limits in force, the scope in which jobs are counted, past usage, and a
    name for messages.
    """

    limits: Limits
    scope: Scope
    used: dict[str, float]
    subject: str


class _Wants(NamedTuple):
    """Demand of a job: the TRES in total, the most on one node, the time limit, and the minutes weighted by
    its QoS.
    """

    tres: Tres
    per_node: Tres
    limit_s: float | None
    minutes: float

    def tres_minutes(self, name: str, minutes: float) -> float:
        count = self.tres.get(name, 0)
        return count * minutes if count else 0.0


class _Budget(NamedTuple):
    """A budget of minutes that a job would exceed."""

    most: float
    what: str
    used: float
    more: float

    def sentence(self, subject: str) -> str:
        return (
            f"limit of {subject}: {self.most:,.0f} {self.what}; {_count(self.used)} are used or reserved by running jobs, "
            f"and this job may need {_count(self.more)}"
        )


def _per_job(limits: Limits, wants: _Wants, *, prefix: str, subject: str) -> Blocked | None:
    """Check limits on single jobs. A job that exceeds one of these limits can never start unchanged."""
    tres, limit_s = wants.tres, wants.limit_s
    kind = over(limits.max_tres_per_job, {}, tres)
    if kind:
        return Blocked(
            reason_code(prefix, "PerJob", kind),
            f"limit of {subject}: {limits.max_tres_per_job[kind]} {tres_text(kind)} per job; this job requests {tres[kind]}",
        )
    kind = over(limits.max_tres_per_node, {}, wants.per_node)
    if kind:
        most, requested = limits.max_tres_per_node[kind], wants.per_node[kind]
        return Blocked(
            reason_code(prefix, "PerNode", kind),
            f"limit of {subject}: {most} {tres_text(kind)} per node; this job requests {requested}",
        )
    for name in sorted(limits.min_tres_per_job):
        least = limits.min_tres_per_job[name]
        if tres.get(name, 0) < least:
            return Blocked(
                reason_code(prefix, "Min", name),
                f"{subject} requires at least {least} {tres_text(name)} per job",
            )
    if limits.max_wall_s is not None and (limit_s is None or limit_s > limits.max_wall_s):
        code = "QOSMaxWallDurationPerJobLimit" if prefix == "QOS" else "AssocMaxWallDurationPerJobLimit"
        return Blocked(
            code,
            f"limit of {subject}: {limits.max_wall_s // 60} minutes per job; request at most that with --time",
        )
    return _minutes_per_job(limits, wants, prefix=prefix, subject=subject)


def _minutes_per_job(limits: Limits, wants: _Wants, *, prefix: str, subject: str) -> Blocked | None:
    for name in sorted(limits.max_tres_mins_per_job):
        most = limits.max_tres_mins_per_job[name]
        more = wants.tres_minutes(name, _minutes(wants.limit_s))
        if more > most:
            return Blocked(
                reason_code(prefix, "MinutesPerJob", name),
                f"limit of {subject}: {most:,} minutes of {tres_text(name)} per job; this job may need {_count(more)}",
            )
    return None


def left_s(job: RunningJob, now: float, *, counted_unix: float | None) -> float | None:
    """Return for how many more seconds a running job may use its resources; None if it has no limit.

    Recorded usage covers only the time up to the last count. The time since then is included here; otherwise
    it would be lost.
    """
    if job.ends_by_unix is None:
        return None
    counted = now if counted_unix is None else min(now, counted_unix)
    return max(0.0, job.ends_by_unix - max(counted, min(job.start_at_unix, now)))


def _limits_minutes(limits: Limits) -> bool:
    return bool(limits.grp_tres_mins or limits.grp_tres_run_mins) or limits.grp_wall_s is not None


def add_minutes(into: dict[str, float], tres: Tres, minutes: float) -> None:
    """Add the usage of these TRES over some minutes, by TRES, and the wall time itself."""
    into[WALL] = into.get(WALL, 0.0) + minutes
    for name, count in tres.items():
        if count:
            into[name] = into.get(name, 0.0) + count * minutes


def _minutes(limit_s: float | None) -> float:
    """Return the limit in minutes; infinite without a limit."""
    return float("inf") if limit_s is None else limit_s / 60


def _count(minutes: float) -> str:
    return f"{minutes:,.0f}" if minutes < float("inf") else "any number, as it has no --time"


def _jobs_text(subject: str, most: int, running: int) -> str:
    return f"limit of {subject}: {most} running jobs; {running} are running"


def _limit_text(subject: str, limit: int, kind: str, used: Tres, more: Tres) -> str:
    return f"limit of {subject}: {limit} {tres_text(kind)}; {used.get(kind, 0)} are in use and this job needs {more[kind]}"
