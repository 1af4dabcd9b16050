"""The cleanup before the end of a launch is reported.

Afterwards none of its processes runs, its files are removed, and its GPUs are free.

Most launches leave nothing. They cost one check of their cgroups (`is_over`), and one call in a thread that
all launches that end at the same time share (`settle`). For the others, `clear` waits for processes that take
time to die, and after a while reports them as the node's fault. Then it runs the site's epilog and removes
temporary files. With the last launch of a user on the node, it also removes the launches' remains in shared
memory. Last, it watches the GPUs until they are empty.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Executor
from typing import Callable, List, Optional

from warpdeck_agent.health.hooks import EPILOG, HookError, run_hook
from warpdeck_agent.isolation import job_processes, launch_cgroups
from warpdeck_agent.isolation.containment_handle import containment_name
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.linux.folder_removal import remove_tree
from warpdeck_agent.linux.procfs import text
from warpdeck_agent.start.node_resources import NodeResources
from warpdeck_agent.wire.messages import Key

from .remaining_processes import RemainingProcesses

CHECK_S = 0.05
"""Interval in seconds between checks of dying processes."""
TMP_S = 30.0
"""How long an end waits for the removal of its temporary files, in seconds. A larger tree is removed while
other launches may start.
"""
NEAR_LIMIT = 0.9
"""If a killed launch's peak memory is below this fraction of its limit, the cause was the limit of the node
or of a parent cgroup.
"""
GIB = 2**30


class Teardown:
    """Cleanup of launches on this node.

    `remark` shows a text to the launch's users. `on_free` gets each launch when its resources are free.
    """

    def __init__(
        self,
        pool: Executor,
        node: NodeResources,
        remaining: RemainingProcesses,
        *,
        remark: Callable[[Key, str], None],
        on_free: Callable[[LocalLaunch], None],
    ) -> None:
        self._pool = pool
        self._node = node
        self._remaining = remaining
        self._on_free = on_free
        self._remark = remark

    def is_over(self, launch: LocalLaunch) -> bool:
        """Return whether the launch's cgroups are empty and were removed, so that nothing of it is left.

        This costs no more than a few system calls.
        """
        if not launch.processes.grouped or launch_cgroups.pids(launch.meta.hold.groups):
            return False
        if not self._release(launch, _take_usage(launch)):
            return False
        if not (launch.meta.gpus or launch.meta.hooks):
            self._on_free(launch)  # The disk matters only for the report of the end.
        return True

    async def settle(self, over: List[LocalLaunch], others: List[LocalLaunch]) -> List[LocalLaunch]:
        """Make exit statuses durable, kill all remaining processes and collect the usage.

        Returns the launches that need `clear`. `over` are the launches for which `is_over` was true.
        """
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._settle, over, others)

    def _settle(self, over: List[LocalLaunch], others: List[LocalLaunch]) -> List[LocalLaunch]:
        """Do the blocking part of `settle`, in a thread: the disk, and ending the processes of `others`."""
        (over + others)[0].folder.sync_exit()
        known = {} if all(launch.processes.grouped for launch in others) else job_processes.pids_by_job_tag()
        unclear = []
        for launch in others:
            left = self._remaining.kill(launch, known)
            used = _take_usage(launch)
            if left or not self._release(launch, used):
                unclear.append(launch)
        unclear += [launch for launch in over if not self._leaves_nothing(launch, no_process_left=True)]
        return unclear + [
            launch
            for launch in others
            if launch not in unclear and not self._leaves_nothing(launch, no_process_left=False)
        ]

    def tidy(self) -> None:
        """Remove temporary folders that were kept for launches that did not come. Blocks."""
        self._node.tempdirs.empty_tmpdir_pool()

    def _leaves_nothing(self, launch: LocalLaunch, *, no_process_left: bool) -> bool:
        """Return whether the launch needs no further cleanup.

        That is so if it has neither GPUs nor hooks, and its TMPDIR and its user's shared memory are empty.
        """
        if launch.meta.gpus or launch.meta.hooks:
            return False
        gone = not launch.meta.private and self._node.tempdirs.give_back(
            launch.meta.tmp_dir, no_process_left=no_process_left
        )
        return gone and not self._leaves_ipc(launch)

    def _leaves_ipc(self, launch: LocalLaunch) -> bool:
        return self._node.ipc.leave(launch.meta.uid, containment_name(*launch.key))

    async def clear(self, launch: LocalLaunch) -> None:
        """Clean up after the launch.

        Returns when its resources may be given to others, or when the node is known to be faulty.
        """
        loop = asyncio.get_running_loop()
        await self._wait_for_processes(launch)
        hooks = launch.meta.hooks
        if hooks is not None and hooks.epilog:
            try:
                await loop.run_in_executor(
                    None,
                    lambda: run_hook(
                        EPILOG, hooks.epilog, env=_epilog_env(launch), timeout_s=hooks.timeout_s
                    ),
                )
            except HookError as error:
                launch.end.drain_reason = launch.end.drain_reason or str(error)
        if folders := launch.meta.folders():
            removing = {loop.run_in_executor(None, remove_tree, folder): folder for folder in folders}
            done, _ = await asyncio.wait(removing, timeout=TMP_S)
            if stays := [removing[each] for each in done if not each.result()]:
                self._remark(launch.key, f"cannot remove the job's files in {', '.join(sorted(stays))}")
        if self._leaves_ipc(launch):
            await self._clear_ipc(launch)
        if launch.meta.gpus:
            await self._node.residual.wait(launch.meta.gpus, job_id=launch.meta.job_id)

    async def _clear_ipc(self, launch: LocalLaunch) -> None:
        clearing = asyncio.get_running_loop().run_in_executor(None, self._node.ipc.clear, launch.meta.uid)
        done, _ = await asyncio.wait([clearing], timeout=TMP_S)
        if done and (removed := clearing.result()):
            self._remark(launch.key, removed)

    async def _wait_for_processes(self, launch: LocalLaunch) -> None:
        loop = asyncio.get_running_loop()
        deadline = time.monotonic() + launch.meta.unkillable_s
        while await loop.run_in_executor(self._pool, self._still_there, launch):
            if time.monotonic() > deadline:
                launch.end.drain_reason = "Kill task failed: " + await loop.run_in_executor(
                    self._pool, self._names, launch
                )
                return
            await asyncio.sleep(CHECK_S)

    def _still_there(self, launch: LocalLaunch) -> bool:
        known = {} if launch.processes.grouped else job_processes.pids_by_job_tag()
        return self._remaining.kill(launch, known) > 0 or not self._release(launch)

    def _names(self, launch: LocalLaunch) -> str:
        """Return the names of processes that do not die, for the administrator.

        Example: "python (pid 12, alice)".
        """
        left = self._remaining.pids(launch)[:4]
        named = [
            f"{text(f'/proc/{pid}/comm') or '?'} (pid {pid}, {job_processes.owner_of(pid)})" for pid in left
        ]
        return f"job {launch.meta.job_id}: " + (", ".join(named) or "its cgroup does not become empty")

    def _release(self, launch: LocalLaunch, used: Optional[launch_cgroups.CgroupUsage] = None) -> bool:
        return self._node.containment.release(containment_name(*launch.key), launch.meta.hold.groups, used)


def _take_usage(launch: LocalLaunch) -> launch_cgroups.CgroupUsage:
    """Read the usage that the kernel has counted.

    If the kernel killed a process for lack of memory, the launch's cause becomes "oom".
    """
    used = launch_cgroups.usage(launch.meta.hold.groups)
    launch.usage.note_cgroups(used)
    if used.oom_kills and not launch.end.cause:
        launch.end.cause = "oom"
        own = used.limit_bytes and not 0 < used.peak_mem_bytes < NEAR_LIMIT * used.limit_bytes
        exhausted = f"its limit of {used.limit_bytes / GIB:.2f} GiB" if own else "the node's memory"
        launch.end.message = (
            f"out of memory: the job used up {exhausted} (peak {used.peak_mem_bytes / GIB:.2f} GiB)"
        )
    return used


def _epilog_env(launch: LocalLaunch) -> dict[str, str]:
    assert launch.meta.hooks is not None
    code, number = launch.folder.exit_status() or (1, 0)
    return {
        **launch.meta.hooks.env,
        "SLURM_JOB_EXIT_CODE": str(code << 8 | number),
        "SLURM_JOB_EXIT_CODE2": f"{code}:{number}",
    }
