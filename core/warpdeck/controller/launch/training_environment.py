"""What launchers of distributed training look for in the environment of tasks. Pure.

PyTorch's env:// reads MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE; others LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, GROUP_RANK.
torchrun takes defaults of its options from PET_*: where every node has one task, a bare `torchrun --nproc-per-node=4` is right;
is_host says whose store it is, because torchrun guesses that from host names, which often lead to the loopback. JAX gets the
address that its own Slurm support would make of a node's name, which need not resolve, and a port that may be taken.

The agent puts in what follows from a port (`with_master` of its ports). What we made is known again: see notation.master.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpdeck.model import Job, Node, NodeName
from warpdeck.notation.values.master_address import MADE, has_own_master
from warpdeck_agent.wire.steps import FIRST_GANG_PORT, GANG_PORTS

from .node_aliases import reached_at

LOOPBACK = "127.0.0.1"


def task_variables(tasks: Sequence[int], at: int) -> dict[str, str]:
    """Of all tasks of the node `at`. `tasks`: how many there are on each node."""
    made = {
        "WORLD_SIZE": str(sum(tasks)),
        "LOCAL_WORLD_SIZE": str(tasks[at]),
        "NODE_RANK": str(at),
        "GROUP_RANK": str(at),
    }
    if all(count == 1 for count in tasks):
        made |= {"PET_NNODES": str(len(tasks)), "PET_NODE_RANK": str(at)}
        if len(tasks) > 1:
            made["PET_RDZV_CONF"] = f"is_host={1 if at == 0 else 0}"
    return made


def master_variables(address: str, port: int = 0) -> dict[str, str]:
    """Where rank 0 listens. Without a port the agent of the only node chooses it."""
    return {"MASTER_ADDR": address, MADE: address, **({"MASTER_PORT": str(port)} if port else {})}


def master_address(names: Sequence[NodeName], nodes: Mapping[NodeName, Node]) -> str:
    """Under which the tasks on all these nodes reach the first of them: what it was reached at, else its own name."""
    if len(names) == 1:
        return LOOPBACK
    node = nodes.get(names[0])
    if node is None:
        return names[0]
    return reached_at(node) or node.name


def launch_variables(job: Job, rank: int, *, role: str, master: str) -> dict[str, str]:
    """Of a job's own processes on one node: a batch script is told where, the tasks of a command who they are too."""
    if role == "hold" or job.request.pty is not None:
        return {}
    own = has_own_master(job.request.env)
    if role == "batch":
        return {} if own else master_variables(master)
    assert job.allocation is not None
    tasks = [share.tasks for share in job.allocation.shares]
    port = FIRST_GANG_PORT + job.id % GANG_PORTS if len(tasks) > 1 else 0
    return {**task_variables(tasks, rank), **({} if own else master_variables(master, port))}
