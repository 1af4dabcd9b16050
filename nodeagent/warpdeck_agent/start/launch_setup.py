"""Prepares a launch on its node before its first process runs.

It waits until earlier jobs on a shared GPU have allocated their memory, and checks that no foreign process
uses the GPUs. Then it runs the site's prolog, and creates TMPDIR, private folders and cgroups. These are
recorded in the launch's metadata, and `teardown` removes them at the end. If a launch fails before it begins,
nothing of them is left.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from dataclasses import dataclass, field
from typing import Callable, Container, Dict, Optional, Sequence

from warpdeck_agent.gpu.gpu_names import names_of
from warpdeck_agent.health.hooks import PROLOG, HookError, run_hook
from warpdeck_agent.isolation.containment import LaunchLimits
from warpdeck_agent.isolation.containment_handle import ContainmentHandle, containment_name
from warpdeck_agent.isolation.private_folders import PrivateDirs, folders_of
from warpdeck_agent.linux.folder_removal import remove_tree
from warpdeck_agent.linux.refusals import NO_SPACE_ERRORS, LaunchError, full_disk
from warpdeck_agent.storage.tmpdirs import DEFAULT_PARENT
from warpdeck_agent.wire.messages import Launch

from .gpu_sharing import StartGate
from .node_resources import NodeResources


@dataclass(frozen=True)
class LaunchResources:
    """The resources that were created for a launch."""

    containment: ContainmentHandle
    tmp_dir: str
    private: Optional[PrivateDirs] = None
    gpu_names: Dict[str, str] = field(default_factory=dict)
    """The names of its GPUs in CUDA_VISIBLE_DEVICES, by uuid."""


class LaunchSetup:
    """Creates the resources of launches.

    `jobs_on_gpu` returns the jobs that may hold memory on the GPU with a given uuid. `own_paths` are paths of the
    agent that jobs need.
    """

    def __init__(
        self,
        node: NodeResources,
        gate: StartGate,
        *,
        jobs_on_gpu: Callable[[str], Container[int]],
        own_paths: Sequence[str],
    ) -> None:
        self._own_paths = own_paths
        self._node = node
        self._gate = gate
        self._jobs_on_gpu = jobs_on_gpu

    async def make(self, request: Launch, *, uid: int, gid: int) -> LaunchResources:
        """Create the resources of a launch. Raises LaunchError; nothing of the launch is left then."""
        await self._gate.wait(request)
        if request.empty_gpus:
            await self._check_gpus(request)
        if request.hooks is not None and request.hooks.prolog:
            await self._run_prolog(request)
        limits = await self._limits(request)
        found = (await self._node.gpus.discover())[0] if request.gpus else []
        name = containment_name(request.job_id, request.restarts)
        folder_name = f"{request.job_id}.{request.restarts}"
        private = self._private(request, folder_name)
        try:
            in_private = private is not None and private.tmp_dir
            below = request.tmp_dir
            tmp_dir = (
                "" if in_private else self._node.tempdirs.make(folder_name, below=below, uid=uid, gid=gid)
            )
        except OSError as error:
            for folder in folders_of("", private):
                remove_tree(folder)
            raise _folder_error(error, request.tmp_dir or DEFAULT_PARENT) from error
        self._node.ipc.enter(uid, name, at_unix=time.time())
        containment = self._node.containment.make(name, limits)
        names = names_of(request.gpus, found, how=request.cuda_visible_devices, alone=containment.hides_gpus)
        return LaunchResources(containment=containment, tmp_dir=tmp_dir, private=private, gpu_names=names)

    def _private(self, request: Launch, name: str) -> Optional[PrivateDirs]:
        """Create the private folders of a launch.

        Returns None if the site or the node does not provide them.
        """
        if not request.private_dirs or not self._node.containment.can_cover:
            return None
        shared = [*request.shared_dirs, *self._own_paths]
        try:
            return self._node.tempdirs.cover(
                name, covered=request.private_dirs, shared=shared, tmp_dir=request.tmp_dir
            )
        except OSError as error:
            raise _folder_error(error, " and ".join(request.private_dirs)) from error

    async def undo(self, request: Launch, resources: LaunchResources, *, uid: int) -> None:
        """Remove the resources of a launch that did not begin."""
        name = containment_name(request.job_id, request.restarts)
        self._node.ipc.leave(uid, name)
        self._node.containment.release(name, resources.containment.groups)
        for folder in folders_of(resources.tmp_dir, resources.private):
            await asyncio.get_running_loop().run_in_executor(None, remove_tree, folder)

    async def _check_gpus(self, request: Launch) -> None:
        for uuid in request.gpus:
            found = await self._node.residual.foreign_processes([uuid], allowed=self._jobs_on_gpu(uuid))
            if found:
                raise LaunchError(found, again=True)

    async def _run_prolog(self, request: Launch) -> None:
        hooks = request.hooks
        assert hooks is not None
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(
                None, lambda: run_hook(PROLOG, hooks.prolog, env=hooks.env, timeout_s=hooks.timeout_s)
            )
        except HookError as error:
            raise LaunchError(str(error), again=True, drain=str(error)) from error

    async def _limits(self, request: Launch) -> LaunchLimits:
        return LaunchLimits(
            mem_bytes=request.mem_bytes if "memory" in request.confine else 0,
            cpus=request.cpus if "cpus" in request.confine else 0,
            processes=request.max_processes,
            gpus=await self._node.gpus.minors(request.gpus) if "devices" in request.confine else None,
        )


def _folder_error(error: OSError, where: str) -> LaunchError:
    if error.errno in NO_SPACE_ERRORS:
        return full_disk(where)
    reason = os.strerror(error.errno or 0)
    if error.errno == errno.EROFS:
        return LaunchError(f"cannot write to {where} on this node: {reason}", check="disk")
    return LaunchError(f"cannot create a folder for temporary files in {where}: {reason}")
