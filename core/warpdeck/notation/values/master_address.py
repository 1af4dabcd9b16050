"""Variables for distributed training: the ones that warpdeck set, and whether the user changed them since.

WARPDECK_MASTER holds the address and port that warpdeck chose. While MASTER_ADDR and MASTER_PORT have the
same values, the user has not set them. Each step and job has its own rank 0, so these variables are not
passed on to steps and jobs started from within a job.
"""

from __future__ import annotations

from collections.abc import Mapping

CHOSEN_ADDRESS = "WARPDECK_MASTER"
"""The agent uses the same name (see its `wire.steps`)."""
MASTER = ("MASTER_ADDR", "MASTER_PORT")
_TORCHRUN = ("PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_RDZV_CONF")
_OF_TASKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK")


def has_own_master(env: Mapping[str, str]) -> bool:
    """Return whether the user has set the address of rank 0, replacing the one given to the job."""
    address, port = (env.get(name, "") for name in MASTER)
    return bool(address and port) and f"{address}:{port}" != env.get(CHOSEN_ADDRESS, "")


def without_training(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the training variables that another job or step of ours left in it.

    Each job and step has a rank 0 of its own.
    """
    if CHOSEN_ADDRESS not in env:
        return dict(env)
    drop = {CHOSEN_ADDRESS, *_TORCHRUN, *_OF_TASKS}
    if not has_own_master(env):
        drop |= {*MASTER, "JAX_COORDINATOR_ADDRESS"}
    return {name: value for name, value in env.items() if name not in drop}
