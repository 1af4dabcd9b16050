"""Compare a planning pass over a full cluster and a long queue with Slurm's scheduling cycles on the same input.

Slurm's nodes exist only in its tables (State=CLOUD, powered off), and its times come from `sdiag`.
Our pass considers every array each time. Slurm's backfill cycle ends early if jobs change while it yields,
which happens here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.support import builders
from tests.support.waiting import eventually
from warpdeck.model import Allocation, GpuRequest, JobId, Resources, Share
from warpdeck.policy import PendingJob, PlannerSettings, PlannerView, RunningJob, plan

from .crowded import NOW
from .table import Line, PeerReadings, Table, cpu_timed

NODES = 1000
GPUS, CPUS = 8, 64
TASKS = 50
HOLDERS = tuple(range(1, 11))
"""Time limits in hours of ten arrays that each hold a tenth of the nodes. Slurm plans a day ahead."""
CYCLES = 5
PATIENCE_S = 300.0

BACKFILL = Line("pass, 1,000 full nodes, 200 arrays: backfill cycle", "ms", slurm="backfill_cycle")
MAIN = Line("the same pass: main cycle", "ms", slurm="main_cycle")


class ArrayRequest(NamedTuple):
    """Request of each task of an array."""

    nodes: int
    gpus: int
    """GPUs on each node; the same number of CPUs."""
    cpus: int
    minutes: int


QUEUE = tuple(
    ArrayRequest(nodes=nodes, gpus=gpus, cpus=cpus, minutes=minutes)
    for nodes in (1, 2, 4, 8)
    for gpus in (1, 2, 4, 6, 8)
    for cpus in (4, 8)
    for minutes in (10, 60, 120, 720, 1440)
)
"""The waiting arrays, each with TASKS tasks."""


def crowd() -> PlannerView:
    """Return the cluster and the queue as input of our planner."""
    machines = [builders.node(f"n{number:04}", gpus=GPUS, cpus=CPUS) for number in range(NODES)]
    held = []
    for number, machine in enumerate(machines):
        share = Share(
            node=machine.name,
            cpus=CPUS,
            mem_bytes=0,
            gpus=tuple(range(GPUS)),
            gpu_uuids=tuple(gpu.uuid for gpu in machine.gpus),
        )
        hours = HOLDERS[number * len(HOLDERS) // NODES]
        held.append(
            RunningJob(
                id=JobId(1 + number),
                allocation=Allocation(shares=(share,)),
                ends_by_unix=NOW + 3600 * hours,
                user="u",
                start_at_unix=NOW,
            )
        )
    return builders.view(
        machines, [_waiting(NODES + 1 + at, request) for at, request in enumerate(QUEUE)], held
    )


def _waiting(number: int, request: ArrayRequest) -> PendingJob:
    resources = Resources(
        nodes_min=request.nodes,
        nodes_max=request.nodes,
        cpus_per_task=request.cpus,
        gpus=GpuRequest(per_node=request.gpus),
    )
    job = builders.pending(number, resources=resources, limit_s=60 * request.minutes, user="u")
    return msgspec.structs.replace(job, tasks=((1, TASKS, 1),))


def measure(table: Table) -> None:
    """Measure our pass and both kinds of Slurm's cycles."""
    view = crowd()
    made = plan(view, NOW, PlannerSettings())
    assert not made.starts and len(made.pending_reasons) == len(QUEUE), (
        "nothing starts, and every array has a reason"
    )
    found = cpu_timed(lambda: plan(view, NOW, PlannerSettings()), 7)
    table.add(BACKFILL, found)
    table.add(MAIN, found)


def slurm_cycles(call: Callable[..., str], script: Path) -> PeerReadings:
    """Return the mean of each kind of cycle in milliseconds.

    The measured Slurm has NODES nodes in its partition "cloud".
    """
    submit = ("sbatch", "-p", "cloud", "-o", "/dev/null")
    for hours in HOLDERS:
        whole = ("-N1", "--exclusive", f"--array=1-{NODES // len(HOLDERS)}", f"--time={60 * hours}")
        call(*submit, *whole, str(script))
    eventually(
        lambda: len(call("squeue", "-h", "-r", "-t", "CF,R", "-o", "%i").split()) == NODES,
        timeout_s=PATIENCE_S,
        what="jobs on all nodes",
    )
    for request in QUEUE:
        resources = (
            f"-N{request.nodes}",
            "--ntasks-per-node=1",
            f"-c{request.cpus}",
            f"--gres=gpu:{request.gpus}",
        )
        call(*submit, *resources, f"--time={request.minutes}", f"--array=1-{TASKS}", str(script))
    held = call(*submit, "-H", "--parsable", str(script)).strip()
    call("sdiag", "--reset")
    nices = itertools.count(1)
    return eventually(
        lambda: _means(call, changed=f"JobId={held} Nice={next(nices)}"),
        timeout_s=PATIENCE_S,
        what="enough cycles of Slurm",
    )


def _means(call: Callable[..., str], *, changed: str) -> PeerReadings | None:
    """Return the means, or None before there were enough cycles.

    Slurm runs a cycle only after a change, so a held job is changed before each one.
    """
    call("scontrol", "update", *changed.split())
    main, backfill = call("sdiag").split("Main schedule statistics")[1].split("Backfilling stats")
    if min(_figure(main, "Total cycles"), _figure(backfill, "Total cycles")) < CYCLES:
        return None
    return {
        "main_cycle": _figure(main, "Mean cycle") / 1e3,
        "backfill_cycle": _figure(backfill, "Mean cycle") / 1e3,
    }


def _figure(text: str, name: str) -> float:
    """Return a number of sdiag's output, or 0 if it is missing."""
    found = re.search(rf"{name}:\s*(\d+)", text)
    return float(found[1]) if found else 0.0
