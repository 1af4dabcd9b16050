"""Who is next among jobs of equal priority. Pure.

By default the one whose user waits longest for what the job is worth: highest (waited + likely run time) / likely run time
first (highest response ratio next; Brinch Hansen 1971). Short jobs pass long ones, and long ones rise as they wait, but a
mean that falls is worth nothing to the one who pays for it. So a job is *overdue*, and then goes before all that are not, in
order of submission and with a reservation, once its wait so far, and the work that stands before it by order of submission
(over the machine's size), come near the longest wait that anybody has lately had. That bound measures itself: where
nobody waits long, nobody is passed for long.

With conservative backfill the order is that of the starts that were promised last: who has a promise keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from warpdeck.model import count_tasks

from .cluster import Floats, Mask
from .settings import Settings
from .site import Tres
from .timeline import ENDLESS_S
from .view import PendingJob, RunningJob, View

SHORTEST_S = 10.0
"""Run times below this count as this, as in the bounded slowdown: nobody minds a few seconds."""

Sizes = Callable[[PendingJob], Tres]


class Turns:
    """The keys of the jobs (smaller is sooner), and which of them are overdue."""

    def __init__(self, keys: Floats, overdue: Mask) -> None:
        self.keys = keys
        self.overdue_count = int(np.count_nonzero(overdue))


def turns(
    jobs: Sequence[PendingJob], view: View, now: float, *, settings: Settings, sizes: Sizes, likely: Floats
) -> Turns:
    """The turns of the jobs. `sizes` tells what a job counts against limits, `likely` how long each will probably run."""
    nobody = np.zeros(len(jobs), dtype=np.bool_)
    if settings.backfill == "conservative":
        promised = [np.inf if job.promised_at_unix is None else job.promised_at_unix for job in jobs]
        return Turns(np.array(promised, dtype=np.float64), nobody)
    if settings.queue_order != "response" or not jobs:
        return Turns(np.zeros(len(jobs)), nobody)
    waited: Floats = now - np.array([job.eligible_at_unix for job in jobs], dtype=np.float64)
    likely = np.maximum(likely, SHORTEST_S)
    longest = settings.overdue_share * max(view.longest_wait_s, float(waited.max()))
    overdue: Mask = waited + _ahead_s(jobs, likely, view, now, sizes=sizes) >= longest
    return Turns(np.where(overdue, -np.inf, -(waited + likely) / likely), overdue)


def likely_s(job: PendingJob) -> float:
    """How long the job will probably run: predicted, else its limit."""
    if job.predicted_s is not None:
        return job.predicted_s
    return ENDLESS_S if job.time_limit_s is None else float(job.time_limit_s)


def _ahead_s(jobs: Sequence[PendingJob], likely: Floats, view: View, now: float, *, sizes: Sizes) -> Floats:
    """How long the whole partition needs for what runs and for what was submitted before each job."""
    cpus = max(1, sum(node.cpus for node in view.nodes if not node.unavailable))
    gpus = max(1, sum(len(node.gpus) for node in view.nodes if not node.unavailable))
    scale = _partition_scales(view)
    parts: dict[int, float] = {}
    for job in jobs:
        if id(job.resources) not in parts:
            asked = sizes(job)
            parts[id(job.resources)] = max(asked.get("cpu", 0) / cpus, asked.get("gres/gpu", 0) / gpus)
    work: Floats = likely * np.array(
        [parts[id(job.resources)] * (count_tasks(job.tasks) if job.tasks else 1) for job in jobs],
        dtype=np.float64,
    )
    order = np.lexsort((np.array([job.id for job in jobs]), np.array([job.eligible_at_unix for job in jobs])))
    ahead = np.zeros(len(jobs))
    running = _running_work(view, now, cpus=cpus, gpus=gpus)
    names = [job.partition for job in jobs]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    of = np.array([numbers[name] for name in names])[order]
    for name, number in numbers.items():
        mine = order[of == number]
        before = np.concatenate(([0.0], np.cumsum(work[mine])[:-1]))
        ahead[mine] = (before + running.get(name, 0.0)) * scale.get(name, 1.0)
    return ahead


def _running_work(view: View, now: float, *, cpus: int, gpus: int) -> dict[str, float]:
    """By partition the seconds of the whole machine that running jobs will still take."""
    found: dict[str, float] = {}
    for job in view.running:
        own_cpus = own_gpus = 0
        for share in job.allocation.shares:
            own_cpus += share.cpus
            own_gpus += len(share.gpus)
        part = max(own_cpus / cpus, own_gpus / gpus)
        found[job.partition] = found.get(job.partition, 0.0) + part * max(0.0, _ends(job, now) - now)
    return found


def _ends(job: RunningJob, now: float) -> float:
    if job.expects_end_unix is not None:
        return job.expects_end_unix
    return now + ENDLESS_S if job.ends_by_unix is None else job.ends_by_unix


def _partition_scales(view: View) -> dict[str, float]:
    """How many times smaller than the machine each partition is."""
    healthy = [node.name for node in view.nodes if not node.unavailable]
    return {
        part.name: len(healthy) / max(1, sum(name in part.nodes for name in healthy))
        for part in view.partitions
        if part.nodes is not None
    }
