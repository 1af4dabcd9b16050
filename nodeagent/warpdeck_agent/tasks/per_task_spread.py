"""Distribution of a step's usage over its tasks on this node.

It consists of the sum, the maximum and the minimum, with their ranks. Pure functions.
"""

from __future__ import annotations

from typing import Dict, List, Mapping

from warpdeck_agent.wire.watch import Spread

from .task import Task


def spreads(tasks: Mapping[int, Task]) -> List[Spread]:
    """Return the distributions for ended tasks.

    A quantity that is zero for all tasks was not measured, and is omitted.
    """
    moved = {rank: task.transferred() for rank, task in tasks.items()}
    found = (
        spread("cpu_s", {rank: task.cpu().total_s for rank, task in tasks.items()}),
        spread("mem_bytes", {rank: float(task.peak_mem_bytes) for rank, task in tasks.items()}),
        spread("read_bytes", {rank: float(each[0]) for rank, each in moved.items()}),
        spread("written_bytes", {rank: float(each[1]) for rank, each in moved.items()}),
    )
    return [each for each in found if each.most]


def spread(name: str, values: Dict[int, float]) -> Spread:
    """Return the distribution of `values` by rank. Of equal values, the lowest rank is given."""
    if not values:
        return Spread(name)
    most_rank = min(values, key=lambda rank: (-values[rank], rank))
    least_rank = min(values, key=lambda rank: (values[rank], rank))
    return Spread(name, sum(values.values()), values[most_rank], most_rank, values[least_rank], least_rank)
