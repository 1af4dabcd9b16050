"""The jobs of this node: one table of launches, idempotent by (job id, restarts); what outlives the agent is in the spool.

A launch that is asked for again is only reported. `beginning` starts, `watching` notices an end, `ending` ends; here is
who is held, what a restarted agent adopts, the time limits, and what is let go after the controller's Forget.
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
from warpdeck_agent.start.gpu_sharing import Parts, Turns
from warpdeck_agent.start.launch_setup import Rooms
from warpdeck_agent.start.launch_start import Launcher
from warpdeck_agent.start.login_shell import kill_left
from warpdeck_agent.steps.step_registry import Steps
from warpdeck_agent.storage.spool import KEEP_FORGOTTEN_S, Folder, LaunchFolder, Spool
from warpdeck_agent.storage.tmpdirs import TempDirs
from warpdeck_agent.supervisor.starter import SCRIPT, START, install
from warpdeck_agent.supervisor.supervisor_link import Supervision, SupervisorLost
from warpdeck_agent.supervisor.task_launcher import FANOUT
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
from .launch_queue import Beginnings
from .teardown import Clearing

GIB = 2**30
MAX_CURVES = 300
"""Ended launches whose curves one Welcome carries: some kilobytes each, and a message has a limit."""
LAUNCH_THREADS = 4
"""Starting a process blocks for about a millisecond; more threads than this gain nothing."""


class Jobs:
    """All launches that the controller has not let go."""

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
        self._turns = Turns(lambda launch, words: self._remark((launch.job_id, launch.restarts), words))
        self._parts = Parts(warn=self._warn_sharer, end=self._end_sharer)
        self._remnants = Remnants()
        rooms = Rooms(
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
        self.beginnings = Beginnings(
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
        install(spool.file("tasks.sh"), FANOUT)

    def _make_steps(self, pool: ThreadPoolExecutor, children: UserChildren) -> Steps:
        return Steps(
            self._spool,
            self.find,
            self._tell,
            pool=pool,
            ports=self.ports,
            memory=self._memory,
            expect_move=self.containment.lock.expect,
            children=children,
        )

    def _make_clearing(self, pool: ThreadPoolExecutor, leftovers: Leftovers) -> Clearing:
        return Clearing(
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
        """Every launch held, for Welcome."""
        jobs = list(self._jobs.values())
        return [job.report(curve=place < MAX_CURVES) for place, job in enumerate(jobs)]

    def find(self, job_id: int, restarts: int) -> Optional[Job]:
        return self._jobs.get((job_id, restarts))

    async def find_begun(self, job_id: int, restarts: int) -> Optional[Job]:
        """The same for a process of the launch, which may ask before the supervisor has told that it began."""
        await self.beginnings.settled((job_id, restarts))
        return self.find(job_id, restarts)

    async def adopt(self) -> None:
        """Takes up what an earlier agent left: what the supervisor watches goes on, what has ended is reported."""
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
        """The first launch need not wait for the supervisor's start; should that fail, it will be told why."""
        with contextlib.suppress(SupervisorLost):
            await self._supervision.prepare()

    def _adopt_one(self, job: Job, watched: Container[Key]) -> None:
        is_watched = job.key in watched
        if not is_watched and job.meta.role != "hold" and not job.folder.pid():
            kill_left(job)
            job.folder.remove()  # never started; the controller will ask again
            return
        self._jobs[job.key] = job
        job.may_have_ungrouped = True  # an earlier agent knew
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
        """The supervisor's word that a launch's first process has ended."""
        job = self._jobs.get(key)
        if job is None:
            self.beginnings.has_ended(key, said)
        else:
            self._take_end(job, said)

    def _take_end(self, job: Job, said: Dict[str, Any]) -> None:
        system_s = said.get("system_s", 0.0)  # an older supervisor does not tell it
        job.own_cpu = CpuTime(said["cpu_s"], system_s)
        job.own_peak_mem_bytes = max(job.own_peak_mem_bytes, said["peak_bytes"])
        job.cpu = max(job.cpu, job.own_cpu)
        job.peak_mem_bytes = max(job.peak_mem_bytes, job.own_peak_mem_bytes)
        self._ending.ended(job)

    def _unsupervised(self) -> None:
        """The supervisor was killed. What it watched goes on."""
        for job in self._jobs.values():
            if job.phase == "running" and job.meta.role != "hold":
                self._alone.add(job)

    def _running_uids(self) -> Set[int]:
        return {job.meta.uid for job in list(self._jobs.values()) if job.phase == "running"}

    def marks(self) -> Dict[job_processes.Mark, int]:
        """The job of each launch's mark. Asked from threads."""
        return {job.mark: job.meta.job_id for job in list(self._jobs.values())}

    def _watch_orphans(self) -> Optional[Orphans]:
        """Where no group holds jobs together."""
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
        """Kills what is left of an ended launch; how many there were. Blocks."""
        if self._orphans is None or job.grouped:
            return job_processes.sweep(job.mark, job.meta.hold.groups, known)
        return self._orphans.sweep(job.mark, known.get(job.mark, ()))

    def _left(self, job: Job) -> List[int]:
        """What is left of an ended launch. Blocks."""
        strays = self._orphans.strays(job.meta.uid) if self._orphans is not None else []
        return sorted({*job.members(), *strays})

    def _sharers(self, uuid: str) -> Set[int]:
        """The jobs that this GPU is given to, suspended ones too."""
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
        """Those that run now."""
        return [job for job in self._jobs.values() if job.phase == "running"]

    def gpus_in_use(self) -> Set[str]:
        """The GPUs that launches have which may still run here."""
        return {
            uuid
            for job in self._jobs.values()
            if job.phase in ("running", "ending")
            for uuid in job.meta.gpus
        }

    def end(self, job: Job, words: str, *, cause: str) -> None:
        """Ends a launch for a reason of the node's own; in words which."""
        job.message = words
        self._ending.kill(job, cause=cause, grace_s=job.meta.grace_s)

    def see_gpus(self, gpus: List[GpuSample], found: List[GpuInfo]) -> None:
        """A reading: who shares a GPU is held to its part, and the next sharer may begin when the last one has settled."""
        running = self.running()
        self._turns.see(gpus, found, alive={*(job.key for job in running), *self.beginnings.under_way})
        self._parts.see(running, gpus, found)

    def _warn_sharer(self, job: Job, words: str) -> None:
        self._notices.write(job, words)
        self._remark(job.key, words)

    def _end_sharer(self, job: Job, words: str) -> None:
        self._notices.say_why_it_ends(job, cause="gpu memory")  # which no handler of the kernel's sees to
        self.end(job, words, cause="oom")

    def _remark(self, key: Key, words: str) -> None:
        self._tell(Remark(job_id=key[0], restarts=key[1], text=words))

    def _warn(self, job: Job) -> None:
        if job.meta.role != "hold":
            self._spawn(self._signals.warn(job))

    def _suspend(self, job: Job, asked: Kill) -> None:
        """Stops the launch where it is, or lets it go on, and the time of its limit with it."""
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
        """Waits, before the agent ends, for jobs that were to be killed at once."""
        await self._ending.finish_kills()

    def close(self) -> None:
        """Leaves nothing behind, unless jobs go on."""
        self.containment.close()
        self._tempdirs.drop_spares()

    def kill(self, asked: Kill) -> None:
        """Ends, suspends, resumes or signals a launch. One that is not there yet is asked again when it reports that it runs."""
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
        """A launch gets another time limit."""
        job = self.find(asked.job_id, asked.restarts)
        if job is not None and job.limit is not None and job.phase == "running":
            job.limit.change(asked.time_limit_s)

    def notify(self, notice: Notice) -> None:
        """Shows a line where the people who look at the job see it."""
        job = self.find(notice.job_id, notice.restarts)
        if job is not None:
            self._notices.write(job, notice.text)

    def forget(self, job_id: int, restarts: int) -> None:
        """The controller has it. Output that only we keep stays readable for a while."""
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
            # Not durable: after a power cut the output may go early, and to wait for the disk would hold up other launches.
            job.folder.write("forgotten", str(time.time()), durable=False)
            job.folder.release()
        except OSError:  # no space even for that: make some, before the next launch needs it
            job.folder.remove()

    def _remove(self, folder: LaunchFolder) -> None:
        """Leaves nothing. In a thread: a disk may take long over files that held something, and launches would wait."""
        if os.path.lexists(folder.path):  # few launches have a folder
            self._spawn(self._remove_folder(folder))
        else:
            folder.release()

    async def _remove_folder(self, folder: LaunchFolder) -> None:
        """The record goes last: without it nobody would look for the rest."""
        await asyncio.get_running_loop().run_in_executor(None, remove_tree, folder.path)
        folder.release()

    def kept_output(self, job_id: int, restarts: int, channel: str) -> str:
        """The output file of a job that was let go, "" if it is gone."""
        folder = self._spool.job(job_id, restarts)
        path = folder.file("out" if channel == "out" else "err")
        return path if os.path.exists(path) else ""

    def clean(self) -> None:
        """Removes what was let go long ago."""
        known = {job.folder.path for job in self._jobs.values()}
        launching = {self._spool.job(*key).path for key in self.beginnings.under_way}
        for folder in self._spool.folders():
            if folder.path not in known | launching and _is_old(folder):
                remove_tree(folder.path)
        self._launcher.scripts.clean({job.meta.script for job in self._jobs.values()})


def _is_old(folder: Folder) -> bool:
    """Whether nobody may want what a launch has left there."""
    try:
        at = float(folder.read("forgotten"))
    except ValueError:
        at = 0.0
    return time.time() - at > KEEP_FORGOTTEN_S
