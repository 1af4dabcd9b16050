"""The resources of this node that launches take and give back."""

from __future__ import annotations

from dataclasses import dataclass

from warpdeck_agent.gpu.gpus import GpuWatch
from warpdeck_agent.gpu.residual_processes import ResidualProcesses
from warpdeck_agent.isolation.containment import NodeContainment
from warpdeck_agent.storage.tmpdirs import TempDirs
from warpdeck_agent.tasks.ports import Ports
from warpdeck_agent.users.ipc_cleanup import IpcCleanup


@dataclass(frozen=True)
class NodeResources:
    """The resources of this node: cgroups, folders for temporary files, shared memory, GPUs and ports."""

    containment: NodeContainment
    tempdirs: TempDirs
    ipc: IpcCleanup
    gpus: GpuWatch
    residual: ResidualProcesses
    """Finds processes that hold memory of GPUs."""
    ports: Ports
