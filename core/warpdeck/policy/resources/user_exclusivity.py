"""Whose jobs are on which node, until when: with --exclusive=user nobody else's may be there at the same time. Pure.

Slurm's rule: a job that shares its nodes with its own user's jobs alone takes no node on which another user has one, and no node
that has such a job takes another user's. A suspended job is still there. A partition with ExclusiveUser has it so for all of its jobs.

Kept only where some job or partition asks for it, so that others pay nothing. Users who have no such job meet the same, so they
count as one; each of the others, the owners, is apart, and so are equal requests of theirs. What is there now ends, so of each
node one moment tells from when on nobody bars somebody; what a pass keeps for later is looked at one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from warpdeck.model import JobId
from warpdeck.policy.input.site import PartitionView
from warpdeck.policy.input.view import RunningJob

from .cluster import Floats, Ints, Mask
from .demand import Tenant
from .row_diff import Numbering

NOBODY, SEVERAL = -1, -2
"""In place of a user's number: nobody is there, or more than one are."""
MAX_TENANTS = 1_000
"""Tenants of whom it is remembered from when on they may have which nodes; more begin anew."""


class Stay(NamedTuple):
    """Somebody on a node from then until then."""

    row: int
    tenant: Tenant
    start: float
    end: float


class Running:
    """Who runs where, as arrays: what a pass has to know of it but the time."""

    def __init__(
        self, running: Sequence[RunningJob], parts: Ints, partitions: Mapping[str, PartitionView]
    ) -> None:
        """`parts`: Ground.parts of these jobs."""
        self.users: Numbering[str] = Numbering()
        users = np.array(self.users.of_all(job.owner for job in running), dtype=np.int64)
        parted = {name for name, part in partitions.items() if part.exclusive_user}
        alone = np.array([job.users_apart or job.partition in parted for job in running], dtype=np.bool_)
        ends = np.array([np.inf if job.ends_by_unix is None else job.ends_by_unix for job in running])
        jobs = np.array([job.id for job in running], dtype=np.int64)
        places, self.rows = parts[0], parts[1]
        self.user: Ints = users[places]
        self.alone: Mask = alone[places]
        self.ends: Floats = ends[places]
        """Infinite without a limit."""
        self.jobs: Ints = jobs[places]

    def owners(self) -> frozenset[str]:
        """The users of those who want no other user's job on their nodes."""
        users = self.users.keys
        return frozenset(users[number] for number in np.unique(self.user[self.alone]).tolist())


class Tenants:
    """Who is on the nodes of one timeline. `now` is its moment."""

    def __init__(
        self, running: Running, count: int, now: float, *, endless_s: float, overdue_s: float
    ) -> None:
        """`count` nodes; times are those of the timeline: what has no end ends so late, what should have ended so soon."""
        self._running = running
        self._now = now
        ends = np.where(np.isinf(running.ends), now + endless_s, running.ends)
        self._ends: Floats = np.where(ends <= now, now + overdue_s, ends)
        self._count = count
        self._until: dict[Tenant, Floats] = {}
        self._present: list[Stay] = []
        """Those who came in this pass."""
        self._later: dict[int, list[Stay]] = {}
        """By row those who are promised it for later."""
        self._whose: dict[bool, Ints] = {}
        self._new: Numbering[str] = Numbering()
        """Users of whom nothing ran."""

    def add(self, stay: Stay) -> None:
        """Somebody comes."""
        if stay.start > self._now:
            self._later.setdefault(stay.row, []).append(stay)
            return
        self._present.append(stay)
        for alone, whose in self._whose.items():
            self._count_in(whose, stay, alone=alone)
        for tenant, until in self._until.items():
            if tenant.bars(stay.tenant):
                until[stay.row] = max(until[stay.row], stay.end)

    def remove(self, stay: Stay) -> None:
        """Takes back an `add`."""
        if stay.start > self._now:
            self._later[stay.row].remove(stay)
            return
        self._present.remove(stay)
        self._until.clear()
        self._whose.clear()

    def number(self, user: str) -> int:
        """Of a user, in `whose`."""
        known = self._running.users.get(user)
        return len(self._running.users) + self._new.of(user) if known is None else known

    def whose(self, *, alone: bool) -> Ints:
        """By row the number of the one user who is there now, NOBODY or SEVERAL: of a row that is another's, each tenant is barred
        who wants to be `alone`. For tenants who do not, only those count who do."""
        found = self._whose.get(alone)
        if found is None:
            running = self._running
            those = slice(None) if alone else running.alone
            rows, users = running.rows[those], running.user[those]
            found = self._whose[alone] = np.full(self._count, NOBODY, dtype=np.int64)
            found[rows] = users
            found[rows[found[rows] != users]] = SEVERAL
            for stay in self._present:
                self._count_in(found, stay, alone=alone)
        return found

    def _count_in(self, whose: Ints, stay: Stay, *, alone: bool) -> None:
        if alone or stay.tenant.alone:
            number = self.number(stay.tenant.user)
            whose[stay.row] = number if whose[stay.row] in (NOBODY, number) else SEVERAL

    def barred_now(self, tenant: Tenant, rows: Ints) -> Mask:
        """By row, whether somebody there bars him in this moment."""
        return self._until_of(tenant)[rows] > self._now

    def barred(self, tenant: Tenant, rows: Ints, times: Floats) -> Mask:
        """By row and step, whether somebody there bars him. `times` are the beginnings of the steps of these rows."""
        found: Mask = times < self._until_of(tenant)[rows][:, None]
        if self._later:
            for at, row in enumerate(rows.tolist()):
                self._bar_later(found[at], tenant, row, times[at])
        return found

    def barred_without(self, tenant: Tenant, row: int, times: Floats, gone: Collection[JobId]) -> Mask:
        """By step of one node, whether somebody bars him there when these jobs have left it."""
        running = self._running
        there = (running.rows == row) & self._conflicts(tenant) & ~np.isin(running.jobs, list(gone))
        until = self._ends[there].max(initial=-np.inf)
        stays = [stay for stay in self._present if stay.row == row and tenant.bars(stay.tenant)]
        found: Mask = times < max([until, *(stay.end for stay in stays)])
        self._bar_later(found, tenant, row, times)
        return found

    def _bar_later(self, found: Mask, tenant: Tenant, row: int, times: Floats) -> None:
        for stay in self._later.get(row, ()):
            if tenant.bars(stay.tenant):
                found |= (times >= stay.start) & (times < stay.end)

    def _until_of(self, tenant: Tenant) -> Floats:
        """By row, from when on nobody of those who are there bars him."""
        found = self._until.get(tenant)
        if found is None:
            if len(self._until) >= MAX_TENANTS:
                self._until.clear()
            found = self._until[tenant] = np.full(self._count, -np.inf)
            those = self._conflicts(tenant)
            np.maximum.at(found, self._running.rows[those], self._ends[those])
            for stay in self._present:
                if tenant.bars(stay.tenant):
                    found[stay.row] = max(found[stay.row], stay.end)
        return found

    def _conflicts(self, tenant: Tenant) -> Mask:
        """Which stays of running jobs bar him."""
        number = self._running.users.get(tenant.user)
        others: Mask = self._running.user != (-1 if number is None else number)
        return others if tenant.alone else others & self._running.alone
