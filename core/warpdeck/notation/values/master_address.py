"""What a process of ours was told of distributed training, and what of it the user has said since. Pure.

WARPDECK_MASTER holds the address and port that we made: while MASTER_ADDR and MASTER_PORT still say the same, they are no
word of the user's. Each step and job has a rank 0 of its own, so none of that goes along to what is started from there.
"""

from __future__ import annotations

from collections.abc import Mapping

MADE = "WARPDECK_MASTER"
"""As the agent names it too (its wire.steps)."""
MASTER = ("MASTER_ADDR", "MASTER_PORT")
_TORCHRUN = ("PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_RDZV_CONF")
_OF_TASKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK")


def has_own_master(env: Mapping[str, str]) -> bool:
    """Whether the user has set where rank 0 listens, over what the job was given."""
    address, port = (env.get(name, "") for name in MASTER)
    return bool(address and port) and f"{address}:{port}" != env.get(MADE, "")


def without_training(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without what another job or step of ours left in it: each has a rank 0 of its own."""
    if MADE not in env:
        return dict(env)
    drop = {MADE, *_TORCHRUN, *_OF_TASKS}
    if not has_own_master(env):
        drop |= {*MASTER, "JAX_COORDINATOR_ADDRESS"}
    return {name: value for name, value in env.items() if name not in drop}
