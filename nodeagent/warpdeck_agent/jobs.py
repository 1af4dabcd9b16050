"""The jobs of this node: start, watch, end, adopt. Everything that must outlive the agent is in the spool.

A launch is idempotent by (job id, restarts): its folder is made exclusively, and whoever finds it there reports what is
known. Supervisors are watched by pidfd, adopted ones like own children. When one ends, its exit status is made durable,
what is left of the job is killed, and the end is reported until the controller says Forget.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from . import containment, processes
from .spool import KEEP_FORGOTTEN_S, JobFolder, Meta, Spool
from .supervisor import as_user, install_wrapper
from .trees import TreeError, TreeStore, link_ignored
from .wire.messages import JobReport, Launch, LaunchFailed

Key = Tuple[int, int]
LAUNCH_THREADS = 4
"""Starting a process blocks for about a millisecond; more threads than this gain nothing."""
SWEEP_DELAY_S = 0.002
"""Ends that come this close together share one walk over /proc."""
MIN_PIDFD_RETRY_S = 0.05


class LaunchError(Exception):
    """A launch that cannot be, in one sentence."""


class Job:
    """A launch in memory."""

    def __init__(self, folder: JobFolder, meta: Meta, *, agent: str) -> None:
        self.folder = folder
        self.meta = meta
        self.mark = processes.mark(meta.job_id, meta.restarts, agent=agent)
        self.phase = "running"
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.ended_at = 0.0
        self.status: Tuple[int, int] = (0, 0)
        self.message = ""
        self.cause = ""
        self.peak_mem_bytes = 0
        self.cpu_seconds = 0.0
        self.limit_timer: Optional[asyncio.TimerHandle] = None
        self.done = asyncio.Event()

    @property
    def key(self) -> Key:
        return self.meta.job_id, self.meta.restarts

    def output(self, channel: str) -> str:
        """The file that holds this channel."""
        kept = self.meta.stdout if channel == "out" else self.meta.stderr or self.meta.stdout
        return kept or self.folder.file("out" if channel == "out" else "err")

    def report(self) -> JobReport:
        """The agent's word on it. Output that only the agent keeps is told as "spool:..."."""
        stdout = self.meta.stdout or "spool:" + self.folder.file("out")
        return JobReport(
            job_id=self.meta.job_id,
            restarts=self.meta.restarts,
            phase="running" if self.phase == "ending" else self.phase,  # how it ended is not read yet
            pid=self.folder.pid() if self.phase == "running" else 0,
            started_at=self.meta.started_at,
            ended_at=self.ended_at,
            exit_code=self.status[0],
            signal=self.status[1],
            cause=self.cause,
            message=self.message,
            stdout_path=stdout,
            stderr_path=self.meta.stderr,
            work_dir=self.meta.work_dir,
            peak_mem_bytes=self.peak_mem_bytes,
            cpu_seconds=self.cpu_seconds,
        )


class Jobs:
    """All launches that the controller has not let go."""

    def __init__(self, spool: Spool, trees: TreeStore, tell: Callable[[Any], None]) -> None:
        self._spool = spool
        self._trees = trees
        self._tell = tell
        self._jobs: Dict[Key, Job] = {}
        self._launching: Set[Key] = set()
        self._pool = ThreadPoolExecutor(LAUNCH_THREADS, thread_name_prefix="launch")
        self._tasks: Set[asyncio.Task[None]] = set()
        self._ended: List[Job] = []
        self._extracting: Dict[str, asyncio.Lock] = {}
        self.containment = containment.Containment(spool.identity)
        install_wrapper(spool.file("wrapper.sh"))

    def reports(self) -> List[JobReport]:
        """Every launch held, for Welcome."""
        return [job.report() for job in self._jobs.values()]

    def find(self, job_id: int, restarts: int) -> Optional[Job]:
        return self._jobs.get((job_id, restarts))

    def adopt(self) -> None:
        """Takes up what an earlier agent left: supervisors that live are watched, ended ones reported."""
        for folder in self._spool.jobs():
            meta = folder.meta()
            if folder.read("forgotten"):
                self._remove_if_old(folder)
            elif meta is None:
                folder.remove()
            else:
                self._adopt_one(Job(folder, meta, agent=self._spool.identity))

    def _adopt_one(self, job: Job) -> None:
        lives = job.folder.supervisor_lives()
        if not lives and job.meta.role != "hold" and not job.folder.pid():
            job.folder.remove()  # never started; the controller will ask again
            return
        self._jobs[job.key] = job
        if job.meta.role == "hold":
            if job.folder.read("cause"):
                self._end_hold(job)
            else:
                self._limit_time(job)
        elif lives:
            self._limit_time(job)
            self._watch(job)
        else:
            self._spawn(self._finish(job))

    def start(self, launch: Launch) -> None:
        """Starts a launch, or reports what is known of it."""
        key = (launch.job_id, launch.restarts)
        if key in self._launching:
            return
        job = self._jobs.get(key)
        if job is not None:
            self._tell(job.report())
            return
        self._launching.add(key)
        self._spawn(self._start(launch, key))

    async def _start(self, launch: Launch, key: Key) -> None:
        folder = self._spool.job(*key)
        try:
            job = await self._prepare(launch, folder)
            if launch.role != "hold":
                loop = asyncio.get_running_loop()
                job.process = await loop.run_in_executor(self._pool, self._run, launch, job)
        except (LaunchError, TreeError, OSError) as error:
            folder.remove()
            self._tell(LaunchFailed(job_id=key[0], restarts=key[1], message=_sentence(error)))
            return
        finally:
            self._launching.discard(key)
        self._jobs[key] = job
        self._limit_time(job)
        self._tell(job.report())
        if job.process is not None:
            self._watch(job)

    async def _prepare(self, launch: Launch, folder: JobFolder) -> Job:
        """Folder, code and meta of a launch; nothing runs yet."""
        uid, gid = account(launch)
        if os.path.exists(folder.path):
            folder.remove()  # left by an agent that died before its supervisor began
        os.makedirs(folder.path, mode=0o700)
        if os.geteuid() == 0:
            os.chown(folder.path, uid, gid)
        work_dir = await self._work_dir(launch, uid, gid)
        mem = launch.mem_bytes if launch.role != "hold" else 0
        meta = Meta(
            job_id=launch.job_id,
            restarts=launch.restarts,
            role=launch.role,
            user=launch.user,
            uid=uid,
            started_at=time.time(),
            time_limit_s=launch.time_limit_s,
            grace_s=launch.grace_s,
            stdout=launch.stdout if launch.cwd_visible else "",
            stderr=launch.stderr if launch.cwd_visible else "",
            work_dir=work_dir,
            pty=launch.pty,
            gpus=tuple(launch.gpus),
            cgroup=self.containment.make(f"job-{launch.job_id}.{launch.restarts}", mem),
        )
        folder.write_meta(meta)
        return Job(folder, meta, agent=self._spool.identity)

    async def _work_dir(self, launch: Launch, uid: int, gid: int) -> str:
        if launch.tree is None:
            if launch.cwd_visible and os.path.isdir(launch.cwd):
                return launch.cwd
            return self._trees.empty(f"{launch.workspace}-{launch.job_id}", uid=uid, gid=gid)
        tree = launch.tree
        lock = self._extracting.setdefault(launch.workspace, asyncio.Lock())
        async with lock:
            target = self._trees.work_dir(launch.workspace)
            if launch.restarts or not os.path.exists(target + ".ready"):
                await asyncio.get_running_loop().run_in_executor(
                    self._pool, lambda: self._trees.check_out(tree.sha256, launch.workspace, uid=uid, gid=gid)
                )
                if launch.cwd_visible:
                    link_ignored(tree.root, target, tree.links)
                with open(target + ".ready", "w", encoding="ascii"):
                    pass
        folder = os.path.normpath(os.path.join(target, tree.subdir))
        if not folder.startswith(target):
            raise TreeError("a submit folder outside its snapshot")
        return folder if os.path.isdir(folder) else target

    def _run(self, launch: Launch, job: Job) -> subprocess.Popen[bytes]:
        """Starts the supervisor. Runs in a thread."""
        folder, meta = job.folder, job.meta
        uid, gid = account(launch)
        lock = folder.open_lock()
        try:
            argv = as_user(self._command(launch, job), uid=uid, gid=gid, cgroup=meta.cgroup)
            return subprocess.Popen(
                argv,
                stdin=lock,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=self._environment(launch, job),
                cwd="/",
            )
        finally:
            os.close(lock)

    def _command(self, launch: Launch, job: Job) -> List[str]:
        folder = job.folder
        if launch.script:
            script = folder.file("script")
            descriptor = os.open(script, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o700)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(launch.script)
            if os.geteuid() == 0:
                os.chown(script, job.meta.uid, -1)
            command = [script, *launch.script_args]
        else:
            command = list(launch.argv)
        if launch.pty:
            size = [str(launch.rows), str(launch.cols)]
            return [sys.executable, *_self_argv(), "ptyhost", folder.path, job.meta.work_dir, *size, *command]
        kept = job.meta.stdout or folder.file("out")
        errors = job.meta.stderr
        if not job.meta.stdout and (launch.role == "tasks" or launch.stderr):
            errors = folder.file("err")
        mode = "append" if launch.append else "truncate"
        wrapper = ["/bin/sh", self._spool.file("wrapper.sh"), folder.path, kept, errors, mode]
        return [*wrapper, job.meta.work_dir, str(launch.tasks), str(launch.first_rank), *command]

    def _environment(self, launch: Launch, job: Job) -> Dict[str, str]:
        env = dict(launch.env)
        try:
            known = pwd.getpwuid(job.meta.uid)
            account_env = {"HOME": known.pw_dir, "USER": known.pw_name, "LOGNAME": known.pw_name}
            account_env["SHELL"] = known.pw_shell or "/bin/sh"
        except KeyError:
            account_env = {}
        for name, value in account_env.items():
            if not launch.cwd_visible or name not in env:
                env[name] = value
        env.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
        env.setdefault("TMPDIR", "/tmp")
        env["PWD"] = job.meta.work_dir
        env["WARPDECK_JOB"] = job.mark
        return env

    def _limit_time(self, job: Job) -> None:
        if job.meta.time_limit_s is None:
            return
        left = job.meta.started_at + job.meta.time_limit_s - time.time()
        loop = asyncio.get_running_loop()
        job.limit_timer = loop.call_later(max(0.0, left), self._time_over, job)

    def _time_over(self, job: Job) -> None:
        if job.phase == "running":
            self.kill(job, cause="timeout", grace_s=job.meta.grace_s)

    def _watch(self, job: Job) -> None:
        loop = asyncio.get_running_loop()
        pid = job.process.pid if job.process is not None else job.folder.pid()
        try:
            descriptor = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self._spawn(self._poll(job))
            return
        loop.add_reader(descriptor, self._supervisor_ended, job, descriptor)

    async def _poll(self, job: Job) -> None:
        """For kernels without pidfd, and supervisors that are gone already."""
        while job.folder.supervisor_lives():
            await asyncio.sleep(MIN_PIDFD_RETRY_S)
        if job.process is not None:
            job.process.wait()
        await self._finish(job)

    def _supervisor_ended(self, job: Job, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        if job.process is not None:
            job.process.wait()
        self._spawn(self._finish(job))

    async def _finish(self, job: Job) -> None:
        """The end of a supervisor. Ends that come together are swept together."""
        if job.phase != "running":
            return
        job.phase = "ending"
        job.ended_at = time.time()
        self._ended.append(job)
        if len(self._ended) > 1:
            return
        await asyncio.sleep(SWEEP_DELAY_S)
        batch, self._ended = self._ended, []
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._pool, self._settle, batch)
        for ended in batch:
            self._close(ended)

    def _settle(self, batch: List[Job]) -> None:
        """Durable exit statuses, and nothing left running. Runs in a thread."""
        known = processes.marked()
        for job in batch:
            job.folder.sync_exit()
            group = job.meta.cgroup
            if group:
                job.peak_mem_bytes, job.cpu_seconds, oom = containment.usage(group)
                job.cause = "oom" if oom else ""
            processes.sweep(job.mark, group, known)
            containment.remove(group)

    def _close(self, job: Job) -> None:
        status = job.folder.exit_status()
        job.message = job.folder.read("message")
        if status is None:
            job.phase, job.status = "lost", (1, 0)
            job.message = "its supervisor was killed; how it ended is not known"
        else:
            job.phase, job.status = "exited", status
            job.cause = "launch_failed" if job.message else job.cause
        job.cause = job.folder.read("cause") or job.cause
        self._let_timers_go(job)
        self._tell(job.report())
        job.done.set()

    def _end_hold(self, job: Job) -> None:
        job.phase, job.ended_at = "exited", time.time()
        job.cause = job.folder.read("cause")
        self._spawn(self._sweep_hold(job))

    async def _sweep_hold(self, job: Job) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._pool, processes.sweep, job.mark, job.meta.cgroup)
        containment.remove(job.meta.cgroup)
        self._let_timers_go(job)
        self._tell(job.report())
        job.done.set()

    def _let_timers_go(self, job: Job) -> None:
        if job.limit_timer is not None:
            job.limit_timer.cancel()

    def kill(self, job: Job, *, cause: str, grace_s: float, number: int = 0) -> None:
        """Ends the job: TERM, then KILL after the grace time; or sends one signal only."""
        if job.phase != "running":
            return
        if number:
            processes.send(self._members(job), number)
            return
        if not job.folder.read("cause"):
            job.folder.write("cause", cause)
        if job.meta.role == "hold":
            self._end_hold(job)
            return
        self._spawn(self._end(job, grace_s))

    async def _end(self, job: Job, grace_s: float) -> None:
        loop = asyncio.get_running_loop()
        first = signal.SIGTERM if grace_s > 0 else signal.SIGKILL
        processes.send(await loop.run_in_executor(self._pool, self._members, job), first)
        try:
            await asyncio.wait_for(job.done.wait(), grace_s if grace_s > 0 else 1.0)
            return
        except TimeoutError:
            pass
        while job.phase == "running":
            members = await loop.run_in_executor(self._pool, self._members, job)
            processes.send(members, signal.SIGKILL)
            try:
                await asyncio.wait_for(job.done.wait(), 0.5)
            except TimeoutError:
                continue

    def _members(self, job: Job) -> List[int]:
        """The job's processes, less its supervisor, which has to tell the end."""
        found = set(processes.marked().get(job.mark, ()))
        if job.meta.cgroup:
            found.update(processes.cgroup_pids(job.meta.cgroup))
        found.discard(job.folder.pid())
        return sorted(found)

    def forget(self, job_id: int, restarts: int) -> None:
        """The controller has it. Output that only we keep stays readable for a while."""
        job = self._jobs.get((job_id, restarts))
        if job is None or job.phase not in ("exited", "lost"):
            return
        del self._jobs[job.key]
        if job.meta.stdout:
            job.folder.remove()
        else:
            job.folder.write("forgotten", str(time.time()))

    def kept_output(self, job_id: int, restarts: int, channel: str) -> str:
        """The output file of a job that was let go, "" if it is gone."""
        folder = self._spool.job(job_id, restarts)
        path = folder.file("out" if channel == "out" else "err")
        return path if os.path.exists(path) else ""

    def clean(self) -> None:
        """Removes what was let go long ago."""
        for folder in self._spool.jobs():
            if folder.read("forgotten"):
                self._remove_if_old(folder)

    def _remove_if_old(self, folder: JobFolder) -> None:
        try:
            at = float(folder.read("forgotten"))
        except ValueError:
            at = 0.0
        if time.time() - at > KEEP_FORGOTTEN_S:
            folder.remove()

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def account(launch: Launch) -> Tuple[int, int]:
    """(uid, gid) on this node. A root agent looks the user up by name; any other runs everything as itself."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    try:
        found = pwd.getpwnam(launch.user)
    except KeyError as error:
        raise LaunchError(f"there is no user {launch.user} on this node") from error
    return found.pw_uid, found.pw_gid


def _self_argv() -> List[str]:
    """How to run this program again."""
    archive = os.path.abspath(sys.argv[0])
    return [archive] if archive.endswith(".pyz") else ["-m", "warpdeck_agent"]


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return f"{os.strerror(error.errno or 0)}{where}"
    return str(error)
