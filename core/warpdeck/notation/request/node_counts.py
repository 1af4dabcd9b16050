"""Determines the numbers of nodes and GPUs of a job if several options specify them or none does, as sbatch
and slurmctld do.

`--nodelist` names nodes that the job gets in any case, with others if it asks for more. Without `--nodes` a
job gets as many nodes as it needs for its tasks or for all of its `--gpus`. Counts of GPUs per job, node and
task can be derived from each other.
"""

from __future__ import annotations

from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.notation.option_values.request_fields import MAX_NODES
from warpdeck.notation.values.hostlist import by_number


def join_gpus(resources: dict[str, Any]) -> None:
    """Combine --gpus, --gpus-per-node (or --gres) and --gpus-per-task into one request. Raises UserError."""
    requests: dict[str, dict[str, Any]] = resources.pop("gpu_options", {})
    if not requests:
        return
    given = {field: gpus for field, gpus in requests.items() if gpus}
    if len(given) < 2 or any(field not in gpus for field, gpus in given.items()):
        resources["gpus"] = next(reversed(given.values()), {})
        return
    kinds = {gpus["type"] for gpus in given.values()} - {""}
    if len(kinds) > 1:
        raise UserError(f"the request names two types of GPU: {', '.join(sorted(kinds))}", "ask for one type")
    counts = {field: gpus[field] for field, gpus in given.items()}
    kept = _derive_from_two(resources, counts)
    resources["gpus"] = {kept: counts[kept], "type": next(iter(kinds), "")}


def _derive_from_two(resources: dict[str, Any], counts: dict[str, int]) -> str:
    """Set the numbers of nodes and tasks that follow from two counts of GPUs. Return the name of the count that is
    still needed.
    """
    total, node, task = (counts.get(field) for field in ("total", "per_node", "per_task"))
    if total is not None and node is not None:
        nodes = _divide(total, node, "--gpus and --gpus-per-node")
        low, high = resources.get("nodes_min", 1), resources.get("nodes_max", MAX_NODES)
        if not low <= nodes <= high:
            raise UserError(
                f"--gpus={total} with {node} GPUs on each node needs {nodes} nodes", "change --nodes"
            )
        resources["nodes_min"] = resources["nodes_max"] = nodes
        if "tasks" in resources:
            resources["tasks"] = max(resources["tasks"], nodes)
        return "per_node"
    if total is not None and task is not None:
        resources.setdefault("tasks", _divide(total, task, "--gpus and --gpus-per-task"))
        return "per_task"
    if node is not None and task is not None and "tasks" not in resources:
        resources.setdefault("tasks_per_node", _divide(node, task, "--gpus-per-node and --gpus-per-task"))
    return "per_node"


def _divide(many: int, each: int, options: str) -> int:
    if many % each:
        raise UserError(f"{options} do not fit: {many} is not a multiple of {each}", "write a multiple")
    return many // each


def fit_tasks_to_gpus(resources: dict[str, Any]) -> None:
    """Apply --ntasks-per-gpu: derive the number of tasks from the GPUs, or the number of GPUs from the tasks.
    Raises UserError.
    """
    each = resources.get("tasks_per_gpu")
    if each is None:
        return
    gpus, tasks = resources["gpus"], resources.get("tasks")
    if resources.get("nodes_min") != resources.get("nodes_max"):
        raise UserError(
            "--ntasks-per-gpu cannot be combined with a range of --nodes", "write one number of nodes"
        )
    if gpus.get("per_task") is not None or resources.get("tasks_per_node") is not None:
        raise UserError("--ntasks-per-gpu excludes --gpus-per-task and --ntasks-per-node", "keep one of them")
    if "share_pct" in gpus or "shards" in gpus:
        raise UserError("--ntasks-per-gpu cannot be combined with a part of a GPU", "ask for whole GPUs")
    if gpus and tasks is None:
        if gpus.get("total") is not None:
            resources["tasks"] = gpus["total"] * each
        else:
            resources["tasks_per_node"] = gpus["per_node"] * each
    elif tasks is None:
        raise UserError("--ntasks-per-gpu needs --gpus or --ntasks", "add one of them")
    elif not gpus:
        if tasks % each:
            raise UserError(
                "-n/--ntasks has to be a multiple of --ntasks-per-gpu",
                f"write -n {max(1, tasks // each) * each}",
            )
        gpus["total"] = tasks // each


def fit_nodes(resources: dict[str, Any], *, drops_names: bool) -> list[str]:
    """Set the numbers of nodes and return warnings. With --spread-job a job gets as many nodes as it may.

    Raises UserError if --nodes is less than the number of named nodes. With `drops_names`, only the first names are
    used in this case, as in srun.
    """
    spread = resources.pop("spread", False)
    names = list(dict.fromkeys(resources.get("nodelist", ())))
    tasks = resources.get("tasks")
    if "nodes_min" not in resources:
        _derive_nodes(resources, names)
        resources["nodes_open"] = not spread
        return []
    low, high = resources["nodes_min"], resources["nodes_max"]
    if drops_names and high < len(names):
        names = resources["nodelist"] = names[:high]
    if high < len(names):
        raise UserError(
            f"--nodes={high} is less than the {len(names)} nodes of --nodelist", "name fewer nodes"
        )
    low = max(low, len(names))
    warnings = []
    if tasks is not None:
        if low > (most := max(1, tasks)):
            warnings = [
                f"Warning: can't run {tasks} processes on {low} nodes, setting nnodes to {most}"
            ]  # This is the wording of sbatch.
        high = min(high, most)
        low = min(low, high)
    resources["nodes_min"], resources["nodes_max"] = low, high
    _limit_named_nodes(resources, names, high)
    return warnings


def _derive_nodes(resources: dict[str, Any], names: list[str]) -> None:
    """Set the range of node counts. If --ntasks is given, --ntasks-per-node is only an upper limit."""
    tasks, each, total = (
        resources.get("tasks"),
        resources.get("tasks_per_node"),
        resources["gpus"].get("total"),
    )
    _limit_named_nodes(resources, names, tasks or len(names))
    low = max(1, min(len(names), tasks or len(names)))
    if tasks is not None and each is not None:
        low = max(low, -(-tasks // each))
    most = low if tasks is None and total is None else min(total or MAX_NODES, tasks or MAX_NODES, MAX_NODES)
    if most > 1 or low > 1:
        resources["nodes_min"], resources["nodes_max"] = low, max(low, most)


def _limit_named_nodes(resources: dict[str, Any], names: list[str], most: int) -> None:
    """Keep only as many named nodes as there are tasks, the first by number. A job has no nodes without
    tasks.
    """
    if len(names) > most:
        resources["nodelist"] = sorted(names, key=by_number)[:most]
