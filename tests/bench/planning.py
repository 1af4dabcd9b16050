"""Planning passes over full clusters with long queues, in CPU time; how they grow, and what they allocate."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from random import Random

import msgspec

from tests import builders
from warpdeck.model import Allocation, GpuAsk, JobId, NodeName, Resources, Share
from warpdeck.policy import NodeView, PendingJob, ReservationView, RunningJob, Settings, View, plan

from .table import Line, Measured, Table

NOW = 1_000_000.0
SHAPES = 200
USERS = 50
FREE_ONE_IN = 50
"""One node in so many is free."""
SMALL = Line("planning pass, 1,000 nodes x 8 GPUs, 10,000 pending", "ms", budget=50)
LARGE = Line("planning pass, 10,000 nodes, 100,000 pending, 64 reservations", "ms", budget=500)
EVENT = Line("pass after one event, 1,000 full nodes, 1,000 pending", "ms", budget=5)
MEMORY = Line("planning pass, 1,000 nodes, 10,000 pending: peak", "MB")
GROWTH = (1_000, 3_000, 10_000, 30_000, 100_000)


def crowded_site(nodes: int, pending: int, *, reservations: int = 0, free: bool = True) -> View:
    """Jobs of many sizes hold nearly all nodes; the waiting ones have 200 kinds of request, gangs among them."""
    rng = Random(nodes * 1_000_003 + pending)
    machines = [
        msgspec.structs.replace(builders.node(f"n{number:05}"), switch=f"s{number // 32}")
        for number in range(nodes)
    ]
    idle = set(range(0, nodes, FREE_ONE_IN)) if free else set()
    held: list[RunningJob] = []
    for number, machine in enumerate(machines):
        if number not in idle:
            held += _jobs_on(rng, machine, len(held) + 1)
    kinds = [_kind(rng) for _ in range(SHAPES)]
    jobs = [_waiting(rng, len(held) + 1 + number, kinds) for number in range(pending)]
    set_aside = tuple(
        ReservationView(
            name=f"r{number:02}",
            nodes=frozenset(machine.name for machine in rng.sample(machines, 4)),
            start_unix=NOW + 1000 * number,
            end_unix=NOW + 1000 * number + 7200,
        )
        for number in range(reservations)
    )
    return msgspec.structs.replace(builders.view(machines, jobs, held), reservations=set_aside)


def _jobs_on(rng: Random, machine: NodeView, first_id: int) -> list[RunningJob]:
    found: list[RunningJob] = []
    at = 0
    while at < len(machine.gpus):
        gpus = machine.gpus[at : at + rng.choice((1, 1, 2, 4, 8))]
        at += len(gpus)
        share = Share(
            node=NodeName(machine.name),
            cpus=8 * len(gpus),
            mem_bytes=32 * builders.GIB * len(gpus),
            gpus=tuple(gpu.index for gpu in gpus),
            gpu_uuids=tuple(gpu.uuid for gpu in gpus),
        )
        number = JobId(first_id + len(found))
        found.append(
            RunningJob(
                id=number,
                array_job_id=number,
                allocation=Allocation(shares=(share,)),
                ends_by_unix=NOW + rng.randint(1, 100_000),
                user=f"u{rng.randrange(USERS)}",
                start_at_unix=NOW - 1000,
            )
        )
    return found


def _kind(rng: Random) -> tuple[Resources, int]:
    nodes = rng.choice((1, 1, 1, 1, 2, 4, 8))
    asked = Resources(
        nodes_min=nodes,
        nodes_max=nodes,
        cpus_per_task=rng.randint(1, 32),
        mem_per_node_bytes=rng.randint(1, 256) * builders.GIB,
        gpus=GpuAsk(per_node=rng.choice((1, 1, 2, 4, 8))),
    )
    return asked, rng.choice((600, 3600, 7200, 86_400))


def _waiting(rng: Random, number: int, kinds: list[tuple[Resources, int]]) -> PendingJob:
    asked, limit_s = rng.choice(kinds)
    return builders.pending(number, resources=asked, limit_s=limit_s, user=f"u{rng.randrange(USERS)}")


def cpu_ms(work: Callable[[], object], runs: int) -> Measured:
    """CPU time of each run; the collector rests, as nothing here makes cycles."""
    gc.collect()
    gc.disable()
    readings = []
    for _ in range(runs):
        began = time.process_time()
        work()
        readings.append((time.process_time() - began) * 1e3)
    gc.enable()
    return Measured(readings)


def measure(table: Table) -> None:
    """The budgets, one event, memory, and growth with the length of the queue."""
    small = crowded_site(1000, 10_000)
    table.add(SMALL, cpu_ms(lambda: plan(small, NOW, Settings()), 7))
    large = crowded_site(10_000, 100_000, reservations=64)
    table.add(LARGE, cpu_ms(lambda: plan(large, NOW, Settings()), 3))
    full = crowded_site(1000, 1000, free=False)
    after = msgspec.structs.replace(full, running=full.running[1:])
    table.add(EVENT, cpu_ms(lambda: plan(after, NOW, Settings()), 7))
    table.add(MEMORY, _peak_mb(small))
    for pending in GROWTH:
        view = crowded_site(1000, pending)
        line = Line(f"planning pass, 1,000 nodes, {pending:,} pending", "ms")
        table.add(line, cpu_ms(lambda view=view: plan(view, NOW, Settings()), 3))


def _peak_mb(view: View) -> Measured:
    tracemalloc.start()
    plan(view, NOW, Settings())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return Measured([peak / 1e6])
