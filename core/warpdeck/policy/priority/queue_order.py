"""Queue order of jobs with equal priority.

By default, jobs are ordered by highest response ratio: (waited + expected run time) / expected run time
(Brinch Hansen 1971). Short jobs overtake long ones, and long jobs rise as they wait. Three rules keep this
from increasing the longest wait. They compare with the longest wait of any recent job, so where no job waits
long, no job is overtaken for long:

* A job is *overdue* once its expected wait reaches a share of the longest wait. The expected wait is its wait
  so far plus the work submitted before it, divided by the size of the machine. Overdue jobs come before all
  others, in order of submission.
* A job is *starved* once its wait so far alone reaches that share. Starved jobs that have waited at least as
  long as they will run get reservations, up to a maximum number. Backfilled jobs then cannot delay the second
  job in the queue.
* A starved job that uses more than half of the machine comes before all others as soon as enough is free for
  it. Two of these wide jobs cannot run together, and the machine must drain before each of them. If they run
  one after the other, it drains only once. In order of submission, narrow jobs would fill the machine in
  between, and it would have to drain again.

With conservative backfill, the order is that of the starts reserved in the last pass, so that a job keeps its
reservation.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpdeck.policy.cache.cluster_table import ClusterTable
from warpdeck.policy.cache.waiting_queue import QueueTable, WaitingQueue
from warpdeck.policy.input.view import PlannerView
from warpdeck.policy.resources.cluster import CPUS, GPUS, Floats, Mask
from warpdeck.policy.resources.timeline import ENDLESS_S

SHORTEST_S = 10.0
"""Shorter run times count as this value, as in the bounded slowdown, because a few seconds do not matter."""
WIDE = 0.5
"""Share of the machine. Jobs that need more than this cannot run side by side."""
FIRST, OVERDUE = -np.inf, -1e300
"""Sort keys of jobs that come first and of overdue jobs. All other keys are response ratios."""


class QueueOrder(NamedTuple):
    """The sort keys of the jobs (smaller is sooner), and the number of starved jobs that should get
    reservations.
    """

    keys: Floats
    starved_count: int = 0


def queue_order(
    table: QueueTable, queue: WaitingQueue, cluster_table: ClusterTable, view: PlannerView, now: float
) -> QueueOrder:
    """Return the sort key of each job in `table`."""
    settings = queue.settings
    if settings.backfill == "conservative":
        return QueueOrder(table["reserved_unix"])
    if settings.queue_order != "response" or not len(table):
        return QueueOrder(np.zeros(len(table)))
    waited: Floats = now - table["eligible_unix"]
    expected = np.maximum(table["expected_s"], SHORTEST_S)
    bound = settings.overdue_share * max(view.longest_wait_s, float(waited.max()))
    ahead, goes_now = _against_machines(table, expected, queue, _Machine(cluster_table, view, now))
    starved: Mask = waited >= bound
    keys = np.where(waited + ahead >= bound, OVERDUE, -(waited + expected) / expected)
    return QueueOrder(
        np.where(starved & goes_now, FIRST, keys), int(np.count_nonzero(starved & (waited >= expected)))
    )


def _against_machines(
    table: QueueTable, expected: Floats, queue: WaitingQueue, machine: _Machine
) -> tuple[Floats, Mask]:
    """Return, for each job, the seconds that its partition needs for earlier work, and whether it is a wide
    job that fits now.

    Earlier work is the rest of all running jobs and everything that was submitted before the job.
    """
    class_ids, tasks = table["class"], table["tasks"]
    cpus, gpus = queue.by_class["cpus"][class_ids], queue.by_class["gpus"][class_ids]
    order = np.lexsort((table["id"], table["eligible_unix"]))
    of = queue.by_class["partition"][class_ids][order]
    ahead, goes_now = np.zeros(len(table)), np.zeros(len(table), dtype=np.bool_)
    for number, name in enumerate(queue.partitions.keys):
        mine = order[of == number]
        if not len(mine):
            continue
        use = machine.use(name)
        part = np.maximum(cpus[mine] / use.cpus, gpus[mine] / use.gpus)
        before = np.concatenate(([0.0], np.cumsum(expected[mine] * part * tasks[mine])[:-1]))
        ahead[mine] = before + use.running_s
        has_room = (cpus[mine] <= use.free_cpus) & (gpus[mine] <= use.free_gpus)
        goes_now[mine] = has_room & (part > WIDE)
    return ahead, goes_now


class _Use(NamedTuple):
    """Usage of a partition: its size, its free resources, and the remaining work of running jobs.

    `running_s` is that work in seconds of the whole partition. It is summed in whole milliseconds, because
    the result of a float sum depends on the order of the jobs.
    """

    cpus: int
    gpus: int
    free_cpus: int
    free_gpus: int
    running_s: float


class _Machine:
    """Nodes that accept jobs, and the resources held on them."""

    def __init__(self, cluster_table: ClusterTable, view: PlannerView, now: float) -> None:
        self._cluster = cluster_table.cluster
        self._nodes = {part.name: part.nodes for part in view.partitions}
        self._parts = cluster_table.parts
        self._left_s: Floats = np.clip(cluster_table.ends_unix - now, 0.0, ENDLESS_S)

    def use(self, partition: str) -> _Use:
        """Return the usage of a partition's nodes, or of all nodes if there is no partition of this name."""
        takes, names = self._cluster.takes_jobs, self._nodes.get(partition)
        if names is not None:
            takes = takes & self._cluster.named(names)
        cpus, gpus = (max(1, int(self._cluster.whole[column, takes].sum())) for column in (CPUS, GPUS))
        jobs, _, held_cpus, held_gpus = self._parts[:, takes[self._parts[1]]]
        by_job = [np.bincount(jobs, held, len(self._left_s)) for held in (held_cpus, held_gpus)]
        part = np.maximum(by_job[0] / cpus, by_job[1] / gpus)
        return _Use(
            cpus=cpus,
            gpus=gpus,
            free_cpus=cpus - int(held_cpus.sum()),
            free_gpus=gpus - int(held_gpus.sum()),
            running_s=int(np.rint(part * self._left_s * 1000).astype(np.int64).sum()) / 1000,
        )
