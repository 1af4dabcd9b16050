"""Estimate of the number of nodes of a pending job, as squeue's %D and scontrol's NumNodes show it.

It imitates slurmctld's node_cnt_wag, as measured:
- For a job held since its submission, the number is computed as if all nodes were like the largest node of
  the job's first partition. It is the number of nodes needed for the CPUs, or the number of tasks divided by
  --ntasks-per-node and rounded down, if that is more.
- For any other job, the number is the number of nodes that the job would get if nothing else ran. For a node
  range this is the maximum of the range. Otherwise it is the minimum for the job's tasks and GPUs.

If nodes differ in size, the result is a guess, in Slurm as well as here. All functions are pure.
"""

from __future__ import annotations

import msgspec

from warpdeck.controller.state.state import State
from warpdeck.model import Job, Node, NodeName, Resources


class Largest(msgspec.Struct, frozen=True, kw_only=True):
    """Largest value of each resource on any node of a partition, and the number of its nodes."""

    nodes: int = 0
    cpus: int = 0
    mem_bytes: int = 0
    gpus: int = 0


def largest(state: State, partition: str) -> Largest:
    """Return the maxima of this partition, or of all nodes if no partition has this name."""
    named = next((part.nodes for part in state.site.partitions if part.name == partition), None)
    nodes = [node for name, node in state.nodes.items() if named is None or NodeName(name) in named]
    return Largest(
        nodes=len(nodes),
        cpus=max((node.cpus for node in nodes), default=0),
        mem_bytes=max((node.mem_bytes for node in nodes), default=0),
        gpus=max((_gpus(node) for node in nodes), default=0),
    )


def _gpus(node: Node) -> int:
    return len(node.gpus)


def is_for_one(job: Job) -> bool:
    """Return whether the job will run on exactly one node, as most jobs do.

    A job is for one node if it could not use more nodes, or may not have more.
    """
    requested = job.request.resources
    return requested.nodes_max == 1 and (requested.nodes_open or not job.held)


def estimated_nodes(job: Job, most: Largest) -> int:
    """Return the estimated number of nodes of a job that holds no nodes and is not for one node.

    The result is at least the number that the job requests.
    """
    requested = job.request.resources
    tasks = requested.task_count()
    if job.held:
        cpus = requested.cpus_of_task() * tasks
        needed_for_tasks = tasks // requested.tasks_per_node if requested.tasks_per_node else 1
        is_range = requested.nodes_open and requested.nodes_max > requested.nodes_min
        named = len(requested.nodelist) if is_range else requested.nodes_min
        return max(1, named, needed_for_tasks, _up(cpus, most.cpus))
    total = requested.gpus.total or 0
    if requested.nodes_max > requested.nodes_min and not requested.nodes_open and not total:
        preferred = min(requested.nodes_max, tasks if requested.tasks is not None else requested.nodes_max)
        return max(requested.nodes_min, min(preferred, most.nodes or preferred))
    return max(requested.nodes_min, _up(tasks, _tasks_on_one(requested, most)), _up(total, most.gpus))


def _tasks_on_one(requested: Resources, most: Largest) -> int:
    """Return the number of tasks that fit on the largest node, at least one."""
    fits = [most.cpus // max(1, requested.cpus_of_task())]
    if requested.tasks_per_node:
        fits.append(requested.tasks_per_node)
    if requested.mem_per_cpu_bytes:
        fits.append(most.mem_bytes // (requested.mem_per_cpu_bytes * requested.cpus_used_by_task()))
    if requested.gpus.per_task:
        fits.append(most.gpus // requested.gpus.per_task)
    return max(1, min(fits))


def _up(count: int, each: int) -> int:
    return -(-count // each) if each else 1
