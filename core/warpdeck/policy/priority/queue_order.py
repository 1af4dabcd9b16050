"""Who is next among jobs of equal priority. Pure.

By default the one whose user waits longest for what the job is worth: highest (waited + likely run time) / likely run time
first (highest response ratio next; Brinch Hansen 1971). Short jobs pass long ones, and long ones rise as they wait, but a
mean that falls is worth nothing to the one who pays for it. Three things keep the longest wait from growing; all measure by
the longest wait that anybody has lately had, so where nobody waits long, nobody is passed for long:

* A job is *overdue*, and goes before all that are not, in order of submission, once its wait so far and the work that
  stands before it by order of submission (over the machine's size) come to a share of the longest wait.
* It is *late* once its wait alone comes to that share. While some are late, and have waited for as long as they will run,
  that many jobs have reservations, up to a bound: the second in line is not kept back by what is backfilled meanwhile.
* A late job that takes more than half of the machine, and for which so much is free, goes before all. No two such jobs run
  together, and each makes the machine run empty before it starts. One straight after the other they share that; in order
  of submission narrow jobs fill the machine in between, and it has to run empty again.

With conservative backfill the order is that of the starts that were promised last: who has a promise keeps it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpdeck.policy.cache.cluster_table import Ground
from warpdeck.policy.cache.waiting_queue import Queue, Table
from warpdeck.policy.input.view import View
from warpdeck.policy.resources.cluster import CPUS, GPUS, Floats, Mask
from warpdeck.policy.resources.timeline import ENDLESS_S

SHORTEST_S = 10.0
"""Run times below this count as this, as in the bounded slowdown: nobody minds a few seconds."""
WIDE = 0.5
"""Of a machine: jobs that take more cannot run side by side."""
FIRST, OVERDUE = -np.inf, -1e300
"""Keys of those that go before all, and of the overdue ones; all other keys are response ratios."""


class Turns(NamedTuple):
    """The keys of the jobs (smaller is sooner), and for how many late ones places should be kept."""

    keys: Floats
    late_count: int = 0


def turns(table: Table, queue: Queue, ground: Ground, view: View, now: float) -> Turns:
    """The turns of the queue's jobs of which `table` has the rows."""
    settings = queue.settings
    if settings.backfill == "conservative":
        return Turns(table["promised_unix"])
    if settings.queue_order != "response" or not len(table):
        return Turns(np.zeros(len(table)))
    waited: Floats = now - table["eligible_unix"]
    likely = np.maximum(table["likely_s"], SHORTEST_S)
    bound = settings.overdue_share * max(view.longest_wait_s, float(waited.max()))
    ahead, goes_now = _against_machines(table, likely, queue, _Machine(ground, view, now))
    late: Mask = waited >= bound
    keys = np.where(waited + ahead >= bound, OVERDUE, -(waited + likely) / likely)
    return Turns(np.where(late & goes_now, FIRST, keys), int(np.count_nonzero(late & (waited >= likely))))


def _against_machines(table: Table, likely: Floats, queue: Queue, machine: _Machine) -> tuple[Floats, Mask]:
    """How long each job's partition needs for what runs and for what was submitted before it; who is wide and has room."""
    kinds, tasks = table["kind"], table["tasks"]
    cpus, gpus = queue.of_kind["cpus"][kinds], queue.of_kind["gpus"][kinds]
    order = np.lexsort((table["id"], table["eligible_unix"]))
    of = queue.of_kind["partition"][kinds][order]
    ahead, goes_now = np.zeros(len(table)), np.zeros(len(table), dtype=np.bool_)
    for number, name in enumerate(queue.partitions.keys):
        mine = order[of == number]
        if not len(mine):
            continue
        use = machine.use(name)
        part = np.maximum(cpus[mine] / use.cpus, gpus[mine] / use.gpus)
        before = np.concatenate(([0.0], np.cumsum(likely[mine] * part * tasks[mine])[:-1]))
        ahead[mine] = before + use.running_s
        has_room = (cpus[mine] <= use.free_cpus) & (gpus[mine] <= use.free_gpus)
        goes_now[mine] = has_room & (part > WIDE)
    return ahead, goes_now


class _Use(NamedTuple):
    """Of a partition: what there is, what of it is free, and what runs will still use, in seconds of the whole partition.

    The last is summed in whole milliseconds: a sum of floats depends on the order of those who run.
    """

    cpus: int
    gpus: int
    free_cpus: int
    free_gpus: int
    running_s: float


class _Machine:
    """Nodes that take jobs, and what is held of them."""

    def __init__(self, ground: Ground, view: View, now: float) -> None:
        self._cluster = ground.cluster
        self._nodes = {part.name: part.nodes for part in view.partitions}
        self._parts = ground.parts
        self._left_s: Floats = np.clip(ground.ends_unix - now, 0.0, ENDLESS_S)

    def use(self, partition: str) -> _Use:
        """Of a partition's nodes, or of all if none is named so."""
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
