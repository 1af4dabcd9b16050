"""Account for resource usage, decayed to the present, for fairshare and for TRES-minute limits.

A job's usage is the integral of its held resources over its run time, multiplied by the factor of its QoS.
The weight of each second halves after each half-life. The transaction in which a job releases its resources
adds its usage to the durable totals. Until then the usage is computed from the job's start time. No second is
therefore counted twice or lost, even if the controller is killed. Suspended time costs nothing: the time that
a job ran counts as one unbroken period up to its end.

Totals are kept by account, user and QoS. The totals of parent accounts are summed over the account tree of
the current configuration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from warpdeck.config import Site, UsageTotals, with_usage
from warpdeck.model import Job, JobId
from warpdeck.policy import WALL, decayed, decayed_seconds, held_tres
from warpdeck.ports.store import UsageRecord

from .tables import StateTables

COUNT_ANEW_S = 60.0
"""Interval in seconds between two counts of the running jobs. Jobs that end are counted at once."""

Key = tuple[str, str, str]
"""Account, user and QoS."""
TresSeconds = dict[str, float]


def charge(state: StateTables, job: Job, *, ended_unix: float) -> UsageRecord | None:
    """Return the new total of the job's account, user and QoS when the job releases its resources.

    Returns None if the job never ran. The total is decayed to `ended_unix`, or to the time of the previous
    total if that is later.
    """
    if job.start_at_unix is None or job.allocation is None:
        return None
    key = key_of(job)
    before = state.used.get(key)
    at_unix = ended_unix if before is None else max(before.at_unix, ended_unix)
    tres = {} if before is None else _decayed_total(before, at_unix, _half_life_s(state.site))
    held = _held(state, job, state.site)
    _add(tres, _used(job, held, state.site, until_unix=ended_unix, now=at_unix))
    account, user, qos = key
    return UsageRecord(account=account, user=user, qos=qos, at_unix=at_unix, tres=tres)


def key_of(job: Job) -> Key:
    """Return the account, user and QoS to which the job's usage is charged."""
    return job.request.account, job.user, job.request.qos


class Accounting:
    """The site's rules with the usage filled in, cached until the running jobs must be counted again.

    There is one object per `StateTables`.
    """

    def __init__(self) -> None:
        self._rules: Site | None = None
        self._charged = Site()
        self._counted_unix = 0.0
        self._ended: dict[Key, UsageRecord] = {}
        self._running: dict[JobId, _Running] = {}

    @property
    def counted_unix(self) -> float:
        """The time up to which the usage of running jobs is counted."""
        return self._counted_unix

    def charged(self, state: StateTables, rules: Site, *, now: float) -> Site:
        """Return the rules with all usage decayed to now.

        The usage of running jobs is included up to the last count.
        """
        if not (rules.accounts or rules.users or rules.qos):
            return rules
        if rules is not self._rules:
            self._rules, self._running = rules, {}
            self._count(state, rules, now)
        elif not 0.0 <= now - self._counted_unix < COUNT_ANEW_S:
            self._count(state, rules, now)
        elif self._ended == state.used:
            return self._charged
        self._ended = dict(state.used)
        self._charged = with_usage(rules, self._total(state, rules, now))
        return self._charged

    def _count(self, state: StateTables, rules: Site, now: float) -> None:
        self._counted_unix = now
        before, self._running = self._running, {}
        for job in map(state.jobs.__getitem__, state.index.active):
            if job.start_at_unix is not None:
                known = before.get(job.id)
                held = known.held if known and known.is_of(job) else _held(state, job, rules)
                used = _used(job, held, rules, until_unix=now, now=now)
                self._running[job.id] = _Running(job.restarts, key_of(job), held, used)

    def _total(self, state: StateTables, rules: Site, now: float) -> UsageTotals:
        half_life_s = _half_life_s(rules)
        totals: dict[Key, TresSeconds] = {}
        for key, row in self._ended.items():
            totals[key] = _decayed_total(row, now, half_life_s)
        for job_id, known in self._running.items():
            if job_id in state.index.active and known.is_of(state.jobs[job_id]):
                _add(totals.setdefault(known.key, {}), known.used)
        return summed(totals, rules)


class _Running(NamedTuple):
    """Usage of one start of a job at the last count."""

    restarts: int
    key: Key
    held: dict[str, float]
    used: TresSeconds

    def is_of(self, job: Job) -> bool:
        return job.restarts == self.restarts


def _held(state: StateTables, job: Job, rules: Site) -> dict[str, float]:
    """Return the resources that the job consumes per second of run time, multiplied by the usage factor of
    its QoS.
    """
    assert job.allocation is not None
    factor = next((each.usage_factor for each in rules.qos if each.name == job.request.qos), 1.0)
    counts = held_tres(job.allocation, gpu_types(state, job), rules.settings.billing_weights)
    counts.update({f"license/{name}": count for name, count in job.request.licenses})
    counts[WALL] = 1
    return {name: count * factor for name, count in counts.items() if count}


def _used(job: Job, held: dict[str, float], rules: Site, *, until_unix: float, now: float) -> TresSeconds:
    """Return the usage of this start of the job up to `until_unix`, decayed to `now`."""
    assert job.start_at_unix is not None
    if job.suspended_at_unix is not None:
        until_unix = min(until_unix, job.suspended_at_unix)
    begun_unix = job.start_at_unix + job.suspended_s
    seconds = decayed_seconds(begun_unix, until_unix, now=now, half_life_s=_half_life_s(rules))
    return {name: count * seconds for name, count in held.items()}


def summed(totals: dict[Key, TresSeconds], rules: Site) -> UsageTotals:
    """Return the usage summed by account (including all accounts below it), by user and by QoS."""
    usage = UsageTotals()
    parents = {account.name: account.parent for account in rules.accounts}
    for (account, user, qos), used in sorted(totals.items()):
        _add(usage.qos.setdefault(qos, {}), used)
        _add(usage.user_tres.setdefault((user, account), {}), used)
        for name in _chain(account, parents):
            _add(usage.account_tres.setdefault(name, {}), used)
    usage.users.update({key: used.get("billing", 0.0) for key, used in usage.user_tres.items()})
    usage.accounts.update({name: used.get("billing", 0.0) for name, used in usage.account_tres.items()})
    return usage


def _chain(account: str, parents: dict[str, str]) -> Iterable[str]:
    seen: set[str] = set()
    while account in parents and account not in seen:
        seen.add(account)
        yield account
        account = parents[account]


def _decayed_total(row: UsageRecord, now: float, half_life_s: float) -> TresSeconds:
    elapsed_s = max(0.0, now - row.at_unix)
    return {
        name: decayed(used, elapsed_s=elapsed_s, half_life_s=half_life_s) for name, used in row.tres.items()
    }


def _half_life_s(site: Site) -> float:
    """Return the half-life of usage in seconds. 0.0 means that usage never decays, as `decayed` expects."""
    return site.half_life_s or 0.0


def gpu_types(state: StateTables, job: Job) -> dict[str, str]:
    """Return the type of each GPU on the nodes of the job's allocation, by GPU UUID."""
    assert job.allocation is not None
    nodes = (state.nodes.get(name) for name in job.allocation.node_names())
    return {gpu.uuid: gpu.type.lower() for node in nodes if node is not None for gpu in node.gpus}


def _add(into: TresSeconds, more: TresSeconds) -> None:
    for name, count in more.items():
        into[name] = into.get(name, 0.0) + count
