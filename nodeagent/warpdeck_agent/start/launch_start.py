"""Turns a Launch message into a running process.

It prepares the record, the resources, the code and the environment, and sends an order to the supervisor. A
root agent never runs a program with a user's environment, because the user controls PATH, LD_PRELOAD and
shell functions. The supervisor's child switches to the user before it uses any of the environment (see
`starter`).
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
from warpdeck_agent.code.work_folders import FolderChecks
from warpdeck_agent.containers.container_environment import ContainerContext
from warpdeck_agent.containers.containers import container_command
from warpdeck_agent.gpu.gpu_names import with_gpu_names
from warpdeck_agent.isolation import job_processes
from warpdeck_agent.isolation.containment_handle import ContainmentHandle, containment_name
from warpdeck_agent.launch import checkpoints
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.linux.env_passthrough import with_all_variables
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.linux.uptime import uptime_s
from warpdeck_agent.storage.scripts import Scripts
from warpdeck_agent.storage.spool import SCRIPTS, LaunchFolder, Meta, Spool
from warpdeck_agent.supervisor.starter import FALLBACK_FOLDER, NO_FOLDER, TASKS, LaunchOrder, runs_here
from warpdeck_agent.supervisor.supervisor_link import Supervision, SupervisorLost
from warpdeck_agent.tasks.ports import Ports
from warpdeck_agent.users import login_path
from warpdeck_agent.users.accounts import (
    UserIds,
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
from warpdeck_agent.wire.paths import folder_containing

from .launch_setup import LaunchResources, LaunchSetup
from .login_shell import kill_remaining, login_shell, variables_of

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
RUNTIME_DIRS = "/run/user"
TOKEN_BYTES = 24
CHECK_S = 0.02
"""Interval in seconds between checks whether killed processes are gone."""
MAX_ATTEMPTS = 3
"""How often a launch is ordered before giving up, if the supervisor is killed each time."""


class Launcher:
    """Starts launches. When `start` returns, all data that must outlive the agent is in the spool."""

    def __init__(
        self,
        spool: Spool,
        trees: TreeStore,
        setup: LaunchSetup,
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
        self._setup = setup
        self._ports = ports
        self._pool = pool
        self._interpreters = Interpreters(children)
        self._folders = FolderChecks()

    def stop(self, key: Key) -> bool:
        """Abort a launch that is being prepared by a process of its user; its `start` then fails.

        Returns False if the launch is not being prepared by a process.
        """
        return self._children.stop(key)

    async def start(self, request: Launch) -> LocalLaunch:
        """Start the launch and return it, running.

        Raises LaunchError; nothing of the launch is left then.
        """
        folder = self._spool.launch_folder(request.job_id, request.restarts)
        resources: Optional[LaunchResources] = None
        launch: Optional[LocalLaunch] = None
        try:
            user_ids = account(request)
            folder.create(uid=user_ids.uid, gid=user_ids.gid, terminal=request.pty)
            resources = await self._setup.make(request, uid=user_ids.uid, gid=user_ids.gid)
            launch = await self._prepare(request, folder, resources=resources, user_ids=user_ids)
            if request.role != "hold":
                await self._begin(request, launch, user_ids=user_ids)
        except (LaunchError, TreeError, OSError, ValueError) as error:
            if launch is not None and request.login:
                await self._end_start_files(launch)
            folder.remove()
            if resources is not None:
                await self._setup.undo(request, resources, uid=user_ids.uid)
            raise await self._refusal(error) from error
        return launch

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

    async def _begin(self, request: Launch, launch: LocalLaunch, *, user_ids: UserIds) -> None:
        """Order the launch's first process from the supervisor.

        Raises LaunchError. If the supervisor is lost before the child has written its pid, nothing was
        started, and the order is repeated.
        """
        order = await self._build_order(request, launch, user_ids=user_ids)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                await self._supervision.start(order)
                return
            except SupervisorLost as error:
                if launch.folder.pid() or attempt == MAX_ATTEMPTS:
                    job_processes.sweep(launch.processes.tag, launch.meta.hold.groups)
                    raise self._spool.own.refusal(error) or LaunchError(str(error), again=True) from error

    async def _prepare(
        self, request: Launch, folder: LaunchFolder, *, resources: LaunchResources, user_ids: UserIds
    ) -> LocalLaunch:
        """Prepare the code and the stored metadata of a launch. No process runs yet."""
        uid, gid = user_ids
        work_dir = await self._work_dir(request, user_ids, resources.containment)
        if request.requeues_at_limit:  # before the start, so that a later change of the file is a checkpoint
            folder.create_user_file(checkpoints.FILE, uid=uid, gid=gid)
        meta = Meta(
            job_id=request.job_id,
            restarts=request.restarts,
            role=request.role,
            user=request.user,
            uid=uid,
            started_at=time.time(),
            started_at_uptime_s=uptime_s(),
            time_limit_s=request.time_limit_s,
            grace_s=request.grace_s,
            stdout=request.stdout if _writes_output_here(request) else "",
            stderr=request.stderr if _writes_output_here(request) else "",
            work_dir=work_dir,
            pty=request.pty,
            gpus=tuple(request.gpus),
            gpu_names=resources.gpu_names,
            hold=resources.containment,
            tmp_dir=resources.tmp_dir,
            private=resources.private,
            unkillable_s=request.unkillable_s,
            hooks=request.hooks,
            warn_signal=request.warn_signal,
            warn_before_s=request.warn_before_s,
            warn_batch_only=request.warn_batch_only,
            requeues_at_limit=request.requeues_at_limit,
            limit_grace_s=request.limit_grace_s,
            idle_limit_s=request.idle_limit_s if request.pty else 0.0,
            idle_warning_s=request.idle_warning_s,
            gpu_share_pct=request.gpu_share_pct,
            share_grace_s=request.share_grace_s,
            mem_bytes=request.mem_bytes,
            node=request.env.get("SLURMD_NODENAME", ""),
            token=secrets.token_hex(TOKEN_BYTES),
            proof=request.proof,
            record=request.record,
            script=self.scripts.path(request.script, uid=uid, gid=gid) if request.script else "",
        )
        folder.write_meta(meta)
        return LocalLaunch(folder, meta, agent=self._spool.identity)

    async def _work_dir(self, request: Launch, user_ids: UserIds, containment: ContainmentHandle) -> str:
        if request.tree is not None:
            return await self._checkouts.folder(request, user_ids, containment)
        if not request.cwd_visible:
            return self._checkouts.empty(request, user_ids)
        is_there = await self._folders.is_there(request.cwd, uid=user_ids.uid)
        return request.cwd if is_there else FALLBACK_FOLDER

    async def _login_environment(
        self, request: Launch, launch: LocalLaunch, *, user_ids: UserIds
    ) -> Dict[str, str]:
        """Return the variables of the user's login shell if the launch asks for them.

        The result is empty if the shell's start files fail. Raises LaunchError.
        """
        if not request.login:
            return {}
        home = request.env.get("HOME") or account_environment(user_ids.uid).get("HOME", "/")
        drop = as_user(request.user, uid=user_ids.uid, gid=user_ids.gid)
        tag_variables = launch.processes.tag.variables()
        child = login_shell(
            user_ids.uid, home=home, tag_variables=tag_variables, containment=launch.meta.hold, drop=drop
        )
        try:
            return variables_of(await self._children.prepare(child, key=launch.key, uid=user_ids.uid))
        except ChildFailed:
            return {}

    async def _end_start_files(self, launch: LocalLaunch) -> None:
        """End processes left by a login shell, so that the launch's cgroups can be removed."""
        deadline = time.monotonic() + DIE_S
        while await asyncio.get_running_loop().run_in_executor(self._pool, kill_remaining, launch):
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(CHECK_S)

    async def _build_order(self, request: Launch, launch: LocalLaunch, *, user_ids: UserIds) -> LaunchOrder:
        """Return the order for the supervisor.

        Parts that may block run outside of the event loop: the login shell, and the search for programs for
        terminals and containers.
        """
        login = await self._login_environment(request, launch, user_ids=user_ids)
        program = await self._program(request, user_ids) if request.pty else []
        if not request.pty and request.container is None:
            return self._order(request, launch, user_ids=user_ids, login=login, program=program)
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: self._order(request, launch, user_ids=user_ids, login=login, program=program)
        )

    def _order(
        self,
        request: Launch,
        launch: LocalLaunch,
        *,
        user_ids: UserIds,
        login: Dict[str, str],
        program: List[str],
    ) -> LaunchOrder:
        """Return the order for the supervisor. May block for containers and terminals."""
        uid, gid = user_ids
        out, err = self._outputs(request, launch, gid)
        env = {
            **self._environment(request, launch, login),
            "SLURM_PROCID": str(request.first_rank),
            "SLURM_LOCALID": "0",
        }
        if "LOCAL_WORLD_SIZE" in env:  # This is a task of a command, not a batch script.
            env.update({"RANK": str(request.first_rank), "LOCAL_RANK": "0"})
        argv = self._command(request, launch, env=env, program=program)
        if "\0" in "".join((*argv, *env, *env.values())):
            raise ValueError("it contains a zero byte")
        if request.container is None:
            argv = with_all_variables(argv, env)
        return LaunchOrder(
            job_id=request.job_id,
            restarts=request.restarts,
            record=launch.folder.number,
            argv=argv,
            env=env,
            cwd=launch.meta.work_dir,
            out=out,
            err=err,
            append=request.append,
            stdin=request.stdin or os.devnull,
            here=argv[0] == launch.meta.script and runs_here(request.script),
            limits=request.limits,
            hold=vars(launch.meta.hold),
            private=vars(launch.meta.private) if launch.meta.private is not None else None,
            account=None if uid == os.geteuid() else (uid, gid, groups_of(request.user, gid=gid)),
        )

    def _outputs(self, request: Launch, launch: LocalLaunch, gid: int) -> Tuple[str, str]:
        """Return the files for standard output and error.

        The agent creates the files that are kept only on this node, because their folder does not belong to
        the user.
        """
        if request.pty:  # The terminal's host prints nothing; it stores the terminal's output itself.
            for name in ("out", "active"):
                launch.folder.create_user_file(name, uid=launch.meta.uid, gid=gid)
            return os.devnull, ""
        if launch.meta.stdout:
            return launch.meta.stdout, launch.meta.stderr
        out = launch.folder.create_user_file("out", uid=launch.meta.uid, gid=gid)
        if request.role == "tasks" or request.stderr:
            return out, launch.folder.create_user_file("err", uid=launch.meta.uid, gid=gid)
        return out, launch.meta.stderr

    def _command(
        self, request: Launch, launch: LocalLaunch, *, env: Dict[str, str], program: List[str]
    ) -> List[str]:
        command = [launch.meta.script, *request.script_args] if launch.meta.script else list(request.argv)
        if request.container is not None:
            command = container_command(
                command, request.container, self._container_context(request, launch, env=env)
            )
        if request.pty:
            host = [*program, "ptyhost", launch.folder.path, launch.meta.work_dir]
            return [*host, str(request.rows), str(request.cols), *command]
        if request.role == "tasks" and request.tasks > 1:
            ranks = [str(request.tasks), str(request.first_rank)]
            return ["/bin/sh", self._spool.file(TASKS), *ranks, *command]
        return command

    async def _program(self, request: Launch, user_ids: UserIds) -> List[str]:
        """Return the command for running this program as the job's user.

        Raises LaunchError without a suitable Python.
        """
        drop = as_user(request.user, uid=user_ids.uid, gid=user_ids.gid)
        found = await self._interpreters.command(user_ids.uid, drop)
        if not found:
            raise LaunchError(
                f"terminals need Python 3.9 or newer, but {request.user} can run none on this node: install python3"
            )
        return found

    def _container_context(
        self, request: Launch, launch: LocalLaunch, *, env: Dict[str, str]
    ) -> ContainerContext:
        meta = launch.meta
        script = [meta.script] if meta.script else []
        announced = [launch.folder.file(checkpoints.FILE)] if meta.requeues_at_limit else []
        return ContainerContext(
            launch=containment_name(*launch.key),
            work_dir=meta.work_dir,
            home=env.get("HOME", ""),
            paths=[meta.work_dir, meta.seen_tmp_dir, *script, *announced],
            env=list(env),
            gpus=bool(request.gpus),
            pty=request.pty,
            as_root=meta.uid == 0,
            tasks=request.tasks if request.role == "tasks" else 1,
        )

    def _environment(self, request: Launch, launch: LocalLaunch, login: Dict[str, str]) -> Dict[str, str]:
        env = {**login, **request.env}
        for name, value in account_environment(launch.meta.uid).items():
            if not request.cwd_visible or name not in env:
                env[name] = value
        env["PWD"] = launch.meta.work_dir
        env = self._ports.with_master(env, launch.key, tasks=request.role == "tasks")
        env.update(job_variables(launch, self._spool))
        env.update(_times(request))
        env.pop(NO_FOLDER, None)
        if request.tree is None and request.cwd_visible and launch.meta.work_dir != request.cwd:
            env[NO_FOLDER] = request.cwd
        if _is_missing_here(env.get("XDG_RUNTIME_DIR", "")):
            del env["XDG_RUNTIME_DIR"]
        return with_programs(with_gpu_names(env, launch.meta.gpu_names), self._spool)


def _times(request: Launch) -> Dict[str, str]:
    """Return the variables with the launch's start (now) and the end of its time limit, in unix seconds.

    The agent sets them, because the controller learns the start time only after the job needs them.
    """
    begun = int(time.time())
    variables = {"SLURM_JOB_START_TIME": str(begun)}
    if request.time_limit_s is not None:
        variables["SLURM_JOB_END_TIME"] = str(begun + int(request.time_limit_s))
    return variables


def _writes_output_here(request: Launch) -> bool:
    """Return whether the launch's output files are written on this node.

    Output that would lie in a private folder of the job is kept in the spool instead and copied to the submit
    host, because the folder is removed with the job.
    """
    files = [path for path in (request.stdout, request.stderr) if path]
    return request.cwd_visible and not any(folder_containing(path, request.private_dirs) for path in files)


def _is_missing_here(runtime_dir: str) -> bool:
    """Return whether this runtime folder of systemd does not exist on this node.

    Only the parent folder is read, which belongs to root.
    """
    above, name = os.path.split(runtime_dir)
    return above == RUNTIME_DIRS and (not os.path.isdir(above) or name not in os.listdir(above))


def job_variables(launch: LocalLaunch, spool: Spool) -> Dict[str, str]:
    """Return the variables that every process of a job has.

    These are its job tag, which also authenticates its processes, its own TMPDIR, and the file with which it
    announces checkpoints.
    """
    announces = launch.meta.requeues_at_limit
    return {
        **({checkpoints.VARIABLE: launch.folder.file(checkpoints.FILE)} if announces else {}),
        **launch.processes.tag.variables(),
        "WARPDECK_ACCESS": spool.file("access.sock"),
        "SLURM_JOB_GID": str(group_of(launch.meta)),
        "TMPDIR": launch.meta.seen_tmp_dir,
    }


def with_programs(env: Dict[str, str], spool: Spool) -> Dict[str, str]:
    """Return the environment with our own srun first on its PATH."""
    own = spool.file(PROGRAMS)
    folders = [folder for folder in env.get("PATH", "").split(":") if folder and folder != own]
    updated = {**env, "PATH": ":".join([own, *(folders or DEFAULT_PATH.split(":"))])}
    return updated | login_path.variables(env, spool.path, uid=os.geteuid())


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return f"{os.strerror(error.errno or 0)}{where}"
    if isinstance(error, TreeError):
        return str(error)
    return f"the command or its environment cannot be passed on: {error}"
