"""Why a job waits, in Slurm's reason codes and in words. Pure."""

from __future__ import annotations

import numpy as np

from warpdeck.model import Resources, Why, count_tasks
from warpdeck.notation.times import roughly

from .cluster import CPUS, GPUS, MEM
from .demand import WHOLE_NODE, Need, needs
from .placement import Shape
from .timeline import Timeline
from .view import PendingJob

GIB = 2**30
INSTANT_S = 0.001
"""A duration that no reservation is in the way of: what fits for this long fits now but for those ahead."""
MAX_NAMED = 3
"""Nodes or GPUs named in a sentence."""


def before_its_time(job: PendingJob, now: float) -> Why | None:
    """A reason that lies in the job itself: held, dependencies, begin time. None if it could start."""
    if job.held:
        if job.held_by_admin:
            return Why(code="JobHeldAdmin", sentence="held by an admin, who alone can release it")
        return Why(code="JobHeldUser", sentence=f"held; `warpdeck release {job.array_job_id}` lets it go")
    if job.never:
        return Why(code="DependencyNeverSatisfied", sentence=f"can never start: {job.never}")
    if job.waits_for:
        return Why(code="Dependency", sentence=job.waits_for)
    if job.begin_at_unix is not None and job.begin_at_unix > now:
        wait = roughly(job.begin_at_unix - now)
        return Why(
            code="BeginTime",
            sentence=f"asked to begin later, in {wait}",
            expected_start_unix=job.begin_at_unix,
        )
    return None


def throttled(job: PendingJob) -> Why:
    """The array's own limit."""
    return Why(
        code="JobArrayTaskLimit",
        sentence=f"{job.throttle} tasks of the array run, as many as it allows; {count_tasks(job.tasks)} wait",
    )


def describe_need(asked: Resources) -> str:
    """What is asked, in words: "4 GPUs of type h100 and 16 CPUs on each of 2 nodes"."""
    wanted = needs(asked, asked.nodes_min, default_mem_per_cpu_bytes=0)
    if not wanted:
        return f"{asked.gpus.total} GPUs over {asked.nodes_min} nodes"
    need = wanted[0]
    parts = []
    if need.gpus:
        kind = f" of type {need.gpu_type}" if need.gpu_type else ""
        count = f"{need.gpu_share_pct} % of a GPU" if need.gpu_share_pct < 100 else _many(need.gpus, "GPU")
        parts.append(count + kind)
    parts.append(_many(need.cpus, "CPU"))
    if need.mem_bytes == WHOLE_NODE:
        parts.append("all memory")
    elif need.mem_bytes:
        parts.append(f"{need.mem_bytes / GIB:.0f} GiB")
    where = "one node" if len(wanted) == 1 else f"each of {len(wanted)} nodes"
    if asked.constraint:
        where += f" with {asked.constraint}"
    return ", ".join(parts) + f" on {where}"


def lacks(timeline: Timeline, shape: Shape) -> str:
    """What is missing for it now, in words; names strangers and nodes that are out."""
    cluster, usable = timeline.cluster, shape.usable()
    rows = np.flatnonzero(usable & cluster.takes_jobs)
    if not len(rows):
        out = [cluster.nodes[row] for row in np.flatnonzero(usable)[:MAX_NAMED]]
        named = "; ".join(f"{node.name} {node.unavailable}" for node in out)
        return "no node that it may use takes jobs now" + (f" ({named})" if named else "")
    gang = shape.gangs[0] if shape.gangs else None
    need = gang.wanted[0][0] if gang else Need(tasks=1, cpus=1, mem_bytes=0, gpus=0)
    if gang is not None and gang.nodes > 1:
        fitting = len(timeline.fitting_now(need, INSTANT_S, usable))
        if fitting:
            return f"{fitting} of the {gang.nodes} nodes it needs could take it now"
    column = cluster.type_columns.get(need.gpu_type, GPUS)
    free = timeline.free_now[:, rows]
    freest = np.arange(len(rows))
    for counted in (column, CPUS, MEM) if need.gpus else (CPUS, MEM):
        freest = freest[free[counted, freest] == free[counted, freest].max()]
    best = int(rows[freest[0]])
    words = _free_words(timeline, best, need, column)
    blocked = [f"{gpu.index} {gpu.blocked}" for gpu in cluster.nodes[best].gpus if gpu.blocked and need.gpus]
    return words + (f"; GPU {', '.join(blocked[:2])}" if blocked else "")


def _free_words(timeline: Timeline, row: int, need: Need, column: int) -> str:
    name = timeline.cluster.nodes[row].name
    free = np.maximum(timeline.free[:, row, 0], 0)
    if need.gpus and free[column] < need.gpus:
        return f"{name}, the freest, has {free[column]} free"
    if need.exclusive and free[CPUS] < timeline.cluster.capacity[CPUS, row]:
        return "no node is empty"
    if free[CPUS] < need.cpus:
        return f"{name}, the freest, has {_many(int(free[CPUS]), 'CPU')} free"
    return f"{name}, the freest, has {free[MEM] / GIB:.0f} GiB free"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
