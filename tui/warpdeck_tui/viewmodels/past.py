"""The cluster as it was at a moment: who held which GPU, from the records of jobs."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from warpdeck.api.rows import GpuRow, HeldRow, NodeRow

from .cells import age

STEP_S = 600.0
"""How far one key goes: a night in fifty presses, and no job of consequence is between two."""
MOST_S = 30 * 86_400.0
"""Nobody remembers what happened earlier, and each moment asks the store."""


def moved(at: float | None, steps: int, now: float) -> float | None:
    """The moment so many steps further, on round tens of minutes; None is now."""
    here = now if at is None else at
    wanted = (here // STEP_S + steps + (1 if steps < 0 and here % STEP_S else 0)) * STEP_S
    wanted = max(wanted, (now - MOST_S) // STEP_S * STEP_S)
    return None if wanted >= now else wanted


def moment_words(at: float, now: float) -> str:
    """ "as it was on Sat 03:12, 5h02 ago"."""
    return f"as it was on {time.strftime('%a %H:%M', time.localtime(at))}, {age(now - at)} ago"


def as_it_was(nodes: Sequence[NodeRow], held: Sequence[HeldRow]) -> list[NodeRow]:
    """Today's nodes with the jobs of then. What was read of them then is not known, and not made up."""
    holders = {
        (node, index): job for job in held for node, indices in job.gpus_held.items() for index in indices
    }
    return [
        _node(node, [_gpu(gpu, holders.get((node.name, gpu.index))) for gpu in node.gpus]) for node in nodes
    ]


def _gpu(gpu: GpuRow, job: HeldRow | None) -> GpuRow:
    return GpuRow(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        type=gpu.type,
        mem_bytes=gpu.mem_bytes,
        job=job.label if job is not None else "",
        job_user=job.user if job is not None else "",
    )


def _node(node: NodeRow, gpus: list[GpuRow]) -> NodeRow:
    busy = sum(bool(gpu.job) for gpu in gpus)
    state = "idle" if not busy else "allocated" if busy == len(gpus) else "mixed"
    return msgspec.structs.replace(
        node,
        gpus=gpus,
        state=state,
        reason="",
        health=[],
        jobs=list(dict.fromkeys(gpu.job for gpu in gpus if gpu.job)),
        cpus_used=0,
        cpu_pct=None,
        mem_used_bytes=None,
    )
