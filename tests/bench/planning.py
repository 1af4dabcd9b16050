"""One planning pass over a full cluster with a long queue."""

from __future__ import annotations

import gc

from tests import builders
from warpdeck.policy import Settings, View, plan

from .table import Line, Table, timed

NOW = 1_000_000.0
SHAPES = 200
SMALL = Line("planning pass, 1,000 nodes x 8 GPUs, 10,000 pending", "ms", budget=50)
LARGE = Line("planning pass, 10,000 nodes, 100,000 pending", "ms", budget=500)


def full_cluster(nodes: int, pending: int) -> View:
    """Every node is taken by one job; the waiting ones have so many different shapes and time limits."""
    machines = [builders.node(f"n{number:05}") for number in range(nodes)]
    held = [
        builders.running(
            number + 1, f"n{number:05}", tuple(range(8)), ends=NOW + 600 + number % 3600, cpus=64
        )
        for number in range(nodes)
    ]
    jobs = [
        builders.pending(
            nodes + number + 1,
            gpus=1 + number % 8,
            nodes=1 + (number % SHAPES) // 8 % 5,
            limit_s=600 * (1 + number % SHAPES // 40),
        )
        for number in range(pending)
    ]
    return builders.view(machines, jobs, held)


def measure(table: Table) -> None:
    """Both sizes; the collector rests, as nothing here makes cycles."""
    for line, nodes, pending, runs in ((SMALL, 1000, 10_000, 7), (LARGE, 10_000, 100_000, 3)):
        picture = full_cluster(nodes, pending)
        gc.collect()
        table.add(line, timed(lambda picture=picture: plan(picture, NOW, Settings()), runs))
