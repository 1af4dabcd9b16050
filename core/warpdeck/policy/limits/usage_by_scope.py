"""Current usage by scope.

A scope is a QoS, a user or an account within a QoS, a user's association, or an account with all accounts
below it. The counts follow the running jobs from view to view: only jobs that started or ended are counted.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from warpdeck.model import Allocation, JobId
from warpdeck.policy.input.site import AccountView, PartitionView, QosView, Tres
from warpdeck.policy.input.view import NodeView, PlannerView, RunningJob
from warpdeck.policy.resources.row_diff import NEW, old_positions
from warpdeck.policy.resources.tres import add, held_tres

Scope = tuple[str, ...]


class ScopeUsage:
    """Number of jobs and the TRES that they hold. `LimitUsage` adds the minutes that they may still use."""

    __slots__ = ("jobs", "minutes", "tres")

    def __init__(self, jobs: int = 0, tres: Tres | None = None) -> None:
        self.jobs = jobs
        self.tres: Tres = {} if tres is None else tres
        self.minutes: dict[str, float] = {}

    def copy(self) -> ScopeUsage:
        """Return a copy that can be modified."""
        made = ScopeUsage(self.jobs, dict(self.tres))
        made.minutes = dict(self.minutes)
        return made


NO_USE = ScopeUsage()
"""The usage of a scope without running jobs. It must not be modified."""


class Scopes:
    """The scopes in which a job is counted, derived from the tables of a view."""

    def __init__(self, view: PlannerView) -> None:
        self.qos: Mapping[str, QosView] = {qos.name: qos for qos in view.qos}
        self.partitions: Mapping[str, PartitionView] = {part.name: part for part in view.partitions}
        self.accounts: Mapping[str, AccountView] = {account.name: account for account in view.accounts}

    def chain(self, account: str) -> Iterator[AccountView]:
        """Iterate over the account and its parents, nearest first."""
        seen: set[str] = set()
        while account in self.accounts and account not in seen:
            seen.add(account)
            yield self.accounts[account]
            account = self.accounts[account].parent

    def qos_of(self, qos: str, partition: str) -> Iterable[QosView]:
        """Return the QoS with limits for a job of this QoS in this partition. The partition's QoS comes
        first.
        """
        own = self.qos.get(qos)
        part = self.partitions.get(partition)
        of_partition = self.qos.get(part.qos) if part is not None else None
        found = [of_partition, own]
        if own is not None and own.overrides_partition:
            found = [own]
        return [each for each in found if each is not None]

    def of(self, user: str, account: str, qos: str, partition: str) -> Iterator[Scope]:
        """Iterate over all scopes of a job."""
        for each in self.qos_of(qos, partition):
            yield ("qos", each.name)
            yield ("qos", each.name, "user", user)
            yield ("qos", each.name, "account", account)
        yield ("user", account, user)
        for above in self.chain(account):
            yield ("account", above.name)

    def structure(self) -> tuple[object, ...]:
        """Return the data on which the scopes of jobs depend. Limits and usage do not matter for this."""
        return (
            [(qos.name, qos.overrides_partition) for qos in self.qos.values()],
            [(part.name, part.qos) for part in self.partitions.values()],
            [(account.name, account.parent) for account in self.accounts.values()],
        )


class _Counted(NamedTuple):
    tres: Tres
    scopes: tuple[Scope, ...]


class UsageByScope:
    """Usage by scope, and for each running job its TRES and scopes."""

    def __init__(self, billing_weights: Mapping[str, float]) -> None:
        self._weights = billing_weights
        self._structure: tuple[object, ...] = ()
        self._nodes: tuple[NodeView, ...] = ()
        self._types: dict[str, str] | None = None
        self._running: Sequence[RunningJob] = ()
        self._counted: dict[JobId, _Counted] = {}
        self._by_scope: dict[Scope, ScopeUsage] = {}

    def follow(self, view: PlannerView, scopes: Scopes) -> None:
        """Update the counts to the running jobs of the view."""
        structure = scopes.structure()
        if structure != self._structure or not _have_the_same_gpus(self._nodes, view.nodes):
            self._structure, self._types = structure, None
            self._running, self._counted, self._by_scope = (), {}, {}
        self._nodes = view.nodes
        if view.running is self._running:
            return
        before = old_positions(self._running, view.running, lambda job: job.id)
        gone = np.ones(len(self._running), dtype=np.bool_)
        gone[before[before != NEW]] = False
        for at in np.flatnonzero(gone).tolist():
            self._count(self._counted.pop(self._running[at].id), times=-1)
        for at in np.flatnonzero(before == NEW).tolist():
            self._note(view.running[at], scopes)
        self._running = view.running

    def at(self, scope: Scope) -> ScopeUsage:
        """Return the usage of a scope. It must not be modified."""
        return self._by_scope.get(scope, NO_USE)

    def of(self, job: RunningJob) -> tuple[Tres, tuple[Scope, ...]]:
        """Return the TRES that a running job holds and the scopes under which it is counted."""
        return self._counted[job.id]

    def held_by(self, allocation: Allocation) -> Tres:
        """Return the TRES that an allocation holds."""
        return held_tres(allocation, self.types, self._weights)

    @property
    def types(self) -> dict[str, str]:
        """The type of each GPU by UUID, computed on first use."""
        if self._types is None:
            self._types = {gpu.uuid: gpu.type.lower() for node in self._nodes for gpu in node.gpus}
        return self._types

    def _note(self, job: RunningJob, scopes: Scopes) -> None:
        tres = self.held_by(job.allocation)
        for name, count in job.licenses:
            tres[f"license/{name}"] = count
        under = tuple(scopes.of(job.user, job.account, job.qos, job.partition))
        self._counted[job.id] = _Counted(tres, under)
        self._count(self._counted[job.id], times=1)

    def _count(self, counted: _Counted, *, times: int) -> None:
        for scope in counted.scopes:
            use = self._by_scope.get(scope)
            if use is None:
                use = self._by_scope[scope] = ScopeUsage()
            use.jobs += times
            add(use.tres, counted.tres, times=times)


def _have_the_same_gpus(before: Sequence[NodeView], after: Sequence[NodeView]) -> bool:
    """Return whether no GPU was added, removed or changed its type."""
    if before is after:
        return True
    if len(before) != len(after):
        return False
    pairs = ((one, other) for one, other in zip(before, after, strict=True) if one is not other)
    return all(
        [(gpu.uuid, gpu.type) for gpu in one.gpus] == [(gpu.uuid, gpu.type) for gpu in other.gpus]
        for one, other in pairs
    )
