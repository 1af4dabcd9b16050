"""Pending jobs as a table of numbers, one row per job, and their equivalence classes.

Jobs of one equivalence class have the same block reasons. A pass looks up data of ten thousand jobs in
columns, and Python iterates only over the classes. There are a few hundred of them. The table follows the
queue from view to view: only rows of jobs that are different objects now are rebuilt.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from warpdeck.model import Resources, count_tasks
from warpdeck.policy.input.settings import PlannerSettings
from warpdeck.policy.input.site import Tres
from warpdeck.policy.input.view import PendingJob, owner_of
from warpdeck.policy.limits.access import partition_names
from warpdeck.policy.placement.pending_reason import held
from warpdeck.policy.resources.cluster import Ints, Mask
from warpdeck.policy.resources.row_diff import NEW, Numbering, old_positions
from warpdeck.policy.resources.timeline import ENDLESS_S
from warpdeck.policy.resources.tres import requested_tres

SPARE_CLASSES = 250
"""Number of equivalence classes kept beyond twice the number of jobs. If there are more, most of them belong
to jobs that have left the queue.
"""
FEW_ROWS = 8
"""Number of rows up to which columns of usual values are shared. Most passes add one job."""
Column = npt.NDArray[Any]
Scalar = TypeVar("Scalar", bound=np.generic)


class QueueTable:
    """Columns of equal length, by name, optionally restricted to some rows."""

    def __init__(self, columns: dict[str, Column], rows: Ints | None = None) -> None:
        self._columns = columns
        self._rows = rows

    def __getitem__(self, name: str) -> Column:
        column = self._columns[name]
        return column if self._rows is None else column[self._rows]

    def __len__(self) -> int:
        return len(self["id"])

    def of(self, rows: Ints) -> QueueTable:
        """Return a table restricted to these rows."""
        return QueueTable(self._columns, rows)

    def where(self, mask: Mask) -> QueueTable:
        """Return a table restricted to the rows of the mask."""
        rows: Ints = mask.nonzero()[0]
        return QueueTable(self._columns, rows if self._rows is None else self._rows[rows])

    def follow(self, before: Ints, new: Ints, made: dict[str, Column]) -> QueueTable:
        """Return an updated table.

        `before` is the old position of each row. The rows listed in `new` get their values from the columns
        `made` instead.
        """
        if len(new) == len(before) and made:
            return QueueTable(made)
        columns = {name: column[before] for name, column in self._columns.items()}
        for name, column in made.items():
            columns[name][new] = column
        return QueueTable(columns)


class WaitingQueue:
    """The table of pending jobs, in the order of the view.

    If `is_personal` is set, jobs of different users belong to different equivalence classes. Otherwise only
    the users in `owners` have classes of their own.
    """

    def __init__(
        self, settings: PlannerSettings, *, is_personal: bool, owners: frozenset[str] = frozenset()
    ) -> None:
        self.settings = settings
        self.owners = owners
        self.is_personal = is_personal
        self.jobs: Sequence[PendingJob] = ()
        self.representatives: list[PendingJob] = []
        """One job of each equivalence class. Jobs of a class have the same request and time limit, and the
        same limits apply to them.
        """
        self.persons: Numbering[tuple[str, str, int]] = Numbering()
        self.qos: Numbering[str] = Numbering()
        self.partitions: Numbering[str] = Numbering()
        self.reservations: Numbering[str] = Numbering()
        self.contention_groups: Numbering[tuple[object, ...]] = Numbering()
        """Numbers of contention groups. Jobs of one group compete for the same nodes, judged by their
        requests.
        """
        self.requests: list[tuple[Resources, Tres]] = []
        """Each request with the TRES that it counts, without licenses. Requests are distinguished by
        identity.
        """
        self.request_parts: tuple[object, list[tuple[float, float]]] = None, []
        """Cache of the priorities: the nodes of the view for which it is valid, and for each request the parts
        of the priority for its size and its TRES.
        """
        self._requests: Numbering[int] = Numbering()
        none: Ints = np.zeros(0, dtype=np.int64)
        self.by_class: dict[str, Ints] = dict.fromkeys(
            ("contention_group", "partition", "request", "cpus", "gpus", "excludes_users"), none
        )
        """Columns by equivalence class: contention group, partition (as the job names it), request, CPUs and
        GPUs (of one task), and whether it excludes other users.
        """
        self._numbers: Numbering[tuple[object, ...]] = Numbering()
        self._tres: dict[tuple[int, tuple[tuple[str, int], ...]], Tres] = {}
        self.table = QueueTable(self._rows(()))
        """The columns of the table. The less obvious ones are:

        - person: number of (account, user, uid)
        - tasks: number of pending tasks; 1 for a job that is no array
        - rank: a priority set by hand, if is_ranked
        - expected_s: expected run time
        - reserved_unix: reserved start; infinite for none
        - claim_until_unix: time until which cleared nodes are kept for the job; 0 for none
        - is_throttled: whether the job is an array with a limit on running tasks
        - is_ready: whether nothing in the job itself makes it wait
        - is_held: whether the job is held and time does not change that
        - why_held: pending reason of a held job

        The others are id, class, qos, nice and eligible_unix.
        """

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def is_overgrown(self) -> bool:
        """True if the queue should be rebuilt, because many equivalence classes belong to departed jobs."""
        return len(self.representatives) > 2 * len(self.jobs) + SPARE_CLASSES

    @property
    def excludes_users(self) -> bool:
        """True if a pending job is exclusive to its user."""
        excluding = self.by_class["excludes_users"]
        return bool(excluding.any()) and bool(excluding[self.table["class"]].any())

    def exclusive_users(self, parted: frozenset[str]) -> frozenset[str]:
        """Return the users of jobs that are exclusive to their user, by request or through one of these
        partitions.
        """
        wants: Mask = self.by_class["excludes_users"] > 0
        for class_id, job in enumerate(self.representatives) if parted else ():
            if any(parted.intersection(self._partitions_of(part)) for part in (job, *job.components)):
                wants[class_id] = True
        persons = np.unique(self.table["person"][wants[self.table["class"]]]).tolist()
        known = self.persons.keys
        return frozenset(owner_of(*known[number][1:]) for number in persons)

    def _partitions_of(self, job: PendingJob) -> list[str]:
        return partition_names(job.partition, self.settings)

    def follow(self, jobs: Sequence[PendingJob]) -> None:
        """Update the table to the jobs that are pending now."""
        if jobs is not self.jobs:
            before = old_positions(self.jobs, jobs, _id)
            new: Ints = (before == NEW).nonzero()[0]
            made = self._rows([jobs[at] for at in new.tolist()]) if len(new) else {}
            self.jobs, self.table = jobs, self.table.follow(before, new, made)

    def tres(self, job: PendingJob) -> Tres:
        """Return the TRES that a job counts against limits."""
        key = (id(job.resources), job.licenses)
        found = self._tres.get(key)
        if found is None:
            licenses = {f"license/{name}": count for name, count in job.licenses}
            found = self._tres[key] = {**self._requested_tres(job.resources), **licenses}
        return found

    def _requested_tres(self, requested: Resources) -> Tres:
        """Return the TRES that a request counts, without licenses."""
        number = self._requests.of(id(requested))
        if number == len(self.requests):
            default = self.settings.default_mem_per_cpu_bytes
            tres = requested_tres(requested, self.settings.billing_weights, default_mem_per_cpu=default)
            self.requests.append((requested, tres))
        return self.requests[number][1]

    def contention_group(self, job: PendingJob) -> int:
        """Return the number of the job's contention group."""
        requested, settings = job.resources, self.settings
        where: tuple[object, ...] = (*partition_names(job.partition, settings)[:1], job.reservation)
        if settings.backfill != "none":  # In strict order, all jobs of a partition form one group.
            where += (requested.gpus.type, requested.constraint, requested.nodelist, requested.node_minimum)
        return self.contention_groups.of(where)

    def _classes_of(self, jobs: Sequence[PendingJob]) -> list[int]:
        """Return the numbers of the jobs' equivalence classes.

        Requests are recognized by identity. This is safe because each kept job keeps its request alive.
        """
        numbers = self._numbers.numbers(map(self._key, jobs))
        known = len(self.representatives)
        if len(self._numbers) > known:
            one_of = dict(zip(numbers, jobs, strict=True))
            self.representatives += [one_of[number] for number in range(known, len(self._numbers))]
            self._add_classes(self.representatives[known:])
        return numbers

    def _key(self, job: PendingJob) -> tuple[object, ...]:
        key: tuple[object, ...] = (
            id(job.resources),
            job.time_limit_s,
            job.unlimited,
            job.partition,
            job.reservation,
            job.time_min_s,
            job.deadline_unix,
            job.preempted_claim,
        )
        if self.is_personal or job.licenses or job.reservation:
            return (*key, job.user, job.uid, job.account, job.qos, job.licenses, job.components and job.id)
        if self.owners and job.owner in self.owners:
            key = (*key, job.owner)
        return (*key, job.id) if job.components else key

    def _add_classes(self, new: Sequence[PendingJob]) -> None:
        self.reservations.numbers(part.reservation for job in new for part in (job, *job.components))
        tres = [self.tres(job) for job in new]
        more = {
            "contention_group": [self.contention_group(job) for job in new],
            "partition": self.partitions.numbers(job.partition for job in new),
            "request": self._requests.numbers(id(job.resources) for job in new),
            "cpus": [each.get("cpu", 0) for each in tres],
            "gpus": [each.get("gres/gpu", 0) for each in tres],
            "excludes_users": list(map(_excludes_users, new)),
        }
        for name, column in self.by_class.items():
            self.by_class[name] = np.concatenate((column, np.array(more[name], dtype=np.int64)))

    def _rows(self, jobs: Sequence[PendingJob]) -> dict[str, Column]:
        count, unusual = len(jobs), _unusual(jobs)
        reserved = [
            (at, job.reserved_start_unix) for at, job in unusual if job.reserved_start_unix is not None
        ]
        ranked = [(at, job.priority) for at, job in unusual if job.priority is not None]
        claims = [
            (at, job.preempted_claim.until_unix) for at, job in unusual if job.preempted_claim is not None
        ]
        arrays = [(at, job) for at, job in unusual if job.tasks]
        resting = [(at, held(job)) for at, job in unusual if job.held and job.deadline_unix is None]
        return {
            "id": _column([job.id for job in jobs], np.int64),
            "class": _column(self._classes_of(jobs), np.int64),
            "person": _column(
                self.persons.numbers((job.account, job.user, job.uid) for job in jobs), np.int64
            ),
            "qos": _column(self.qos.numbers(job.qos for job in jobs), np.int64),
            "eligible_unix": _column([job.eligible_at_unix for job in jobs], np.float64),
            "expected_s": _column([expected_runtime_s(job) for job in jobs], np.float64),
            "tasks": _mostly(1, count, [(at, count_tasks(job.tasks)) for at, job in arrays]),
            "nice": _mostly(0, count, [(at, job.nice) for at, job in unusual if job.nice]),
            "is_ranked": _mostly(False, count, [(at, True) for at, _ in ranked]),
            "rank": _mostly(0, count, ranked),
            "reserved_unix": _mostly(np.inf, count, reserved),
            "claim_until_unix": _mostly(0.0, count, claims),
            "is_throttled": _mostly(False, count, [(at, True) for at, job in arrays if job.throttle]),
            "is_held": _mostly(False, count, [(at, True) for at, _ in resting]),
            "why_held": _mostly(None, count, resting),
            "is_ready": _mostly(True, count, [(at, False) for at, job in unusual if _may_not_start(job)]),
        }


def _column(values: Sequence[float], kind: type[Scalar]) -> npt.NDArray[Scalar]:
    return np.array(values, dtype=kind)


def _mostly(usual: object, count: int, others: Iterable[tuple[int, object]]) -> Column:
    """Return a column of length `count` in which only a few rows differ from the usual value."""
    others = list(others)
    if not others:
        return _usual(usual, count) if count <= FEW_ROWS else np.full(count, usual)
    column = np.full(count, usual)
    for at, value in others:
        column[at] = value
    return column


@functools.lru_cache(maxsize=256, typed=True)
def _usual(value: object, count: int) -> Column:
    """Return a column with one value in all rows. It is shared, so nobody may modify it."""
    column = np.full(count, value)
    column.flags.writeable = False
    return column


def _unusual(jobs: Sequence[PendingJob]) -> list[tuple[int, PendingJob]]:
    """Return the jobs, with positions, that have an unusual value in a column made by `_mostly`.

    Only these jobs are examined for each of those columns.
    """
    return [
        (at, job)
        for at, job in enumerate(jobs)
        if job.tasks
        or job.nice
        or job.priority is not None
        or job.reserved_start_unix is not None
        or job.preempted_claim is not None
        or (job.held or job.never or job.waits_for or job.begin_at_unix or job.deadline_unix)
    ]


def _may_not_start(job: PendingJob) -> bool:
    """Return whether something in the job itself might keep it from starting."""
    return bool(job.held or job.never or job.waits_for or job.begin_at_unix or job.deadline_unix)


def _excludes_users(job: PendingJob) -> bool:
    return job.resources.share_with == "user" or (
        bool(job.components) and any(map(_excludes_users, job.components))
    )


def expected_runtime_s(job: PendingJob) -> float:
    """Return the expected run time in seconds: the prediction, or else the time limit."""
    if job.predicted_s is not None:
        return job.predicted_s
    return ENDLESS_S if job.time_limit_s is None else float(job.time_limit_s)


def _id(job: PendingJob) -> int:
    return job.id
