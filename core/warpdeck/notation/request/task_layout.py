"""Options about task layout: --distribution, --gpu-bind, --ntasks-per-gpu, --tres-per-task, --overcommit.

The options of a job also apply to its steps. As in Slurm, steps read them from variables, which are part of
the request (`step_variables`, with names from srun(1)). Compared with Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.notation.values.gres import parse_gpus
from warpdeck.notation.values.lists import split_list
from warpdeck.notation.verdict.bindings import distribution

_GPU_BIND = re.compile(r"none|closest|per_task:[1-9]\d*|single(:[1-9]\d*)?|map_gpu:\d+(,\d+)*")
_TASK_GPUS = re.compile(r"gres[/:]gpu(?::(?P<kind>[^:=]+))?[:=](?P<count>\d{1,7})|gres[/:]gpu")
_TASK_CPUS = re.compile(r"cpu[:=](\d{1,7})")


def parse_distribution(value: str, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the fields of `StepAsk`: `distribution` (block, cyclic, plane, arbitrary; "" is the default),
    `plane_size`, `packed`.

    Levels below nodes are ignored, because tasks are not bound to sockets here. Raises UserError.
    """
    words, plane_size = distribution(value, (environ or {}).get("SLURM_DIST_PLANESIZE", ""))
    base, _, flag = words.rpartition(",") if words.endswith("pack") else (words, "", "")
    kind = base.split(":", 1)[0]
    return {"distribution": kind, "plane_size": plane_size, "packed": flag == "pack"}


def set_distribution(request: dict[str, Any], value: str) -> None:
    """Set --distribution for the job's steps."""
    found = parse_distribution(value)
    base = value.split("=", 1)[0]
    variables = request.setdefault("step_variables", {})
    variables.pop("SLURM_DIST_PLANESIZE", None)
    variables["SLURM_DISTRIBUTION"] = base
    if found["plane_size"]:
        variables["SLURM_DIST_PLANESIZE"] = str(found["plane_size"])


def parse_gpu_bind(value: str) -> str:
    """Return the binding without "verbose". Raises UserError for unsupported bindings."""
    kind = value.removeprefix("verbose,").removeprefix("v,")
    if not _GPU_BIND.fullmatch(kind):
        raise UserError(
            f"--gpu-bind={value} is not supported", "write none, per_task:N, single:N or map_gpu:0,1,..."
        )
    return kind


def set_gpu_bind(request: dict[str, Any], value: str) -> None:
    """Set --gpu-bind for the job's steps. The batch script itself sees all GPUs of its node."""
    request.setdefault("step_variables", {})["SLURM_GPU_BIND"] = parse_gpu_bind(value)


def set_overcommit(request: dict[str, Any], value: str) -> None:
    """Set --overcommit: each node gets CPUs for only one task, however many tasks run there."""
    request["resources"]["overcommit"] = True
    request.setdefault("step_variables", {})["SLURM_OVERCOMMIT"] = "1"


def parse_tres_per_task(value: str) -> dict[str, Any]:
    """Return `cpu=4,gres/gpu:2` as `cpus_per_task` and `gpus`. Raises UserError for other resources."""
    found: dict[str, Any] = {}
    for item in split_list(value):
        if (cpus := _TASK_CPUS.fullmatch(item)) is not None and int(cpus[1]):
            found["cpus_per_task"] = int(cpus[1])
        elif (gpus := _TASK_GPUS.fullmatch(item)) is not None:
            count = gpus["count"] or "1"
            found["gpus"] = parse_gpus(
                f"{gpus['kind']}:{count}" if gpus["kind"] else count, option="gpus-per-task"
            )
        else:
            raise UserError(
                f"--tres-per-task={value}: {item!r} is no count of CPUs or GPUs", "write cpu=4,gres/gpu=1"
            )
    return found


def fit_tasks_to_gpus(resources: dict[str, Any]) -> None:
    """Apply --ntasks-per-gpu: derive the number of tasks from the GPUs, or the number of GPUs from the tasks.
    Raises UserError.
    """
    each = resources.get("tasks_per_gpu")
    if each is None:
        return
    gpus, tasks = resources["gpus"], resources.get("tasks")
    if resources.get("nodes_min") != resources.get("nodes_max"):
        raise UserError("--ntasks-per-gpu does not go with a range of --nodes", "write one number")
    if gpus.get("per_task") is not None or resources.get("tasks_per_node") is not None:
        raise UserError("--ntasks-per-gpu excludes --gpus-per-task and --ntasks-per-node", "keep one of them")
    if "share_pct" in gpus or "shards" in gpus:
        raise UserError("--ntasks-per-gpu does not go with a part of a GPU", "ask for whole GPUs")
    if gpus and tasks is None:
        if gpus.get("total") is not None:
            resources["tasks"] = gpus["total"] * each
        else:
            resources["tasks_per_node"] = gpus["per_node"] * each
    elif tasks is None:
        raise UserError("--ntasks-per-gpu says nothing alone", "say --gpus or --ntasks beside it")
    elif not gpus:
        if tasks % each:
            raise UserError(
                "-n/--ntasks has to be a multiple of --ntasks-per-gpu",
                f"write -n {max(1, tasks // each) * each}",
            )
        gpus["total"] = tasks // each
