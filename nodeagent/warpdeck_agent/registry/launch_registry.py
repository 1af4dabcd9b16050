"""The launches of this node, idempotent by (job id, restarts).

State that must outlive the agent is in the spool. A launch that arrives a second time is only reported.
`beginning` starts launches, `watching` notices their ends, and `ending` ends them. This module has the table
of launches, the adoption of launches by a restarted agent, the time limits, and the cleanup after the
controller's Forget.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Container, Coroutine, Dict, List, Optional, Set

from warpdeck_agent.code.trees import TreeStore
from warpdeck_agent.gpu.gpus import GpuWatch
from warpdeck_agent.gpu.residual_processes import Leftovers, Report
from warpdeck_agent.isolation import job_processes
from warpdeck_agent.isolation.containment import Containment
from warpdeck_agent.isolation.hold import hold_name
from warpdeck_agent.isolation.orphans import Orphans
from warpdeck_agent.launch.launch import Job
from warpdeck_agent.launch.memory_limit import MemoryWatch, Watched
from warpdeck_agent.launch.notices import Notices
from warpdeck_agent.launch.signals import Signals
from warpdeck_agent.launch.time_limit import TimeLimit
from warpdeck_agent.linux.cpu_time import CpuTime
from warpdeck_agent.linux.folder_removal import remove_tree
from warpdeck_agent.linux.own_program import own_path
from warpdeck_agent.linux.process_end_watch import Watch
from warpdeck_agent.start.gpu_sharing import Parts, StartGate
from warpdeck_agent.start.launch_setup import LaunchSetup
from warpdeck_agent.start.launch_start import Launcher
from warpdeck_agent.start.login_shell import kill_left
from warpdeck_agent.steps.step_registry import StepRegistry
from warpdeck_agent.storage.spool import KEEP_FORGOTTEN_S, Folder, LaunchFolder, Spool
from warpdeck_agent.storage.tmpdirs import TempDirs
from warpdeck_agent.supervisor.starter import FANOUT, SCRIPT, START, TASKS, install
from warpdeck_agent.supervisor.supervisor_link import Supervision, SupervisorLost
from warpdeck_agent.tasks.ports import Ports
from warpdeck_agent.users.ipc_cleanup import Remnants
from warpdeck_agent.users.user_children import UserChildren
from warpdeck_agent.users.user_files import UserFile
from warpdeck_agent.wire.messages import (
    RESUMED,
    SUSPENDED,
    GpuInfo,
    GpuSample,
    JobReport,
    Key,
    Kill,
    Notice,
    Remark,
    SetLimit,
)

from .ending import Ending
from .launch_queue import LaunchQueue
from .teardown import Teardown

GIB = 2**30
MAX_CURVES = 300
"""The most ended launches whose curves one Welcome carries. Each curve has several kilobytes, and the size of
a message is limited.
"""
LAUNCH_THREADS = 4
"""Starting a process blocks for about a millisecond; more threads than this gain nothing."""


class LaunchRegistry:
    """All launches that the controller has not yet forgotten."""

    def __init__(
        self,
        spool: Spool,
        trees: TreeStore,
        tell: Callable[[Any], None],
        *,
        gpus: GpuWatch,
        show_gpus: Report,
    ) -> None:
        self._spool = spool
        self._tell = tell
        self._jobs: Dict[Key, Job] = {}
        self._tasks: Set[asyncio.Task[None]] = set()
        self.containment = Containment(spool.identity)
        pool = ThreadPoolExecutor(LAUNCH_THREADS, thread_name_prefix="launch")
        self._tempdirs = TempDirs(spool)
        leftovers = Leftovers(gpus, show_gpus)
        self._turns = StartGate(lambda launch, words: self._remark((launch.job_id, launch.restarts), words))
        self._parts = Parts(warn=self._warn_sharer, end=self._end_sharer)
        self._remnants = Remnants()
        rooms = LaunchSetup(
            self.containment,
            self._tempdirs,
            gpus,
            leftovers,
            self._turns,
            self._remnants,
            sharers=self._sharers,
            own_paths=(spool.path, own_path()),
        )
        self.ports = Ports()
        self._supervision = Supervision(spool.path, on_end=self._ended, on_loss=self._unsupervised)
        children = UserChildren(pool)
        self._launcher = Launcher(
            spool, trees, rooms, self._supervision, ports=self.ports, pool=pool, children=children
        )
        self.beginnings = LaunchQueue(
            self._launcher, self._jobs, tell, on_begin=self._limit_time, on_end=self._take_end
        )
        self._memory = MemoryWatch(pool)
        self.steps = self._make_steps(pool, children)
        self._signals = Signals(pool)
        self._notices = Notices(UserChildren(pool), pool)
        self._orphans = self._watch_orphans()
        self._ending = Ending(
            pool,
            self._signals,
            self._make_clearing(pool, leftovers),
            tell,
            notices=self._notices,
            on_free=self.beginnings.place_is_free,
        )
        self._alone: Watch[Job] = Watch(
            self._ending.ended, pid=lambda job: job.folder.pid(), lives=lambda job: job.owns(job.folder.pid())
        )
        install(spool.file(START), SCRIPT)
        install(spool.file(TASKS), FANOUT)

    def _make_steps(self, pool: ThreadPoolExecutor, children: UserChildren) -> StepRegistry:
        return StepRegistry(
            self._spool,
            self.find,
            self._tell,
            pool=pool,
            ports=self.ports,
            memory=self._memory,
            expect_move=self.containment.lock.expect,
            children=children,
        )

    def _make_clearing(self, pool: ThreadPoolExecutor, leftovers: Leftovers) -> Teardown:
        return Teardown(
            pool,
            self.containment,
            leftovers,
            self._remnants,
            self._tempdirs,
            sweep=self._sweep,
            left=self._left,
            remark=self._remark,
            on_free=self.beginnings.place_is_free,
        )

    def reports(self) -> List[JobReport]:
        """Return the reports of all launches, for Welcome."""
        jobs = list(self._jobs.values())
        return [job.report(curve=place < MAX_CURVES) for place, job in enumerate(jobs)]

    def find(self, job_id: int, restarts: int) -> Optional[Job]:
        return self._jobs.get((job_id, restarts))

    async def find_begun(self, job_id: int, restarts: int) -> Optional[Job]:
        """Return the launch as `find` does, for a request from one of its processes.

        A process may ask before the supervisor has reported that the launch began. So this waits for that
        report first.
        """
        await self.beginnings.settled((job_id, restarts))
        return self.find(job_id, restarts)

    async def adopt(self) -> None:
        """Adopt the launches of an earlier agent: supervised ones continue, and ended ones are reported."""
        watched = await self._supervision.join()
        for folder in self._spool.jobs():
            self._adopt_one(Job(folder, folder.meta(), agent=self._spool.identity), watched)
        self.clean()
        self._spawn(self._prepare())
        metas = [job.meta for job in self._jobs.values()]
        self.containment.clear(keep={group for meta in metas for group in meta.hold.groups})
        if self._orphans is not None:
            self._spawn(self._orphans.run())
        kept = {folder for meta in metas for folder in meta.folders()}
        asyncio.get_running_loop().run_in_executor(None, self._tempdirs.clear, kept)

    async def _prepare(self) -> None:
        """Start the supervisor early, so that the first launch need not wait for it.

        If that fails, the first launch gets the error.
        """
        with contextlib.suppress(SupervisorLost):
            await self._supervision.prepare()

    def _adopt_one(self, job: Job, watched: Container[Key]) -> None:
        is_watched = job.key in watched
        if not is_watched and job.meta.role != "hold" and not job.folder.pid():
            kill_left(job)
            job.folder.remove()  # never started; the controller will send it again
            return
        self._jobs[job.key] = job
        job.may_have_ungrouped = True  # only the earlier agent knew this, so assume that it is true
        self.containment.adopt(hold_name(*job.key), job.meta.hold.cpus)
        self._remnants.enter(job.meta.uid, hold_name(*job.key), at_unix=job.meta.started_at)
        job.meter.restore(job.folder)
        self.steps.adopt(job)
        job.cause = job.folder.read("cause")
        if job.meta.role == "hold" and job.cause:
            self._ending.end_hold(job)
        elif job.meta.role == "hold":
            self._limit_time(job)
        elif job.folder.exit_status() is not None:
            self._ending.ended(job)
        else:
            self._limit_time(job)
            if not is_watched:
                self._alone.add(job)

    def _ended(self, key: Key, said: Dict[str, Any]) -> None:
        """Handle the supervisor's report that a launch's first process has ended."""
        job = self._jobs.get(key)
        if job is None:
            self.beginnings.has_ended(key, said)
        else:
            self._take_end(job, said)

    def _take_end(self, job: Job, said: Dict[str, Any]) -> None:
        system_s = said.get("system_s", 0.0)  # an older supervisor does not report it
        job.own_cpu = CpuTime(said["cpu_s"], system_s)
        job.own_peak_mem_bytes = max(job.own_peak_mem_bytes, said["peak_bytes"])
        job.cpu = max(job.cpu, job.own_cpu)
        job.peak_mem_bytes = max(job.peak_mem_bytes, job.own_peak_mem_bytes)
        self._ending.ended(job)

    def _unsupervised(self) -> None:
        """Watch all running jobs directly after the supervisor was killed. The jobs themselves continue."""
        for job in self._jobs.values():
            if job.phase == "running" and job.meta.role != "hold":
                self._alone.add(job)

    def _running_uids(self) -> Set[int]:
        return {job.meta.uid for job in list(self._jobs.values()) if job.phase == "running"}

    def marks(self) -> Dict[job_processes.Mark, int]:
        """Return {job tag: job id} of all launches. Threads call this."""
        return {job.mark: job.meta.job_id for job in list(self._jobs.values())}

    def _watch_orphans(self) -> Optional[Orphans]:
        """Return the watcher of orphaned processes, or None if cgroups hold jobs together."""
        if self.containment.groups_jobs:
            return None
        return Orphans(
            self._spool.identity,
            self._running_uids,
            marks=self.marks,
            supervisor=lambda: self._supervision.pid,
            begins=lambda: self.beginnings.any_is_under_way,
            helpers=UserFile.readers,
        )

    def _sweep(self, job: Job, known: Dict[job_processes.Mark, List[int]]) -> int:
        """Kill the remaining processes of an ended launch and return their number. Blocks."""
        if self._orphans is None or job.grouped:
            return job_processes.sweep(job.mark, job.meta.hold.groups, known)
        return self._orphans.sweep(job.mark, known.get(job.mark, ()))

    def _left(self, job: Job) -> List[int]:
        """Return the pids of the remaining processes of an ended launch. Blocks."""
        strays = self._orphans.strays(job.meta.uid) if self._orphans is not None else []
        return sorted({*job.members(), *strays})

    def _sharers(self, uuid: str) -> Set[int]:
        """Return the ids of all jobs that have this GPU, including suspended ones."""
        return {job.meta.job_id for job in self._jobs.values() if uuid in job.meta.gpus}

    def _limit_time(self, job: Job) -> None:
        job.limit = TimeLimit(
            job.folder,
            job.meta,
            warn=lambda: self._warn(job),
            over=lambda: self._ending.kill(job, cause="timeout", grace_s=job.meta.grace_s),
        )
        job.limit.run()
        if job.meta.hold.watch_mem_bytes:
            self._memory.add(
                Watched(
                    mark=job.mark,
                    limit_bytes=job.meta.hold.watch_mem_bytes,
                    runs=lambda: job.phase == "running",
                    used=job.note_memory,
                    over=lambda mem_bytes: self._out_of_memory(job, mem_bytes),
                )
            )

    def _out_of_memory(self, job: Job, mem_bytes: int) -> None:
        if job.cause:
            return
        limit = job.meta.hold.watch_mem_bytes
        job.message = (
            f"out of memory: it used {mem_bytes / GIB:.2f} GiB, and its limit is {limit / GIB:.2f} GiB"
        )
        self._ending.kill(job, cause="oom", grace_s=0.0)

    def running(self) -> List[Job]:
        """Return the launches that are running now."""
        return [job for job in self._jobs.values() if job.phase == "running"]

    def gpus_in_use(self) -> Set[str]:
        """Return the UUIDs of the GPUs of launches whose processes may still run on this node."""
        return {
            uuid
            for job in self._jobs.values()
            if job.phase in ("running", "ending")
            for uuid in job.meta.gpus
        }

    def end(self, job: Job, words: str, *, cause: str) -> None:
        """End a launch for a reason on the node's side. `words` describe the reason."""
        job.message = words
        self._ending.kill(job, cause=cause, grace_s=job.meta.grace_s)

    def see_gpus(self, gpus: List[GpuSample], found: List[GpuInfo]) -> None:
        """Process a GPU reading.

        It enforces the GPU share of each job on a shared GPU. It also lets the next sharer begin once the
        previous one has allocated its memory.
        """
        running = self.running()
        self._turns.see(gpus, found, alive={*(job.key for job in running), *self.beginnings.under_way})
        self._parts.see(running, gpus, found)

    def _warn_sharer(self, job: Job, words: str) -> None:
        self._notices.write(job, words)
        self._remark(job.key, words)

    def _end_sharer(self, job: Job, words: str) -> None:
        self._notices.say_why_it_ends(job, cause="gpu memory")
        self.end(job, words, cause="oom")

    def _remark(self, key: Key, words: str) -> None:
        self._tell(Remark(job_id=key[0], restarts=key[1], text=words))

    def _warn(self, job: Job) -> None:
        if job.meta.role != "hold":
            self._spawn(self._signals.warn(job))

    def _suspend(self, job: Job, asked: Kill) -> None:
        """Suspend the launch and its time limit, or resume both."""
        if job.phase != "running" or job.limit is None:
            return
        if asked.cause == SUSPENDED:
            job.limit.suspend()
            self._spawn(self._signals.stop(job, asked.signal))
        else:
            job.limit.resume()
            self._spawn(self._signals.send(job, asked.signal))

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def finish_kills(self) -> None:
        """Wait, before the agent exits, for jobs that were to be killed at once."""
        await self._ending.finish_kills()

    def close(self) -> None:
        """Remove all temporary files and cgroups of the agent that running jobs do not need."""
        self.containment.close()
        self._tempdirs.drop_spares()

    def kill(self, asked: Kill) -> None:
        """End, suspend, resume or signal a launch.

        For a launch that does not exist yet, the controller sends Kill again when the launch reports that it
        runs.
        """
        job = self.find(asked.job_id, asked.restarts)
        if job is None and not asked.signal:
            self._end_unbegun((asked.job_id, asked.restarts), cause=asked.cause)
        if job is None:
            return
        if asked.signal and asked.cause in (SUSPENDED, RESUMED):
            self._suspend(job, asked)
        else:
            self._ending.kill(
                job, cause=asked.cause, grace_s=asked.grace_s, number=asked.signal, whom=asked.whom
            )

    def _end_unbegun(self, key: Key, *, cause: str) -> None:
        self._turns.give_up(key)
        self.beginnings.end_unbegun(key, cause=cause)

    def set_limit(self, asked: SetLimit) -> None:
        """Change the time limit of a running launch."""
        job = self.find(asked.job_id, asked.restarts)
        if job is not None and job.limit is not None and job.phase == "running":
            job.limit.change(asked.time_limit_s)

    def notify(self, notice: Notice) -> None:
        """Show a line to the users of the job."""
        job = self.find(notice.job_id, notice.restarts)
        if job is not None:
            self._notices.write(job, notice.text)

    def forget(self, job_id: int, restarts: int) -> None:
        """Drop a launch whose end the controller has recorded.

        Output that only the agent keeps stays readable for a while.
        """
        job = self._jobs.get((job_id, restarts))
        if job is None or job.phase not in ("exited", "lost"):
            return
        del self._jobs[job.key]
        self.steps.drop_of(job)
        self.ports.release(job.key)
        if job.meta.stdout or not job.folder.keeps_output():
            self._remove(job.folder)
            return
        try:
            # Not written durably: after a power failure the output may be removed early, but waiting for the
            # disk would delay other launches.
            job.folder.write("forgotten", str(time.time()), durable=False)
            job.folder.release()
        except OSError:  # no space even for that: free some before the next launch needs it
            job.folder.remove()

    def _remove(self, folder: LaunchFolder) -> None:
        """Remove the launch's folder and record.

        It runs in a thread, because deleting files with data can take long on a disk, and other launches
        would wait.
        """
        if os.path.lexists(folder.path):  # few launches have a folder
            self._spawn(self._remove_folder(folder))
        else:
            folder.release()

    async def _remove_folder(self, folder: LaunchFolder) -> None:
        """Remove the folder, then the record.

        The record goes last, because without it the folder would never be found again.
        """
        await asyncio.get_running_loop().run_in_executor(None, remove_tree, folder.path)
        folder.release()

    def kept_output(self, job_id: int, restarts: int, channel: str) -> str:
        """Return the path of the output file of a forgotten job, or "" if it is gone."""
        folder = self._spool.job(job_id, restarts)
        path = folder.file("out" if channel == "out" else "err")
        return path if os.path.exists(path) else ""

    def clean(self) -> None:
        """Remove the data of launches that were forgotten long ago."""
        known = {job.folder.path for job in self._jobs.values()}
        launching = {self._spool.job(*key).path for key in self.beginnings.under_way}
        for folder in self._spool.folders():
            if folder.path not in known | launching and _is_old(folder):
                remove_tree(folder.path)
        self._launcher.scripts.clean({job.meta.script for job in self._jobs.values()})


def _is_old(folder: Folder) -> bool:
    """Return whether the folder's output has been kept for longer than KEEP_FORGOTTEN_S since Forget."""
    try:
        at = float(folder.read("forgotten"))
    except ValueError:
        at = 0.0
    return time.time() - at > KEEP_FORGOTTEN_S
