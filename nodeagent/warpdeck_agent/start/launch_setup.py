"""Prepares a launch on its node before its first process runs.

It waits until earlier jobs on a shared GPU have allocated their memory, and checks that no foreign process
uses the GPUs. Then it runs the site's prolog, and creates TMPDIR, private folders and cgroups. These are
recorded in the launch's metadata, and `clearing` removes them at the end. If a launch fails before it begins,
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
from warpdeck_agent.gpu.gpus import GpuWatch
from warpdeck_agent.gpu.residual_processes import Leftovers
from warpdeck_agent.health.hooks import PROLOG, HookError, run_hook
from warpdeck_agent.isolation.containment import Containment, Limits
from warpdeck_agent.isolation.hold import ContainmentHandle, hold_name
from warpdeck_agent.isolation.private_folders import PrivateDirs, folders_of
from warpdeck_agent.linux.folder_removal import remove_tree
from warpdeck_agent.linux.refusals import NO_ROOM, LaunchError, full_disk
from warpdeck_agent.storage.tmpdirs import DEFAULT_PLACE, TempDirs
from warpdeck_agent.users.ipc_cleanup import Remnants
from warpdeck_agent.wire.messages import Launch

from .gpu_sharing import StartGate


@dataclass(frozen=True)
class LaunchResources:
    """The resources that were created for a launch."""

    hold: ContainmentHandle
    tmp_dir: str
    private: Optional[PrivateDirs] = None
    gpu_names: Dict[str, str] = field(default_factory=dict)
    """The names of its GPUs in CUDA_VISIBLE_DEVICES, by uuid."""


class LaunchSetup:
    """Creates the resources of launches.

    `sharers` returns the jobs that may hold memory on the GPU with a given uuid. `own_paths` are paths of the
    agent that jobs need.
    """

    def __init__(
        self,
        containment: Containment,
        tempdirs: TempDirs,
        gpus: GpuWatch,
        leftovers: Leftovers,
        turns: StartGate,
        remnants: Remnants,
        *,
        sharers: Callable[[str], Container[int]],
        own_paths: Sequence[str],
    ) -> None:
        self._own_paths = own_paths
        self._turns = turns
        self._remnants = remnants
        self._containment = containment
        self._tempdirs = tempdirs
        self._gpus = gpus
        self._leftovers = leftovers
        self._sharers = sharers

    async def make(self, launch: Launch, *, uid: int, gid: int) -> LaunchResources:
        """Create the resources of a launch. Raises LaunchError; nothing of the launch is left then."""
        await self._turns.wait(launch)
        if launch.empty_gpus:
            await self._check_gpus(launch)
        if launch.hooks is not None and launch.hooks.prolog:
            await self._run_prolog(launch)
        limits = await self._limits(launch)
        found = (await self._gpus.discover())[0] if launch.gpus else []
        name = hold_name(launch.job_id, launch.restarts)
        folder_name = f"{launch.job_id}.{launch.restarts}"
        private = self._private(launch, folder_name)
        try:
            in_private = private is not None and private.tmp_dir
            below = launch.tmp_dir
            tmp_dir = "" if in_private else self._tempdirs.make(folder_name, below=below, uid=uid, gid=gid)
        except OSError as error:
            for folder in folders_of("", private):
                remove_tree(folder)
            raise _no_folder(error, launch.tmp_dir or DEFAULT_PLACE) from error
        self._remnants.enter(uid, name, at_unix=time.time())
        hold = self._containment.make(name, limits)
        names = names_of(launch.gpus, found, how=launch.cuda_visible_devices, alone=hold.hides_gpus)
        return LaunchResources(hold=hold, tmp_dir=tmp_dir, private=private, gpu_names=names)

    def _private(self, launch: Launch, name: str) -> Optional[PrivateDirs]:
        """Create the private folders of a launch.

        Returns None if the site or the node does not provide them.
        """
        if not launch.private_dirs or not self._containment.can_cover:
            return None
        shared = [*launch.shared_dirs, *self._own_paths]
        try:
            return self._tempdirs.cover(
                name, places=launch.private_dirs, shared=shared, tmp_dir=launch.tmp_dir
            )
        except OSError as error:
            raise _no_folder(error, " and ".join(launch.private_dirs)) from error

    async def undo(self, launch: Launch, room: LaunchResources, *, uid: int) -> None:
        """Remove the resources of a launch that did not begin."""
        name = hold_name(launch.job_id, launch.restarts)
        self._remnants.leave(uid, name)
        self._containment.release(name, room.hold.groups)
        for folder in folders_of(room.tmp_dir, room.private):
            await asyncio.get_running_loop().run_in_executor(None, remove_tree, folder)

    async def _check_gpus(self, launch: Launch) -> None:
        for uuid in launch.gpus:
            found = await self._leftovers.strangers([uuid], allowed=self._sharers(uuid))
            if found:
                raise LaunchError(found, again=True)

    async def _run_prolog(self, launch: Launch) -> None:
        hooks = launch.hooks
        assert hooks is not None
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(
                None, lambda: run_hook(PROLOG, hooks.prolog, env=hooks.env, timeout_s=hooks.timeout_s)
            )
        except HookError as error:
            raise LaunchError(str(error), again=True, drain=str(error)) from error

    async def _limits(self, launch: Launch) -> Limits:
        return Limits(
            mem_bytes=launch.mem_bytes if "memory" in launch.confine else 0,
            cpus=launch.cpus if "cpus" in launch.confine else 0,
            processes=launch.max_processes,
            gpus=await self._gpus.minors(launch.gpus) if "devices" in launch.confine else None,
        )


def _no_folder(error: OSError, where: str) -> LaunchError:
    if error.errno in NO_ROOM:
        return full_disk(where)
    reason = os.strerror(error.errno or 0)
    if error.errno == errno.EROFS:
        return LaunchError(f"{where} may not be written on this node: {reason}", check="disk")
    return LaunchError(f"no folder for temporary files can be made in {where}: {reason}")
