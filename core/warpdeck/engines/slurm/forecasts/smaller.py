"""Smaller requests that may start now. A few of them are tested with sbatch --test-only. The functions are pure.

The start that it tells is delayed by the time limits of all waiting jobs, the job itself among them. A tiny request, the
probe, is delayed by the same time. If a smaller request starts with the probe, its resources are free now.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from warpdeck.model import Job, Request, Resources
from warpdeck.notation.values.durations import format_clock

MAX_TRIES = 3
SHORTEST_S = 300
"""No shorter time limit is proposed than this number of seconds."""


class Smaller(NamedTuple):
    """A request, and the option of sbatch in which it differs."""

    request: Request
    option: str


def probe(job: Job) -> Request:
    """Return a request for one CPU and a minute, in the same partition."""
    return msgspec.structs.replace(
        _plain(job.request),
        resources=Resources(),
        time_limit_s=60,
        time_min_s=None,
        unlimited=False,
        licenses=(),
    )


def smaller_requests(job: Job) -> list[Smaller]:
    """Return at most three requests: with half the GPUs, half the nodes, and a quarter of the time."""
    request = _plain(job.request)
    found: list[Smaller] = []
    resources, gpus = request.resources, request.resources.gpus
    for name, option in (
        ("total", "--gpus"),
        ("per_node", "--gpus-per-node"),
        ("per_task", "--gpus-per-task"),
    ):
        count = getattr(gpus, name) or 0
        if count > 1:
            fewer = msgspec.structs.replace(gpus, **{name: count // 2})
            kind = f"{gpus.type}:" if gpus.type else ""
            less = msgspec.structs.replace(resources, gpus=fewer)
            found.append(_with(request, less, f"{option}={kind}{count // 2}"))
    if resources.nodes_min > 1:
        half = resources.nodes_min // 2
        tasks = max(half, (resources.tasks or 1) // 2) if resources.tasks else None
        less = msgspec.structs.replace(resources, nodes_min=half, nodes_max=half, tasks=tasks)
        found.append(_with(request, less, f"--nodes={half}" + (f" --ntasks={tasks}" if tasks else "")))
    limit_s = job.time_limit_s or request.time_limit_s
    if limit_s and limit_s >= 4 * SHORTEST_S:
        shorter = limit_s // 4 // 60 * 60
        changed = msgspec.structs.replace(request, time_limit_s=shorter, time_min_s=None, unlimited=False)
        found.append(Smaller(changed, f"--time={format_clock(shorter)}"))
    return found[:MAX_TRIES]


def _plain(request: Request) -> Request:
    """Return the request with only the options that matter for the start."""
    return msgspec.structs.replace(
        request,
        array=None,
        begin_at_unix=None,
        dependencies=None,
        comment="",
        output="",
        error="",
        input="",
        mail_types=(),
    )


def _with(request: Request, resources: Resources, option: str) -> Smaller:
    return Smaller(msgspec.structs.replace(request, resources=resources), option)
