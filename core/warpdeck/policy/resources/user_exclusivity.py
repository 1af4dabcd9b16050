"""Separation of users on nodes (--exclusive=user): which user's jobs are on each node, and until when.

The rule is Slurm's. It concerns jobs that share their nodes only with jobs of the same user. Such a job gets
no node on which another user has a job, and its nodes accept no jobs of other users. A suspended job counts
as present. A partition with ExclusiveUser applies the rule to all of its jobs.

The data exist only if some job or partition needs them, so that other sites pay nothing. All users without
jobs of this kind meet the same conflicts, so they count as one. Each other user (an owner) is treated
separately, and so are the owner's requests. Running jobs end, so for each node one time is enough: from then
on no running job conflicts. Reservations that a pass makes for later are checked one by one.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from warpdeck.model import JobId
from warpdeck.policy.input.site import PartitionView
from warpdeck.policy.input.view import RunningJob

from .cluster import Floats, Ints, Mask
from .demand import Owner
from .row_diff import Numbering

NOBODY, SEVERAL = -1, -2
"""Used instead of a user's number: no user, or more than one user, is on the node."""
MAX_TENANTS = 1_000
"""Maximum number of tenants whose earliest free times per node are cached. Beyond it the cache is cleared."""


class Stay(NamedTuple):
    """Presence of a user's job on a node during an interval."""

    row: int
    tenant: Owner
    start: float
    end: float


class Running:
    """Users of running jobs by node, as arrays. These are the data that do not depend on the current time."""

    def __init__(
        self, running: Sequence[RunningJob], parts: Ints, partitions: Mapping[str, PartitionView]
    ) -> None:
        """Build the arrays. `parts` is `Ground.parts` of these jobs."""
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
        """The end of each job's time limit; infinite without a limit."""
        self.jobs: Ints = jobs[places]

    def owners(self) -> frozenset[str]:
        """Return the users of jobs that allow no other user on their nodes."""
        users = self.users.keys
        return frozenset(users[number] for number in np.unique(self.user[self.alone]).tolist())


class Tenants:
    """Users on the nodes of one timeline, at its start time `now`."""

    def __init__(
        self, running: Running, count: int, now: float, *, endless_s: float, overdue_s: float
    ) -> None:
        """`count` is the number of nodes. As in the timeline, a job without a limit ends after `endless_s`
        and an overdue job after `overdue_s`.
        """
        self._running = running
        self._now = now
        ends = np.where(np.isinf(running.ends), now + endless_s, running.ends)
        self._ends: Floats = np.where(ends <= now, now + overdue_s, ends)
        self._count = count
        self._until: dict[Owner, Floats] = {}
        self._present: list[Stay] = []
        """Jobs that were placed in this pass."""
        self._later: dict[int, list[Stay]] = {}
        """By row, jobs for which the row is reserved later."""
        self._whose: dict[bool, Ints] = {}
        self._new: Numbering[str] = Numbering()
        """Numbers of users that had no running jobs."""

    def add(self, stay: Stay) -> None:
        """Add the presence of a user's job on a node."""
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
        """Undo an `add`."""
        if stay.start > self._now:
            self._later[stay.row].remove(stay)
            return
        self._present.remove(stay)
        self._until.clear()
        self._whose.clear()

    def number(self, user: str) -> int:
        """Return the number that stands for the user in `whose`."""
        known = self._running.users.get(user)
        return len(self._running.users) + self._new.of(user) if known is None else known

    def whose(self, *, alone: bool) -> Ints:
        """Return, by row, the number of the only user there now, or NOBODY or SEVERAL.

        With `alone`, all jobs count, because a user that wants to be alone conflicts with all other users.
        Otherwise only jobs that want to be alone are counted.
        """
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

    def barred_now(self, tenant: Owner, rows: Ints) -> Mask:
        """Return, by row, whether a job there conflicts with the user now."""
        return self._until_of(tenant)[rows] > self._now

    def barred(self, tenant: Owner, rows: Ints, times: Floats) -> Mask:
        """Return, by row and step, whether a job there conflicts with the user. `times` are the starts of the
        steps of these rows.
        """
        found: Mask = times < self._until_of(tenant)[rows][:, None]
        if self._later:
            for at, row in enumerate(rows.tolist()):
                self._bar_later(found[at], tenant, row, times[at])
        return found

    def barred_without(self, tenant: Owner, row: int, times: Floats, gone: Collection[JobId]) -> Mask:
        """Return, by step of one node, whether a job there conflicts with the user after the jobs in `gone`
        have left.
        """
        running = self._running
        there = (running.rows == row) & self._conflicts(tenant) & ~np.isin(running.jobs, list(gone))
        until = self._ends[there].max(initial=-np.inf)
        stays = [stay for stay in self._present if stay.row == row and tenant.bars(stay.tenant)]
        found: Mask = times < max([until, *(stay.end for stay in stays)])
        self._bar_later(found, tenant, row, times)
        return found

    def _bar_later(self, found: Mask, tenant: Owner, row: int, times: Floats) -> None:
        for stay in self._later.get(row, ()):
            if tenant.bars(stay.tenant):
                found |= (times >= stay.start) & (times < stay.end)

    def _until_of(self, tenant: Owner) -> Floats:
        """Return, by row, the time from which no present job conflicts with the user."""
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

    def _conflicts(self, tenant: Owner) -> Mask:
        """Return the mask of the running jobs' entries that conflict with the user."""
        number = self._running.users.get(tenant.user)
        others: Mask = self._running.user != (-1 if number is None else number)
        return others if tenant.alone else others & self._running.alone
