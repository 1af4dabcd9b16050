"""Who is next among jobs of equal priority. Pure.

By default the one whose user waits longest for what the job is worth: highest (waited + likely run time) / likely run time
first (highest response ratio next; Brinch Hansen 1971). Short jobs pass long ones, and long ones rise as they wait, but a
mean that falls is worth nothing to the one who pays for it. Three things keep the longest wait from growing; all measure by
the longest wait that anybody has lately had, so where nobody waits long, nobody is passed for long:

* A job is *overdue*, and goes before all that are not, in order of submission, once its wait so far and the work that
  stands before it by order of submission (over the machine's size) come to a share of the longest wait.
* It is *late* once its wait alone comes to that share. While some are late, that many jobs have reservations, up to a bound:
  the second in line is not kept back by what is backfilled while the first one waits.
* A late job that takes more than half of the machine, and for which so much is free, goes before all. No two such jobs run
  together, and each makes the machine run empty before it starts. One straight after the other they share that; in order
  of submission narrow jobs fill the machine in between, and it has to run empty again.

With conservative backfill the order is that of the starts that were promised last: who has a promise keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from warpdeck.model import count_tasks

from .cluster import Floats, Ints, Mask
from .settings import Settings
from .site import Tres
from .timeline import ENDLESS_S
from .view import PendingJob, RunningJob, View

SHORTEST_S = 10.0
"""Run times below this count as this, as in the bounded slowdown: nobody minds a few seconds."""
WIDE = 0.5
"""Of a machine: jobs that take more cannot run side by side."""
FIRST, OVERDUE = -np.inf, -1e300
"""Keys of those that go before all, and of the overdue ones; all other keys are response ratios."""

Sizes = Callable[[PendingJob], Tres]


class Turns(NamedTuple):
    """The keys of the jobs (smaller is sooner), and how many of them are late."""

    keys: Floats
    late_count: int = 0


def turns(
    jobs: Sequence[PendingJob], view: View, now: float, *, settings: Settings, sizes: Sizes, likely: Floats
) -> Turns:
    """The turns of the jobs. `sizes` tells what a job counts against limits, `likely` how long each will probably run."""
    if settings.backfill == "conservative":
        promised = [np.inf if job.promised_at_unix is None else job.promised_at_unix for job in jobs]
        return Turns(np.array(promised, dtype=np.float64))
    if settings.queue_order != "response" or not jobs:
        return Turns(np.zeros(len(jobs)))
    waited: Floats = now - np.array([job.eligible_at_unix for job in jobs], dtype=np.float64)
    likely = np.maximum(likely, SHORTEST_S)
    bound = settings.overdue_share * max(view.longest_wait_s, float(waited.max()))
    ahead, goes_now = _against_machines(jobs, likely, view, now, sizes=sizes)
    late: Mask = waited >= bound
    keys = np.where(waited + ahead >= bound, OVERDUE, -(waited + likely) / likely)
    return Turns(np.where(late & goes_now, FIRST, keys), int(np.count_nonzero(late)))


def likely_s(job: PendingJob) -> float:
    """How long the job will probably run: predicted, else its limit."""
    if job.predicted_s is not None:
        return job.predicted_s
    return ENDLESS_S if job.time_limit_s is None else float(job.time_limit_s)


def _against_machines(
    jobs: Sequence[PendingJob], likely: Floats, view: View, now: float, *, sizes: Sizes
) -> tuple[Floats, Mask]:
    """How long each job's partition needs for what runs and for what was submitted before it; who is wide and has room."""
    asked: dict[int, tuple[int, int]] = {}
    for job in jobs:
        if id(job.resources) not in asked:
            tres = sizes(job)
            asked[id(job.resources)] = (tres.get("cpu", 0), tres.get("gres/gpu", 0))
    cpus, gpus = np.array([asked[id(job.resources)] for job in jobs], dtype=np.int64).T
    tasks = np.array([count_tasks(job.tasks) if job.tasks else 1 for job in jobs], dtype=np.int64)
    ids = np.array([job.id for job in jobs], dtype=np.int64)
    order: Ints = np.lexsort((ids, np.array([job.eligible_at_unix for job in jobs])))
    numbers = {name: number for number, name in enumerate(dict.fromkeys(job.partition for job in jobs))}
    of = np.array([numbers[job.partition] for job in jobs], dtype=np.int64)[order]
    ahead, goes_now = np.zeros(len(jobs)), np.zeros(len(jobs), dtype=np.bool_)
    machine = _Machine(view, now)
    for name, number in numbers.items():
        use = machine.use(view, name)
        mine = order[of == number]
        part = np.maximum(cpus[mine] / use.cpus, gpus[mine] / use.gpus)
        before = np.concatenate(([0.0], np.cumsum(likely[mine] * part * tasks[mine])[:-1]))
        ahead[mine] = before + use.running_s
        has_room = (cpus[mine] <= use.free_cpus) & (gpus[mine] <= use.free_gpus)
        goes_now[mine] = has_room & (part > WIDE)
    return ahead, goes_now


class _Use(NamedTuple):
    """Of a partition: what there is, what of it is free, and what runs will still use, in seconds of the whole partition."""

    cpus: int
    gpus: int
    free_cpus: int
    free_gpus: int
    running_s: float


class _Machine:
    """Nodes that take jobs, and what is held of them: one entry of the arrays for each part of a job on a node."""

    def __init__(self, view: View, now: float) -> None:
        self._row = {node.name: row for row, node in enumerate(view.nodes)}
        takes = [not node.unavailable for node in view.nodes]
        self._takes: Mask = np.array(takes, dtype=np.bool_)
        self._cpus: Ints = np.array([node.cpus for node in view.nodes], dtype=np.int64)
        self._gpus: Ints = np.array([len(node.gpus) for node in view.nodes], dtype=np.int64)
        self._left_s = np.array([max(0.0, _ends(job, now) - now) for job in view.running])
        held = [
            (self._row[share.node], at, share.cpus, len(share.gpus))
            for at, job in enumerate(view.running)
            for share in job.allocation.shares
            if share.node in self._row
        ]
        self._held: Ints = np.array(held, dtype=np.int64).reshape(-1, 4).T

    def use(self, view: View, partition: str) -> _Use:
        """Of a partition's nodes, or of all if none is named so."""
        takes = self._takes
        names = next((each.nodes for each in view.partitions if each.name == partition), None)
        if names is not None:
            takes = np.zeros(len(takes), dtype=np.bool_)
            takes[[self._row[name] for name in names if name in self._row]] = True
            takes &= self._takes
        cpus, gpus = max(1, int(self._cpus[takes].sum())), max(1, int(self._gpus[takes].sum()))
        _, jobs, held_cpus, held_gpus = self._held[:, takes[self._held[0]]]
        by_job = [np.bincount(jobs, held, len(self._left_s)) for held in (held_cpus, held_gpus)]
        part = np.maximum(by_job[0] / cpus, by_job[1] / gpus)
        return _Use(
            cpus=cpus,
            gpus=gpus,
            free_cpus=cpus - int(held_cpus.sum()),
            free_gpus=gpus - int(held_gpus.sum()),
            running_s=float(part @ self._left_s),
        )


def _ends(job: RunningJob, now: float) -> float:
    if job.expects_end_unix is not None:
        return job.expects_end_unix
    return now + ENDLESS_S if job.ends_by_unix is None else job.ends_by_unix
