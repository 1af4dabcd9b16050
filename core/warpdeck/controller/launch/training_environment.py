"""Build the environment variables that launchers of distributed training read. Pure functions.

PyTorch's env:// reads MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE. Other launchers read LOCAL_RANK,
LOCAL_WORLD_SIZE, NODE_RANK and GROUP_RANK. torchrun takes the defaults of its options from PET_*, so a bare
`torchrun --nproc-per-node=4` works if every node has one task. is_host marks the node that runs the store.
torchrun would guess this node from host names, which often resolve to the loopback address. JAX gets
JAX_COORDINATOR_ADDRESS, because its own Slurm support derives an address from a node's name, which need not
resolve, and a port that may be in use.

The agent adds the variables that depend on a port (`with_master` in its tasks/ports.py). Values set by
warpdeck are recognized later: see notation.values.master_address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpdeck.model import Job, Node, NodeName
from warpdeck.notation.values.master_address import CHOSEN_ADDRESS, has_own_master
from warpdeck_agent.wire.steps import FIRST_GANG_PORT, GANG_PORTS

from .node_aliases import reached_at

LOOPBACK = "127.0.0.1"


def task_variables(tasks: Sequence[int], at: int) -> dict[str, str]:
    """Return the variables common to all tasks of the node with index `at`.

    `tasks` are the numbers of tasks on each node.
    """
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
    """Return the variables for the address on which rank 0 listens.

    Without a port, the agent of the only node chooses it.
    """
    return {"MASTER_ADDR": address, CHOSEN_ADDRESS: address, **({"MASTER_PORT": str(port)} if port else {})}


def master_address(names: Sequence[NodeName], nodes: Mapping[NodeName, Node]) -> str:
    """Return the address at which the tasks on these nodes reach the first of them.

    It is the node's known address, or its name if none is known. A single node gets the loopback address.
    """
    if len(names) == 1:
        return LOOPBACK
    node = nodes.get(names[0])
    if node is None:
        return names[0]
    return reached_at(node) or node.name


def launch_variables(job: Job, rank: int, *, role: str, master: str) -> dict[str, str]:
    """Return the variables of a job's own processes on one node.

    A batch script gets the address of rank 0. The tasks of a command get their ranks as well.
    """
    if role == "hold" or job.request.pty is not None:
        return {}
    own = has_own_master(job.request.env)
    if role == "batch":
        return {} if own else master_variables(master)
    assert job.allocation is not None
    tasks = [share.tasks for share in job.allocation.shares]
    port = FIRST_GANG_PORT + job.id % GANG_PORTS if len(tasks) > 1 else 0
    return {**task_variables(tasks, rank), **({} if own else master_variables(master, port))}
