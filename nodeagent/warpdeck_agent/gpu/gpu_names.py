"""The names of a job's GPUs in CUDA_VISIBLE_DEVICES.

The controller names GPUs by uuid. Slurm uses indices, and many scripts call int() on them, so the agent
substitutes indices unless the site wants uuids. CUDA counts the GPUs that a process can open. If the other
GPUs are closed to the job (Slurm's ConstrainDevices), it counts the job's own GPUs from 0. Otherwise it
counts all GPUs of the node. CUDA_DEVICE_ORDER=PCI_BUS_ID gives NVML's order.
"""

from __future__ import annotations

from typing import Dict, Mapping, Sequence

from warpdeck_agent.wire.messages import GpuInfo

INDEX = "index"
VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDINAL = "GPU_DEVICE_ORDINAL"
"""OpenCL's variable, which holds indices only."""
MIG = "mig"


def names_of(uuids: Sequence[str], found: Sequence[GpuInfo], *, how: str, alone: bool) -> Dict[str, str]:
    """Return the name of each GPU by its uuid; {} keeps the uuids.

    `found` are the node's GPUs. `how` is INDEX if the site wants indices. `alone` means that other GPUs are
    closed to the job. Indices do not name GPUs that are divided by MIG, and CUDA counts differently if there
    are any. Then the uuids stay.
    """
    own = set(uuids)
    seen = sorted((gpu for gpu in found if not alone or gpu.uuid in own), key=lambda gpu: gpu.index)
    if how != INDEX or any(gpu.isolation == MIG for gpu in seen):
        return {}
    names = {gpu.uuid: str(at if alone else gpu.index) for at, gpu in enumerate(seen)}
    return {uuid: names[uuid] for uuid in uuids} if own <= names.keys() else {}


def with_gpu_names(env: Mapping[str, str], names: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment with `names` in place of the GPUs' uuids."""
    uuids = env.get(VISIBLE, "").split(",")
    if not names or not all(uuid in names for uuid in uuids):
        return dict(env)
    value = ",".join(names[uuid] for uuid in uuids)
    return {**env, VISIBLE: value, ORDINAL: value}
