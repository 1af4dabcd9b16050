"""From a Launch to a running process: record, room, code, environment, and an order to the supervisor.

A root agent never runs a program with a user's environment: PATH, LD_PRELOAD and shell functions are the user's word.
The supervisor's child is the user before it looks at any of it (see child).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from concurrent.futures import Executor
from typing import Dict, List, Optional, Tuple

from . import loginpath, processes
from .accounts import Account, account, account_environment, as_user, group_of, groups_of
from .carrying import carrying
from .containers import contained
from .folders import Folders
from .hold import hold_name
from .interpreters import Interpreters
from .job import Job
from .loginshell import login_environment
from .ports import Ports
from .programs import PROGRAMS
from .refusal import NO_ROOM, LaunchError, full_disk
from .room import Room, Rooms
from .scripts import Scripts
from .setting import Setting
from .spool import LaunchFolder, Meta, Spool
from .starter import Order, runs_here
from .supervision import Supervision, SupervisorLost
from .trees import TreeError, TreeStore, link_ignored
from .wire.messages import Launch
from .wire.places import place_of

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
RUNTIME_DIRS = "/run/user"
TOKEN_BYTES = 24
MAX_ATTEMPTS = 3
"""How often a launch is ordered anew because the supervisor was killed under it."""


class Launcher:
    """Starts launches; what must outlive the agent is in the spool when `start` returns."""

    def __init__(
        self,
        spool: Spool,
        trees: TreeStore,
        rooms: Rooms,
        supervision: Supervision,
        *,
        ports: Ports,
        pool: Executor,
    ) -> None:
        self._spool = spool
        self._supervision = supervision
        self.scripts = Scripts(spool.file("jobs/scripts"))
        self._trees = trees
        self._rooms = rooms
        self._ports = ports
        self._pool = pool
        self._interpreters = Interpreters()
        self._folders = Folders()
        self._extracting: Dict[str, asyncio.Lock] = {}

    async def start(self, launch: Launch) -> Job:
        """The launch, running. Raises LaunchError, and then nothing of it is left."""
        folder = self._spool.job(launch.job_id, launch.restarts)
        room: Optional[Room] = None
        try:
            who = account(launch)
            folder.create(uid=who.uid, gid=who.gid, terminal=launch.pty)
            room = await self._rooms.make(launch, uid=who.uid, gid=who.gid)
            job = await self._prepare(launch, folder, room=room, who=who)
            if launch.role != "hold":
                await self._begin(launch, job, who=who)
        except (LaunchError, TreeError, OSError, ValueError) as error:
            folder.remove()
            if room is not None:
                await self._rooms.undo(launch, room, uid=who.uid)
            if isinstance(error, LaunchError):
                raise
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise full_disk(self._spool.path) from error
            raise LaunchError(_sentence(error)) from error
        return job

    async def _begin(self, launch: Launch, job: Job, *, who: Account) -> None:
        """Raises LaunchError. A supervisor that is lost before the child has put its pid down has started nothing."""
        order = await self._order_in_time(launch, job, who=who)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                await self._supervision.start(order)
                return
            except SupervisorLost as error:
                if job.folder.pid() or attempt == MAX_ATTEMPTS:
                    processes.sweep(job.mark, job.meta.hold.groups)
                    raise LaunchError(str(error), again=True) from error

    async def _prepare(self, launch: Launch, folder: LaunchFolder, *, room: Room, who: Account) -> Job:
        """Code and meta of a launch; nothing runs yet."""
        uid, gid = who
        work_dir = await self._work_dir(launch, uid, gid)
        meta = Meta(
            job_id=launch.job_id,
            restarts=launch.restarts,
            role=launch.role,
            user=launch.user,
            uid=uid,
            started_at=time.time(),
            time_limit_s=launch.time_limit_s,
            grace_s=launch.grace_s,
            stdout=launch.stdout if _is_seen(launch) else "",
            stderr=launch.stderr if _is_seen(launch) else "",
            work_dir=work_dir,
            pty=launch.pty,
            gpus=tuple(launch.gpus),
            hold=room.hold,
            tmp_dir=room.tmp_dir,
            private=room.private,
            unkillable_s=launch.unkillable_s,
            hooks=launch.hooks,
            warn_signal=launch.warn_signal,
            warn_before_s=launch.warn_before_s,
            warn_batch_only=launch.warn_batch_only,
            idle_limit_s=launch.idle_limit_s if launch.pty else 0.0,
            idle_warning_s=launch.idle_warning_s,
            gpu_share_pct=launch.gpu_share_pct,
            share_grace_s=launch.share_grace_s,
            mem_bytes=launch.mem_bytes,
            node=launch.env.get("SLURMD_NODENAME", ""),
            token=secrets.token_hex(TOKEN_BYTES),
            script=self.scripts.path(launch.script, uid=uid, gid=gid) if launch.script else "",
        )
        folder.write_meta(meta)
        return Job(folder, meta, agent=self._spool.identity)

    async def _work_dir(self, launch: Launch, uid: int, gid: int) -> str:
        if launch.tree is None:
            if launch.cwd_visible and await self._folders.is_there(launch.cwd, uid=uid):
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
        if folder != target and not folder.startswith(target + os.sep):
            raise TreeError("a submit folder outside its snapshot")
        return folder if await self._folders.is_there(folder, uid=uid) else target

    async def _order_in_time(self, launch: Launch, job: Job, *, who: Account) -> Order:
        """Programs for terminals and containers are looked for, and login shells asked, which may block."""
        if not launch.pty and launch.container is None and not launch.login:
            return self._order(launch, job, who=who)
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: self._order(launch, job, who=who)
        )

    def _order(self, launch: Launch, job: Job, *, who: Account) -> Order:
        """What the supervisor is to start."""
        uid, gid = who
        out, err = self._outputs(launch, job, gid)
        env = {**self._environment(launch, job), "SLURM_PROCID": str(launch.first_rank), "SLURM_LOCALID": "0"}
        if "LOCAL_WORLD_SIZE" in env:  # a task of a command, not a batch script
            env.update({"RANK": str(launch.first_rank), "LOCAL_RANK": "0"})
        argv = self._command(launch, job, gid, env=env)
        if "\0" in "".join((*argv, *env, *env.values())):
            raise ValueError("a zero byte in it")
        if launch.container is None:
            argv = carrying(argv, env)
        return Order(
            job_id=launch.job_id,
            restarts=launch.restarts,
            record=job.folder.number,
            argv=argv,
            env=env,
            cwd=job.meta.work_dir,
            out=out,
            err=err,
            append=launch.append,
            stdin=launch.stdin or os.devnull,
            here=argv[0] == job.meta.script and runs_here(launch.script),
            limits=launch.limits,
            hold=vars(job.meta.hold),
            private=vars(job.meta.private) if job.meta.private is not None else None,
            account=None if uid == os.geteuid() else (uid, gid, groups_of(launch.user, gid=gid)),
        )

    def _outputs(self, launch: Launch, job: Job, gid: int) -> Tuple[str, str]:
        """The files of standard output and error. What is kept only here is made by us: its folder is not the user's."""
        if launch.pty:  # the terminal's host says nothing, and keeps what the terminal shows
            for name in ("out", "active"):
                job.folder.give(name, uid=job.meta.uid, gid=gid)
            return os.devnull, ""
        if job.meta.stdout:
            return job.meta.stdout, job.meta.stderr
        out = job.folder.give("out", uid=job.meta.uid, gid=gid)
        if launch.role == "tasks" or launch.stderr:
            return out, job.folder.give("err", uid=job.meta.uid, gid=gid)
        return out, job.meta.stderr

    def _command(self, launch: Launch, job: Job, gid: int, *, env: Dict[str, str]) -> List[str]:
        command = [job.meta.script, *launch.script_args] if job.meta.script else list(launch.argv)
        if launch.container is not None:
            command = contained(command, launch.container, self._setting(launch, job, env=env))
        if launch.pty:
            host = [*self._program(launch, job, gid), "ptyhost", job.folder.path, job.meta.work_dir]
            return [*host, str(launch.rows), str(launch.cols), *command]
        if launch.role == "tasks" and launch.tasks > 1:
            ranks = [str(launch.tasks), str(launch.first_rank)]
            return ["/bin/sh", self._spool.file("tasks.sh"), *ranks, *command]
        return command

    def _program(self, launch: Launch, job: Job, gid: int) -> List[str]:
        """This program, as the job's user may run it."""
        drop = as_user(launch.user, uid=job.meta.uid, gid=gid)
        found = self._interpreters.command(job.meta.uid, drop)
        if not found:
            raise LaunchError(
                f"{launch.user} may run no Python 3.9 or newer on this node, which terminals need: install python3"
            )
        return found

    def _setting(self, launch: Launch, job: Job, *, env: Dict[str, str]) -> Setting:
        meta = job.meta
        script = [meta.script] if meta.script else []
        return Setting(
            launch=hold_name(*job.key),
            work_dir=meta.work_dir,
            home=env.get("HOME", ""),
            paths=[meta.work_dir, meta.seen_tmp_dir, *script],
            env=list(env),
            gpus=bool(launch.gpus),
            pty=launch.pty,
            as_root=meta.uid == 0,
            tasks=launch.tasks if launch.role == "tasks" else 1,
        )

    def _environment(self, launch: Launch, job: Job) -> Dict[str, str]:
        env = dict(launch.env)
        if launch.login:
            drop = as_user(launch.user, uid=job.meta.uid, gid=group_of(job.meta))
            home = env.get("HOME") or account_environment(job.meta.uid).get("HOME", "/")
            env = {**login_environment(job.meta.uid, home=home, mark=job.mark, drop=drop), **env}
        for name, value in account_environment(job.meta.uid).items():
            if not launch.cwd_visible or name not in env:
                env[name] = value
        env["PWD"] = job.meta.work_dir
        env = self._ports.with_master(env, job.key, tasks=launch.role == "tasks")
        env.update(job_variables(job, self._spool))
        env.update(_times(launch))
        if _is_submit_hosts(env.get("XDG_RUNTIME_DIR", "")):
            del env["XDG_RUNTIME_DIR"]
        return with_programs(env, self._spool)


def _times(launch: Launch) -> Dict[str, str]:
    """When it began, which is now, and when its limit ends it: the controller hears of its start later than it needs them."""
    begun = int(time.time())
    made = {"SLURM_JOB_START_TIME": str(begun)}
    if launch.time_limit_s is not None:
        made["SLURM_JOB_END_TIME"] = str(begun + int(launch.time_limit_s))
    return made


def _is_seen(launch: Launch) -> bool:
    """Whether its output files are written here. What would lie in a folder that goes with the job is kept, and brought home."""
    files = [path for path in (launch.stdout, launch.stderr) if path]
    return launch.cwd_visible and not any(place_of(path, launch.private_dirs) for path in files)


def _is_submit_hosts(runtime_dir: str) -> bool:
    """Whether this folder of systemd's is none that this node has. Only the folder above is read, which is root's."""
    above, name = os.path.split(runtime_dir)
    return above == RUNTIME_DIRS and (not os.path.isdir(above) or name not in os.listdir(above))


def job_variables(job: Job, spool: Spool) -> Dict[str, str]:
    """What every process of a job carries: its mark, its own TMPDIR, and how it proves to us whose it is."""
    return {
        "WARPDECK_JOB": job.mark,
        "WARPDECK_ACCESS": spool.file("access.sock"),
        "WARPDECK_TOKEN": job.meta.token,
        "SLURM_JOB_GID": str(group_of(job.meta)),
        "TMPDIR": job.meta.seen_tmp_dir,
    }


def with_programs(env: Dict[str, str], spool: Spool) -> Dict[str, str]:
    """The environment with our own srun before any other on its PATH."""
    own = spool.file(PROGRAMS)
    words = [word for word in env.get("PATH", "").split(":") if word and word != own]
    made = {**env, "PATH": ":".join([own, *(words or DEFAULT_PATH.split(":"))])}
    return made | loginpath.variables(env, spool.path, uid=os.geteuid())


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return f"{os.strerror(error.errno or 0)}{where}"
    if isinstance(error, TreeError):
        return str(error)
    return f"the command or its environment cannot be passed on: {error}"
