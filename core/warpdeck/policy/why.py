"""Why a job waits, in Slurm's reason codes and in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from warpdeck.model import Resources, Why, count_tasks

from .demand import WHOLE_NODE, Need, needs
from .placement import Room
from .view import PendingJob, View


def before_its_time(job: PendingJob, now: float) -> Why | None:
    """A reason that lies in the job itself: held, dependencies, begin time. None if it could start."""
    if job.held:
        return Why(code="JobHeldUser", sentence=f"held; `warpdeck release {job.array_job_id}` lets it go")
    if job.never:
        return Why(code="DependencyNeverSatisfied", sentence=f"can never start: {job.never}")
    if job.waits_for:
        return Why(code="Dependency", sentence=job.waits_for)
    if job.begin_at_unix is not None and job.begin_at_unix > now:
        wait = duration(job.begin_at_unix - now)
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
        parts.append(f"{need.gpus} GPU{'s' * (need.gpus > 1)}{kind}")
    parts.append(f"{need.cpus} CPU{'s' * (need.cpus > 1)}")
    if need.mem_bytes == WHOLE_NODE:
        parts.append("all memory")
    elif need.mem_bytes:
        parts.append(f"{need.mem_bytes / 2**30:.0f} GiB")
    where = "one node" if len(wanted) == 1 else f"each of {len(wanted)} nodes"
    return ", ".join(parts) + f" on {where}"


def lacks(asked: Resources, rooms: Sequence[Room], view: View) -> str:
    """What is missing for it now, in words; names strangers and nodes that are out."""
    if not rooms:
        out = [f"{node.name} {node.unavailable}" for node in view.nodes if node.unavailable]
        return "no node takes jobs now" + (f" ({'; '.join(out[:3])})" if out else "")
    wanted = needs(asked, asked.nodes_min, default_mem_per_cpu_bytes=0)
    need = wanted[0] if wanted else Need(tasks=1, cpus=1, mem_bytes=0, gpus=0)
    fitting = sum(room.fits(need) for room in rooms)
    if len(wanted) > 1 and fitting:
        return f"{fitting} of the {len(wanted)} nodes it needs could take it now"
    best = max(rooms, key=lambda room: (len(room.matching(need.gpu_type)) if need.gpus else 0, room.cpus))
    words = _free_words(best, need)
    blocked = [f"{gpu.index} {gpu.blocked}" for gpu in best.node.gpus if gpu.blocked and need.gpus]
    return words + (f"; GPU {', '.join(blocked[:2])}" if blocked else "")


def _free_words(best: Room, need: Need) -> str:
    name = best.node.name
    if need.gpus:
        free = len(best.matching(need.gpu_type))
        if free < need.gpus:
            return f"{name}, the freest, has {free} free"
    if best.cpus < need.cpus:
        return f"{name}, the freest, has {best.cpus} CPU{'s' * (best.cpus != 1)} free"
    if need.exclusive and best.used:
        return "no node is empty"
    return f"{name}, the freest, has {best.mem_bytes / 2**30:.0f} GiB free"


def duration(seconds: float) -> str:
    """Roughly how long: "40 s", "12 min", "2 h 10 min", "3 d 4 h"."""
    total = max(0, round(seconds))
    if total < 90:
        return f"{total} s"
    minutes = round(total / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
