"""How what a step has used on this node was spread over its tasks: the sum, the most and the least, and whose those were. Pure."""

from __future__ import annotations

from typing import Dict, List, Mapping

from warpdeck_agent.wire.watch import Spread

from .task import Task


def spreads(tasks: Mapping[int, Task]) -> List[Spread]:
    """Of tasks that have ended. What is nothing for all of them was not measured, and is left out."""
    moved = {rank: task.transferred() for rank, task in tasks.items()}
    found = (
        spread("cpu_s", {rank: task.cpu().total_s for rank, task in tasks.items()}),
        spread("mem_bytes", {rank: float(task.peak_mem_bytes) for rank, task in tasks.items()}),
        spread("read_bytes", {rank: float(each[0]) for rank, each in moved.items()}),
        spread("written_bytes", {rank: float(each[1]) for rank, each in moved.items()}),
    )
    return [each for each in found if each.most]


def spread(name: str, values: Dict[int, float]) -> Spread:
    """`values`: by rank. Of equal ones the lowest rank's counts."""
    if not values:
        return Spread(name)
    most_rank = min(values, key=lambda rank: (-values[rank], rank))
    least_rank = min(values, key=lambda rank: (values[rank], rank))
    return Spread(name, sum(values.values()), values[most_rank], most_rank, values[least_rank], least_rank)
