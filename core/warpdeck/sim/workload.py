"""The demo's workload: users, their jobs, the run times and the results. All values come from the given
generator.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import msgspec

from warpdeck.model import ArraySpec, Dependencies, Dependency, GpuRequest, JobId, PtySize, Request, Resources
from warpdeck.notation.request.sweep import parse_grid, task_count, with_sweep
from warpdeck.ports.caller import Principal
from warpdeck_agent.wire import messages as wire

HOUR_S = 3600
DAY_S = 24 * HOUR_S
CPUS_PER_GPU = 8
GIB_PER_GPU = 96
FAILS, HANGS = 0.12, 0.05
"""Shares of jobs that fail, mostly early, and of jobs that hang until their limit ends them."""
SHELL_S = 8 * HOUR_S


class JobKind(NamedTuple):
    """A kind of job: GPUs per node, nodes, run time in minutes, limit in hours, and relative frequency."""

    name: str
    gpus: int
    nodes: int
    minutes: tuple[float, float]
    limit_h: int
    weight: int


JOB_KINDS = (
    JobKind("llama-8b-sft", 8, 2, (90, 300), 12, 1),
    JobKind("llama-8b-dpo", 8, 1, (40, 160), 8, 2),
    JobKind("vit-l-pretrain", 4, 1, (60, 240), 6, 3),
    JobKind("whisper-ft", 2, 1, (20, 90), 4, 4),
    JobKind("sd-lora", 1, 1, (8, 30), 1, 6),
    JobKind("rlhf-ppo", 4, 1, (30, 120), 4, 2),
    JobKind("eval-mmlu", 1, 1, (1, 6), 1, 8),
    JobKind("tokenize-c4", 0, 1, (2, 12), 2, 3),
)
USERS = ("alice", "bob", "carol", "dave", "erin")
MINUTES = {kind.name: kind.minutes for kind in JOB_KINDS} | {"lr-sweep": (6.0, 25.0)}


def principal_of(user: str) -> Principal:
    return Principal(user=user, uid=1000 + USERS.index(user))


def any_request(rng: random.Random) -> tuple[Principal, Request]:
    """Return a random job and its user."""
    kind = rng.choices(JOB_KINDS, [kind.weight for kind in JOB_KINDS])[0]
    user = rng.choice(USERS)
    limit_s = kind.limit_h * HOUR_S
    return principal_of(user), _request(
        kind.name, gpus=kind.gpus, nodes=kind.nodes, limit_s=limit_s, user=user
    )


def sweep(user: str, *, grid: str, at_once: int) -> Request:
    """Return an array over all combinations of some values."""
    array = ArraySpec(ranges=((0, task_count(parse_grid(grid)) - 1, 1),), throttle=at_once)
    request = _request("lr-sweep", gpus=1, nodes=1, limit_s=HOUR_S, user=user, array=array)
    return msgspec.structs.replace(request, script=with_sweep(request.script, grid))


def shell(user: str) -> Request:
    """Return an interactive session."""
    return Request(
        name="interactive",
        argv=("bash",),
        pty=PtySize(),
        resources=Resources(cpus_per_task=CPUS_PER_GPU, gpus=GpuRequest(per_node=1)),
        time_limit_s=SHELL_S,
        submit_dir=f"/home/{user}",
        submit_line="warpdeck run --gpus 1 --pty bash",
    )


def evaluation(user: str, *, after: JobId) -> Request:
    """Return a job that waits until a training has completed."""
    after_it = Dependencies(clauses=(Dependency(kind="afterok", job_id=after),))
    return _request("eval-after", gpus=1, nodes=1, limit_s=HOUR_S, user=user, dependencies=after_it)


def training(user: str, *, nodes: int, hold: bool = False) -> Request:
    """Return a large job on whole nodes."""
    return _request("llama-8b-sft", gpus=8, nodes=nodes, limit_s=12 * HOUR_S, user=user, hold=hold)


def run_time(rng: random.Random, launch: wire.Launch) -> tuple[float, int]:
    """Return run time in seconds and exit code. Most jobs succeed."""
    if launch.pty:
        return 2.0 * SHELL_S, 0
    least, most = MINUTES.get(launch.env.get("SLURM_JOB_NAME", ""), (1.0, 5.0))
    run_s = rng.uniform(60 * least, 60 * most)
    outcome = rng.random()
    if outcome < FAILS:
        return run_s * rng.uniform(0.02, 0.5), 1
    return (2.0 * DAY_S if outcome < FAILS + HANGS else run_s), 0


def _request(
    name: str,
    *,
    gpus: int,
    nodes: int,
    limit_s: int,
    user: str,
    array: ArraySpec | None = None,
    dependencies: Dependencies | None = None,
    hold: bool = False,
) -> Request:
    cpus = max(4, gpus * CPUS_PER_GPU)
    lines = ["#!/bin/bash", f"#SBATCH --job-name={name}", f"#SBATCH --time={limit_s // HOUR_S}:00:00"]
    lines += [f"#SBATCH --nodes={nodes}"] if nodes > 1 else []
    lines += [f"#SBATCH --gpus-per-node={gpus}"] if gpus else []
    lines += [f"#SBATCH --array=0-{array.count() - 1}%{array.throttle}"] if array else []
    lines += ["", f"srun python {name.partition('-')[0]}/train.py --config configs/{name}.yaml"]
    return Request(
        name=name,
        script="\n".join(lines) + "\n",
        resources=Resources(
            nodes_min=nodes,
            nodes_max=nodes,
            cpus_per_task=cpus,
            mem_per_node_bytes=max(16, gpus * GIB_PER_GPU) * 2**30,
            gpus=GpuRequest(per_node=gpus) if gpus else GpuRequest(),
        ),
        time_limit_s=limit_s,
        array=array,
        dependencies=dependencies,
        hold=hold,
        submit_dir=f"/home/{user}/{name}",
        submit_line=f"warpdeck submit {name}.sh",
    )
