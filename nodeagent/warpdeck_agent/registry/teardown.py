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
from typing import Callable, Dict, List, Optional

from warpdeck_agent.gpu.residual_processes import Leftovers
from warpdeck_agent.health.hooks import EPILOG, HookError, run_hook
from warpdeck_agent.isolation import job_processes, launch_cgroups
from warpdeck_agent.isolation.containment import Containment
from warpdeck_agent.isolation.hold import hold_name
from warpdeck_agent.launch.launch import Job
from warpdeck_agent.linux.cpu_time import sum_of
from warpdeck_agent.linux.folder_removal import remove_tree
from warpdeck_agent.linux.procfs import text
from warpdeck_agent.storage.tmpdirs import TempDirs
from warpdeck_agent.users.ipc_cleanup import Remnants
from warpdeck_agent.wire.messages import Key

LOOK_S = 0.05
"""Interval in seconds between checks of dying processes."""
TMP_S = 30.0
"""How long an end waits for the removal of its temporary files, in seconds. A larger tree is removed while
other launches may start.
"""
NEAR = 0.9
"""If a killed launch's peak memory is below this fraction of its limit, the cause was the limit of the node
or of a parent cgroup.
"""
GIB = 2**30


class Teardown:
    """Cleanup of launches on this node.

    `sweep` kills remaining processes of a launch, and `left` returns them. `remark` shows a text to the
    launch's users. `on_free` gets each launch whose resources are free.
    """

    def __init__(
        self,
        pool: Executor,
        containment: Containment,
        leftovers: Leftovers,
        remnants: Remnants,
        tempdirs: TempDirs,
        *,
        sweep: Callable[[Job, Dict[job_processes.Mark, List[int]]], int],
        left: Callable[[Job], List[int]],
        remark: Callable[[Key, str], None],
        on_free: Callable[[Job], None],
    ) -> None:
        self._pool = pool
        self._sweep = sweep
        self._left = left
        self._on_free = on_free
        self._containment = containment
        self._leftovers = leftovers
        self._remnants = remnants
        self._tempdirs = tempdirs
        self._remark = remark

    def is_over(self, job: Job) -> bool:
        """Return whether the launch's cgroups are empty and were removed, so that nothing of it is left.

        This costs no more than a few system calls.
        """
        if not job.grouped or launch_cgroups.pids(job.meta.hold.groups):
            return False
        if not self._release(job, _take_usage(job)):
            return False
        if not (job.meta.gpus or job.meta.hooks):
            self._on_free(job)  # The disk matters only for the report of the end.
        return True

    async def settle(self, over: List[Job], others: List[Job]) -> List[Job]:
        """Make exit statuses durable, kill all remaining processes and collect the usage.

        Returns the launches that need `clear`. `over` are the launches for which `is_over` was true.
        """
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._settle, over, others)

    def _settle(self, over: List[Job], others: List[Job]) -> List[Job]:
        """Do the blocking part of `settle`, in a thread: the disk, and ending the processes of `others`."""
        (over + others)[0].folder.sync_exit()
        known = {} if all(job.grouped for job in others) else job_processes.marked()
        unclear = []
        for job in others:
            left = self._sweep(job, known)
            used = _take_usage(job)
            if left or not self._release(job, used):
                unclear.append(job)
        unclear += [job for job in over if not self._leaves_nothing(job, nobody_left=True)]
        return unclear + [
            job for job in others if job not in unclear and not self._leaves_nothing(job, nobody_left=False)
        ]

    def tidy(self) -> None:
        """Remove temporary folders that were kept for launches that did not come. Blocks."""
        self._tempdirs.drop_spares()

    def _leaves_nothing(self, job: Job, *, nobody_left: bool) -> bool:
        """Return whether the launch needs no further cleanup.

        That is so if it has neither GPUs nor hooks, and its TMPDIR and its user's shared memory are empty.
        """
        if job.meta.gpus or job.meta.hooks:
            return False
        gone = not job.meta.private and self._tempdirs.leave(job.meta.tmp_dir, nobody_left=nobody_left)
        return gone and not self._left_remnants(job)

    def _left_remnants(self, job: Job) -> bool:
        return self._remnants.leave(job.meta.uid, hold_name(*job.key))

    async def clear(self, job: Job) -> None:
        """Clean up after the launch.

        Returns when its resources may be given to others, or when the node is known to be faulty.
        """
        loop = asyncio.get_running_loop()
        await self._wait_for_processes(job)
        hooks = job.meta.hooks
        if hooks is not None and hooks.epilog:
            try:
                await loop.run_in_executor(
                    None,
                    lambda: run_hook(EPILOG, hooks.epilog, env=_epilog_env(job), timeout_s=hooks.timeout_s),
                )
            except HookError as error:
                job.drain = job.drain or str(error)
        if folders := job.meta.folders():
            removing = {loop.run_in_executor(None, remove_tree, folder): folder for folder in folders}
            done, _ = await asyncio.wait(removing, timeout=TMP_S)
            if stays := [removing[each] for each in done if not each.result()]:
                self._remark(job.key, f"what it left in {', '.join(sorted(stays))} cannot be removed")
        if self._left_remnants(job):
            await self._clear_remnants(job)
        if job.meta.gpus:
            await self._leftovers.wait(job.meta.gpus, job_id=job.meta.job_id)

    async def _clear_remnants(self, job: Job) -> None:
        clearing = asyncio.get_running_loop().run_in_executor(None, self._remnants.clear, job.meta.uid)
        done, _ = await asyncio.wait([clearing], timeout=TMP_S)
        if done and (words := clearing.result()):
            self._remark(job.key, words)

    async def _wait_for_processes(self, job: Job) -> None:
        loop = asyncio.get_running_loop()
        deadline = time.monotonic() + job.meta.unkillable_s
        while await loop.run_in_executor(self._pool, self._still_there, job):
            if time.monotonic() > deadline:
                job.drain = "Kill task failed: " + await loop.run_in_executor(self._pool, self._names, job)
                return
            await asyncio.sleep(LOOK_S)

    def _still_there(self, job: Job) -> bool:
        known = {} if job.grouped else job_processes.marked()
        return self._sweep(job, known) > 0 or not self._release(job)

    def _names(self, job: Job) -> str:
        """Return the names of processes that do not die, for the administrator.

        Example: "python (pid 12, alice)".
        """
        left = self._left(job)[:4]
        named = [
            f"{text(f'/proc/{pid}/comm') or '?'} (pid {pid}, {job_processes.owner_of(pid)})" for pid in left
        ]
        return f"job {job.meta.job_id}: " + (", ".join(named) or "its group does not become empty")

    def _release(self, job: Job, used: Optional[launch_cgroups.Usage] = None) -> bool:
        return self._containment.release(hold_name(*job.key), job.meta.hold.groups, used)


def _take_usage(job: Job) -> launch_cgroups.Usage:
    """Read the usage that the kernel has counted.

    If the kernel killed a process for lack of memory, the launch's cause becomes "oom".
    """
    used = launch_cgroups.usage(job.meta.hold.groups)
    job.peak_mem_bytes = max(job.peak_mem_bytes, used.peak_mem_bytes)
    job.cpu = max(job.cpu, used.cpu, sum_of((job.own_cpu, job.steps_cpu)))
    if used.oom_kills and not job.cause:
        job.cause = "oom"
        own = used.limit_bytes and not 0 < used.peak_mem_bytes < NEAR * used.limit_bytes
        what = f"its limit of {used.limit_bytes / GIB:.2f} GiB" if own else "the node's memory"
        job.message = f"out of memory: it used up {what} (peak {used.peak_mem_bytes / GIB:.2f} GiB)"
    return used


def _epilog_env(job: Job) -> dict[str, str]:
    assert job.meta.hooks is not None
    code, number = job.folder.exit_status() or (1, 0)
    return {
        **job.meta.hooks.env,
        "SLURM_JOB_EXIT_CODE": str(code << 8 | number),
        "SLURM_JOB_EXIT_CODE2": f"{code}:{number}",
    }
