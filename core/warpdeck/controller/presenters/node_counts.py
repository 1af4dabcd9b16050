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
    asked = job.request.resources
    return asked.nodes_max == 1 and (asked.nodes_open or not job.held)


def estimated_nodes(job: Job, most: Largest) -> int:
    """Return the estimated number of nodes of a job that holds no nodes and is not for one node.

    The result is at least the number that the job requests.
    """
    asked = job.request.resources
    tasks = asked.task_count()
    if job.held:
        cpus = asked.cpus_of_task() * tasks
        needed_for_tasks = tasks // asked.tasks_per_node if asked.tasks_per_node else 1
        is_range = asked.nodes_open and asked.nodes_max > asked.nodes_min
        named = len(asked.nodelist) if is_range else asked.nodes_min
        return max(1, named, needed_for_tasks, _up(cpus, most.cpus))
    total = asked.gpus.total or 0
    if asked.nodes_max > asked.nodes_min and not asked.nodes_open and not total:
        wanted = min(asked.nodes_max, tasks if asked.tasks is not None else asked.nodes_max)
        return max(asked.nodes_min, min(wanted, most.nodes or wanted))
    return max(asked.nodes_min, _up(tasks, _tasks_on_one(asked, most)), _up(total, most.gpus))


def _tasks_on_one(asked: Resources, most: Largest) -> int:
    """Return the number of tasks that fit on the largest node, at least one."""
    fits = [most.cpus // max(1, asked.cpus_of_task())]
    if asked.tasks_per_node:
        fits.append(asked.tasks_per_node)
    if asked.mem_per_cpu_bytes:
        fits.append(most.mem_bytes // (asked.mem_per_cpu_bytes * asked.cpus_used_by_task()))
    if asked.gpus.per_task:
        fits.append(most.gpus // asked.gpus.per_task)
    return max(1, min(fits))


def _up(count: int, each: int) -> int:
    return -(-count // each) if each else 1
