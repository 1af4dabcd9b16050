"""Turns a Launch message into a running process.

It prepares the record, the resources, the code and the environment, and sends an order to the supervisor. A
root agent never runs a program with a user's environment, because the user controls PATH, LD_PRELOAD and
shell functions. The supervisor's child switches to the user before it uses any of the environment (see
`child`).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from concurrent.futures import Executor
from typing import Dict, List, Optional, Tuple

from warpdeck_agent.code.checkouts import Checkouts
from warpdeck_agent.code.trees import TreeError, TreeStore
from warpdeck_agent.code.work_folders import Folders
from warpdeck_agent.containers.container_environment import Setting
from warpdeck_agent.containers.containers import contained
from warpdeck_agent.gpu.gpu_names import with_gpu_names
from warpdeck_agent.isolation import job_processes
from warpdeck_agent.isolation.hold import ContainmentHandle, hold_name
from warpdeck_agent.launch.launch import Job
from warpdeck_agent.linux.env_passthrough import carrying
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.storage.scripts import Scripts
from warpdeck_agent.storage.spool import SCRIPTS, LaunchFolder, Meta, Spool
from warpdeck_agent.supervisor.starter import TASKS, LaunchOrder, runs_here
from warpdeck_agent.supervisor.supervisor_link import Supervision, SupervisorLost
from warpdeck_agent.tasks.ports import Ports
from warpdeck_agent.users import login_path
from warpdeck_agent.users.accounts import (
    Account,
    account,
    account_environment,
    as_user,
    group_of,
    groups_of,
)
from warpdeck_agent.users.interpreters import Interpreters
from warpdeck_agent.users.job_programs import PROGRAMS
from warpdeck_agent.users.user_children import DIE_S, ChildFailed, UserChildren
from warpdeck_agent.wire.messages import Key, Launch
from warpdeck_agent.wire.places import place_of

from .launch_setup import LaunchResources, LaunchSetup
from .login_shell import kill_left, login_shell, variables_of

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
RUNTIME_DIRS = "/run/user"
TOKEN_BYTES = 24
LOOK_S = 0.02
"""Interval in seconds between checks whether killed processes are gone."""
MAX_ATTEMPTS = 3
"""How often a launch is ordered before giving up, if the supervisor is killed each time."""


class Launcher:
    """Starts launches. When `start` returns, all data that must outlive the agent is in the spool."""

    def __init__(
        self,
        spool: Spool,
        trees: TreeStore,
        rooms: LaunchSetup,
        supervision: Supervision,
        *,
        ports: Ports,
        pool: Executor,
        children: UserChildren,
    ) -> None:
        self._spool = spool
        self._supervision = supervision
        self.scripts = Scripts(spool.file(SCRIPTS))
        self._children = children
        self._checkouts = Checkouts(trees, children, identity=spool.identity)
        self._rooms = rooms
        self._ports = ports
        self._pool = pool
        self._interpreters = Interpreters(children)
        self._folders = Folders()

    def stop(self, key: Key) -> bool:
        """Abort a launch that is being prepared by a process of its user; its `start` then fails.

        Returns False if there is no such process.
        """
        return self._children.stop(key)

    async def start(self, launch: Launch) -> Job:
        """Start the launch and return it, running.

        Raises LaunchError; nothing of the launch is left then.
        """
        folder = self._spool.job(launch.job_id, launch.restarts)
        room: Optional[LaunchResources] = None
        job: Optional[Job] = None
        try:
            who = account(launch)
            folder.create(uid=who.uid, gid=who.gid, terminal=launch.pty)
            room = await self._rooms.make(launch, uid=who.uid, gid=who.gid)
            job = await self._prepare(launch, folder, room=room, who=who)
            if launch.role != "hold":
                await self._begin(launch, job, who=who)
        except (LaunchError, TreeError, OSError, ValueError) as error:
            if job is not None and launch.login:
                await self._end_start_files(job)
            folder.remove()
            if room is not None:
                await self._rooms.undo(launch, room, uid=who.uid)
            raise await self._refusal(error) from error
        return job

    async def _refusal(self, error: BaseException) -> LaunchError:
        """Return the error as a LaunchError that shows whether the node or the job is at fault.

        If the node is at fault, the job may start on another node.
        """
        if isinstance(error, LaunchError) and (error.again or error.check):
            return error
        loop = asyncio.get_running_loop()
        ours = await loop.run_in_executor(self._pool, self._spool.own.refusal, error)
        if ours is not None:
            return ours
        return error if isinstance(error, LaunchError) else LaunchError(_sentence(error))

    async def _begin(self, launch: Launch, job: Job, *, who: Account) -> None:
        """Order the launch's first process from the supervisor.

        Raises LaunchError. If the supervisor is lost before the child has written its pid, nothing was
        started, and the order is repeated.
        """
        order = await self._order_in_time(launch, job, who=who)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                await self._supervision.start(order)
                return
            except SupervisorLost as error:
                if job.folder.pid() or attempt == MAX_ATTEMPTS:
                    job_processes.sweep(job.mark, job.meta.hold.groups)
                    raise self._spool.own.refusal(error) or LaunchError(str(error), again=True) from error

    async def _prepare(
        self, launch: Launch, folder: LaunchFolder, *, room: LaunchResources, who: Account
    ) -> Job:
        """Prepare the code and the stored metadata of a launch. No process runs yet."""
        uid, gid = who
        work_dir = await self._work_dir(launch, who, room.hold)
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
            gpu_names=room.gpu_names,
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

    async def _work_dir(self, launch: Launch, who: Account, hold: ContainmentHandle) -> str:
        if launch.tree is not None:
            return await self._checkouts.folder(launch, who, hold)
        if launch.cwd_visible and await self._folders.is_there(launch.cwd, uid=who.uid):
            return launch.cwd
        return self._checkouts.empty(launch, who)

    async def _login_environment(self, launch: Launch, job: Job, *, who: Account) -> Dict[str, str]:
        """Return the variables of the user's login shell if the launch asks for them.

        The result is empty if the shell's start files fail. Raises LaunchError.
        """
        if not launch.login:
            return {}
        home = launch.env.get("HOME") or account_environment(who.uid).get("HOME", "/")
        drop = as_user(launch.user, uid=who.uid, gid=who.gid)
        mark = job.mark.variables()
        child = login_shell(who.uid, home=home, mark=mark, hold=job.meta.hold, drop=drop)
        try:
            return variables_of(await self._children.prepare(child, key=job.key, uid=who.uid))
        except ChildFailed:
            return {}

    async def _end_start_files(self, job: Job) -> None:
        """End processes left by a login shell, so that the launch's cgroups can be removed."""
        deadline = time.monotonic() + DIE_S
        while await asyncio.get_running_loop().run_in_executor(self._pool, kill_left, job):
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(LOOK_S)

    async def _order_in_time(self, launch: Launch, job: Job, *, who: Account) -> LaunchOrder:
        """Return the order for the supervisor.

        Parts that may block run outside of the event loop: the login shell, and the search for programs for
        terminals and containers.
        """
        login = await self._login_environment(launch, job, who=who)
        program = await self._program(launch, who) if launch.pty else []
        if not launch.pty and launch.container is None:
            return self._order(launch, job, who=who, login=login, program=program)
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: self._order(launch, job, who=who, login=login, program=program)
        )

    def _order(
        self, launch: Launch, job: Job, *, who: Account, login: Dict[str, str], program: List[str]
    ) -> LaunchOrder:
        """Return the order for the supervisor. May block for containers and terminals."""
        uid, gid = who
        out, err = self._outputs(launch, job, gid)
        env = {
            **self._environment(launch, job, login),
            "SLURM_PROCID": str(launch.first_rank),
            "SLURM_LOCALID": "0",
        }
        if "LOCAL_WORLD_SIZE" in env:  # This is a task of a command, not a batch script.
            env.update({"RANK": str(launch.first_rank), "LOCAL_RANK": "0"})
        argv = self._command(launch, job, env=env, program=program)
        if "\0" in "".join((*argv, *env, *env.values())):
            raise ValueError("a zero byte in it")
        if launch.container is None:
            argv = carrying(argv, env)
        return LaunchOrder(
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
        """Return the files for standard output and error.

        The agent creates the files that are kept only on this node, because their folder does not belong to
        the user.
        """
        if launch.pty:  # The terminal's host prints nothing; it stores the terminal's output itself.
            for name in ("out", "active"):
                job.folder.give(name, uid=job.meta.uid, gid=gid)
            return os.devnull, ""
        if job.meta.stdout:
            return job.meta.stdout, job.meta.stderr
        out = job.folder.give("out", uid=job.meta.uid, gid=gid)
        if launch.role == "tasks" or launch.stderr:
            return out, job.folder.give("err", uid=job.meta.uid, gid=gid)
        return out, job.meta.stderr

    def _command(self, launch: Launch, job: Job, *, env: Dict[str, str], program: List[str]) -> List[str]:
        command = [job.meta.script, *launch.script_args] if job.meta.script else list(launch.argv)
        if launch.container is not None:
            command = contained(command, launch.container, self._setting(launch, job, env=env))
        if launch.pty:
            host = [*program, "ptyhost", job.folder.path, job.meta.work_dir]
            return [*host, str(launch.rows), str(launch.cols), *command]
        if launch.role == "tasks" and launch.tasks > 1:
            ranks = [str(launch.tasks), str(launch.first_rank)]
            return ["/bin/sh", self._spool.file(TASKS), *ranks, *command]
        return command

    async def _program(self, launch: Launch, who: Account) -> List[str]:
        """Return the command for running this program as the job's user.

        Raises LaunchError without a suitable Python.
        """
        drop = as_user(launch.user, uid=who.uid, gid=who.gid)
        found = await self._interpreters.command(who.uid, drop)
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

    def _environment(self, launch: Launch, job: Job, login: Dict[str, str]) -> Dict[str, str]:
        env = {**login, **launch.env}
        for name, value in account_environment(job.meta.uid).items():
            if not launch.cwd_visible or name not in env:
                env[name] = value
        env["PWD"] = job.meta.work_dir
        env = self._ports.with_master(env, job.key, tasks=launch.role == "tasks")
        env.update(job_variables(job, self._spool))
        env.update(_times(launch))
        if _is_submit_hosts(env.get("XDG_RUNTIME_DIR", "")):
            del env["XDG_RUNTIME_DIR"]
        return with_programs(with_gpu_names(env, job.meta.gpu_names), self._spool)


def _times(launch: Launch) -> Dict[str, str]:
    """Return the variables with the launch's start (now) and the end of its time limit, in unix seconds.

    The agent sets them, because the controller learns the start time only after the job needs them.
    """
    begun = int(time.time())
    made = {"SLURM_JOB_START_TIME": str(begun)}
    if launch.time_limit_s is not None:
        made["SLURM_JOB_END_TIME"] = str(begun + int(launch.time_limit_s))
    return made


def _is_seen(launch: Launch) -> bool:
    """Return whether the launch's output files are written on this node.

    Output that would lie in a private folder of the job is kept in the spool instead and copied to the submit
    host, because the folder is removed with the job.
    """
    files = [path for path in (launch.stdout, launch.stderr) if path]
    return launch.cwd_visible and not any(place_of(path, launch.private_dirs) for path in files)


def _is_submit_hosts(runtime_dir: str) -> bool:
    """Return whether this runtime folder of systemd does not exist on this node.

    Only the parent folder is read, which belongs to root.
    """
    above, name = os.path.split(runtime_dir)
    return above == RUNTIME_DIRS and (not os.path.isdir(above) or name not in os.listdir(above))


def job_variables(job: Job, spool: Spool) -> Dict[str, str]:
    """Return the variables that every process of a job has.

    These are its job tag, which also authenticates its processes, and its own TMPDIR.
    """
    return {
        **job.mark.variables(),
        "WARPDECK_ACCESS": spool.file("access.sock"),
        "SLURM_JOB_GID": str(group_of(job.meta)),
        "TMPDIR": job.meta.seen_tmp_dir,
    }


def with_programs(env: Dict[str, str], spool: Spool) -> Dict[str, str]:
    """Return the environment with our own srun first on its PATH."""
    own = spool.file(PROGRAMS)
    words = [word for word in env.get("PATH", "").split(":") if word and word != own]
    made = {**env, "PATH": ":".join([own, *(words or DEFAULT_PATH.split(":"))])}
    return made | login_path.variables(env, spool.path, uid=os.geteuid())


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return f"{os.strerror(error.errno or 0)}{where}"
    if isinstance(error, TreeError):
        return str(error)
    return f"the command or its environment cannot be passed on: {error}"
