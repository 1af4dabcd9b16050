"""Separation of users on nodes (--exclusive=user): the users with jobs on each node, and until when.

The rule is Slurm's. An exclusive job shares its nodes only with jobs of the same user. It gets no node on
which another user has a job, and its nodes accept no jobs of other users. A suspended job counts as present.
A partition with ExclusiveUser makes all of its jobs exclusive.

The data exist only if some job or partition is exclusive, so that other sites pay nothing. All users without
exclusive jobs meet the same conflicts, so they count as one user. Each user with exclusive jobs is treated
separately, and so are the requests of this user. Running jobs end, so for each node one time is enough: from
then on no running job conflicts. Reservations that a pass makes for later are checked one by one.

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
"""Used instead of a user's number: no user has a job on the node, or more than one user has."""
MAX_OWNERS = 1_000
"""Maximum number of owners in the cache of the earliest conflict-free times per node. Beyond it the cache is
cleared.
"""


class Occupancy(NamedTuple):
    """Presence of a user's job on a node during an interval."""

    row: int
    owner: Owner
    start: float
    end: float


class RunningUsers:
    """Users of running jobs by node, as arrays. These are the data that do not depend on the current time."""

    def __init__(
        self, running: Sequence[RunningJob], parts: Ints, partitions: Mapping[str, PartitionView]
    ) -> None:
        """Build the arrays. `parts` is `ClusterTable.parts` of these jobs."""
        self.users: Numbering[str] = Numbering()
        users = np.array(self.users.numbers(job.owner for job in running), dtype=np.int64)
        parted = {name for name, part in partitions.items() if part.exclusive_user}
        alone = np.array([job.excludes_users or job.partition in parted for job in running], dtype=np.bool_)
        ends = np.array([np.inf if job.ends_by_unix is None else job.ends_by_unix for job in running])
        jobs = np.array([job.id for job in running], dtype=np.int64)
        positions, self.rows = parts[0], parts[1]
        self.user: Ints = users[positions]
        self.alone: Mask = alone[positions]
        self.ends: Floats = ends[positions]
        """The end of each job's time limit; infinite without a limit."""
        self.jobs: Ints = jobs[positions]

    def owners(self) -> frozenset[str]:
        """Return the users with exclusive jobs."""
        users = self.users.keys
        return frozenset(users[number] for number in np.unique(self.user[self.alone]).tolist())


class UsersOnNodes:
    """Users on the nodes of one timeline, from its start time `now` on."""

    def __init__(
        self, running: RunningUsers, count: int, now: float, *, endless_s: float, overrun_s: float
    ) -> None:
        """`count` is the number of nodes. As in the timeline, a job without a limit ends after `endless_s`
        and an overdue job after `overrun_s`.
        """
        self._running = running
        self._now = now
        ends = np.where(np.isinf(running.ends), now + endless_s, running.ends)
        self._ends: Floats = np.where(ends <= now, now + overrun_s, ends)
        self._count = count
        self._until: dict[Owner, Floats] = {}
        self._present: list[Occupancy] = []
        """Jobs that were placed in this pass."""
        self._later: dict[int, list[Occupancy]] = {}
        """By row, the jobs for which the row is reserved later."""
        self._sole_users: dict[bool, Ints] = {}
        self._new: Numbering[str] = Numbering()
        """Numbers of users that had no running jobs."""

    def add(self, occupancy: Occupancy) -> None:
        """Add the presence of a user's job on a node."""
        if occupancy.start > self._now:
            self._later.setdefault(occupancy.row, []).append(occupancy)
            return
        self._present.append(occupancy)
        for alone, users in self._sole_users.items():
            self._count_in(users, occupancy, alone=alone)
        for owner, until in self._until.items():
            if owner.conflicts_with(occupancy.owner):
                until[occupancy.row] = max(until[occupancy.row], occupancy.end)

    def remove(self, occupancy: Occupancy) -> None:
        """Undo an `add`."""
        if occupancy.start > self._now:
            self._later[occupancy.row].remove(occupancy)
            return
        self._present.remove(occupancy)
        self._until.clear()
        self._sole_users.clear()

    def number(self, user: str) -> int:
        """Return the number of the user, as in `sole_users`."""
        known = self._running.users.get(user)
        return len(self._running.users) + self._new.of(user) if known is None else known

    def sole_users(self, *, alone: bool) -> Ints:
        """Return, by row, the number of the only user there now, or NOBODY or SEVERAL.

        With `alone`, all jobs count, because an exclusive job conflicts with the jobs of all other users.
        Otherwise only exclusive jobs count.
        """
        found = self._sole_users.get(alone)
        if found is None:
            running = self._running
            those = slice(None) if alone else running.alone
            rows, users = running.rows[those], running.user[those]
            found = self._sole_users[alone] = np.full(self._count, NOBODY, dtype=np.int64)
            found[rows] = users
            found[rows[found[rows] != users]] = SEVERAL
            for occupancy in self._present:
                self._count_in(found, occupancy, alone=alone)
        return found

    def _count_in(self, users: Ints, occupancy: Occupancy, *, alone: bool) -> None:
        if alone or occupancy.owner.alone:
            number = self.number(occupancy.owner.user)
            users[occupancy.row] = number if users[occupancy.row] in (NOBODY, number) else SEVERAL

    def conflicts_now(self, owner: Owner, rows: Ints) -> Mask:
        """Return, by row, whether a job there conflicts with the owner now."""
        return self._until_of(owner)[rows] > self._now

    def conflicts(self, owner: Owner, rows: Ints, times: Floats) -> Mask:
        """Return, by row and step, whether a job there conflicts with the owner. `times` are the starts of
        the steps of these rows.
        """
        found: Mask = times < self._until_of(owner)[rows][:, None]
        if self._later:
            for at, row in enumerate(rows.tolist()):
                self._add_later_conflicts(found[at], owner, row, times[at])
        return found

    def conflicts_without(self, owner: Owner, row: int, times: Floats, gone: Collection[JobId]) -> Mask:
        """Return, by step of one node, whether a job there conflicts with the owner after the jobs in `gone`
        have left.
        """
        running = self._running
        there = (running.rows == row) & self._conflicting(owner) & ~np.isin(running.jobs, list(gone))
        until = self._ends[there].max(initial=-np.inf)
        occupancies = [
            occupancy
            for occupancy in self._present
            if occupancy.row == row and owner.conflicts_with(occupancy.owner)
        ]
        found: Mask = times < max([until, *(occupancy.end for occupancy in occupancies)])
        self._add_later_conflicts(found, owner, row, times)
        return found

    def _add_later_conflicts(self, found: Mask, owner: Owner, row: int, times: Floats) -> None:
        for occupancy in self._later.get(row, ()):
            if owner.conflicts_with(occupancy.owner):
                found |= (times >= occupancy.start) & (times < occupancy.end)

    def _until_of(self, owner: Owner) -> Floats:
        """Return, by row, the time from which no present job conflicts with the owner."""
        found = self._until.get(owner)
        if found is None:
            if len(self._until) >= MAX_OWNERS:
                self._until.clear()
            found = self._until[owner] = np.full(self._count, -np.inf)
            those = self._conflicting(owner)
            np.maximum.at(found, self._running.rows[those], self._ends[those])
            for occupancy in self._present:
                if owner.conflicts_with(occupancy.owner):
                    found[occupancy.row] = max(found[occupancy.row], occupancy.end)
        return found

    def _conflicting(self, owner: Owner) -> Mask:
        """Return a mask of the entries of running jobs that conflict with the owner."""
        number = self._running.users.get(owner.user)
        others: Mask = self._running.user != (-1 if number is None else number)
        return others if owner.alone else others & self._running.alone
