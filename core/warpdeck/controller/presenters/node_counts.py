"""On how many nodes a job that waits is likely to run, as squeue's %D and scontrol's NumNodes tell it (slurmctld's node_cnt_wag).

What Slurm measurably tells: of a job that is held since it was submitted, as many as its CPUs need of the largest node of its first
partition, and its tasks by --ntasks-per-node, rounded down; of any other what it would get if nothing else ran: all that it may have
of a range, else as few as hold its tasks and GPUs. It is a guess where nodes differ, there as here. Pure.
"""

from __future__ import annotations

import msgspec

from warpdeck.controller.state.state import State
from warpdeck.model import Job, Node, NodeName, Resources


class Largest(msgspec.Struct, frozen=True, kw_only=True):
    """The most of each that a node of a partition has, and how many nodes there are."""

    nodes: int = 0
    cpus: int = 0
    mem_bytes: int = 0
    gpus: int = 0


def largest(state: State, partition: str) -> Largest:
    """Of this partition, or of all nodes where there is none of that name."""
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
    """As most are: more nodes would be of no use to it, or it may not have them."""
    asked = job.request.resources
    return asked.nodes_max == 1 and (asked.nodes_open or not job.held)


def likely_nodes(job: Job, most: Largest) -> int:
    """Of a job that holds none, and is not for one; at least what it asks for."""
    asked = job.request.resources
    tasks = asked.task_count()
    if job.held:
        cpus = asked.cpus_of_task() * tasks
        by_tasks = tasks // asked.tasks_per_node if asked.tasks_per_node else 1
        is_range = asked.nodes_open and asked.nodes_max > asked.nodes_min
        named = len(asked.nodelist) if is_range else asked.nodes_min
        return max(1, named, by_tasks, _up(cpus, most.cpus))
    total = asked.gpus.total or 0
    if asked.nodes_max > asked.nodes_min and not asked.nodes_open and not total:
        wanted = min(asked.nodes_max, tasks if asked.tasks is not None else asked.nodes_max)
        return max(asked.nodes_min, min(wanted, most.nodes or wanted))
    return max(asked.nodes_min, _up(tasks, _tasks_on_one(asked, most)), _up(total, most.gpus))


def _tasks_on_one(asked: Resources, most: Largest) -> int:
    """That fit on the largest node; at least one."""
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
