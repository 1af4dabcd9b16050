"""Starts steps: prepares the files, CPUs and cgroups of their tasks, and starts all tasks."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
from concurrent.futures import Executor
from functools import partial
from typing import Any, Callable, Dict, List

from warpdeck_agent.code.work_folders import FolderChecks
from warpdeck_agent.launch.launch import LocalLaunch, LocalStep
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.storage.own_folder import OwnFolder
from warpdeck_agent.tasks.affinity import BOUND, allowed_cpus, bind, describe_binding
from warpdeck_agent.tasks.task import make_folder
from warpdeck_agent.users.accounts import group_of
from warpdeck_agent.wire.steps import StepLaunch

from .step_cgroups import held_to
from .step_ending import end_step
from .step_monitor import StepMonitor
from .task_start import TaskStarter

SHORT_S = 0.02
"""A step that ends within this many seconds is reported only once, at its end. A report of its start would
cost the controller a transaction, for which the report of the end would wait.
"""


class StepStarter:
    """Starts steps. `own` explains failures for which the node is the reason."""

    def __init__(
        self,
        tasks: TaskStarter,
        monitor: StepMonitor,
        tell: Callable[[Any], None],
        *,
        own: OwnFolder,
        pool: Executor,
    ) -> None:
        self._tasks = tasks
        self._monitor = monitor
        self._tell = tell
        self._own = own
        self._pool = pool
        self._folders = FolderChecks()

    async def start(self, step: LocalStep, request: StepLaunch) -> None:
        """Start the step and report it. If that fails, the report says why."""
        try:
            await self._start_tasks(step, request)
        except (OSError, ValueError, LaunchError) as error:
            await self._give_up(step, error)
            return
        self._monitor.watch_memory(step)
        step.progress.started.set()
        if request.time_limit_s:
            self._monitor.limit_time(step, request.time_limit_s)
        asyncio.get_running_loop().call_later(SHORT_S, self._tell_begin, step)
        self._monitor.settle(step, [])

    def _tell_begin(self, step: LocalStep) -> None:
        """Report the start of a step that still runs. The report of an end includes the start."""
        if not step.is_done:
            self._tell(step.report([]))

    async def _start_tasks(self, step: LocalStep, request: StepLaunch) -> None:
        """Start the tasks of a step.

        Tasks that were started are watched even if others fail. Raises OSError, ValueError or LaunchError.
        """
        env = self._tasks.environment(step, request)
        allowed = list(step.cpus) or cpus_of(step.launch)
        bound = bind(
            request.cpu_bind,
            len(request.tasks),
            cpus_per_task=int(request.env.get("SLURM_CPUS_PER_TASK", "1") or 1),
            allowed=allowed,
        )
        cpus = [own or list(step.cpus) for own in bound]
        if request.bind_verbose:
            request = _with_cpu_report(request, [own or allowed for own in cpus])
        if request.container is not None:
            request = dataclasses.replace(request, cwd=await self._folder(step.launch, request.cwd))
        in_thread = partial(asyncio.get_running_loop().run_in_executor, self._pool)
        try:
            program = await self._tasks.program(step, request)
            if step.exchange is None:
                await in_thread(self._start_all, step, request, env, cpus, program)
                return
            await in_thread(self._prepare, step, request)
            for at, task_request in enumerate(request.tasks):
                await self._tasks.start(step, request, task_request, env=env, cpus=cpus[at], program=program)
        finally:
            for task in step.tasks.values():
                if task.process is not None:
                    self._monitor.watch_task(step, task)

    async def _folder(self, launch: LocalLaunch, task_request: str) -> str:
        """Return the working folder of tasks in a container.

        Raises LaunchError if the folder's file server does not answer.
        """
        meta = launch.meta
        outside = task_request if meta.private is None else meta.private.outside(task_request)
        return task_request if await self._folders.is_there(outside, uid=meta.uid) else meta.work_dir

    def _start_all(
        self,
        step: LocalStep,
        request: StepLaunch,
        env: Dict[str, str],
        cpus: List[List[int]],
        program: List[str],
    ) -> None:
        """Start all tasks of a step without PMI in one go, in a thread.

        Returning to the event loop after each task would cost as much as writing a file.
        """
        self._prepare(step, request)
        for at, task_request in enumerate(request.tasks):
            given = {**env, **task_request.env}
            self._tasks.run(step, request, task_request, env=given, cpus=cpus[at], program=program)

    def _prepare(self, step: LocalStep, request: StepLaunch) -> None:
        """Create the files of all tasks, and a cgroup for the step if it has its own memory limit.

        Runs in a thread.
        """
        meta = step.launch.meta
        if request.mem_bytes:
            step.containment.replace(held_to(meta.hold, step.number, request.mem_bytes))
        mode = 0o711 if os.geteuid() == 0 else 0o700
        steps = os.path.dirname(step.folder.path)
        for path in (step.launch.folder.path, steps, step.folder.path):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, mode)
        for path in (steps, step.folder.path):
            os.chmod(path, mode)
        plan = {
            "ranks": [task.rank for task in request.tasks],
            "gpus": step.gpus,
            "begin_unix": step.begin_unix,
            "cpus": step.cpus,
            "pmi": request.pmi and dataclasses.asdict(request.pmi),
            "hold": step.containment.handle.__dict__,
        }
        step.folder.write("meta.json", json.dumps(plan), durable=False)
        for task_request in request.tasks:
            path = step.folder.file(str(task_request.rank))
            step.tasks[task_request.rank] = make_folder(
                path, task_request, request=request, uid=meta.uid, gid=group_of(meta)
            )

    async def _give_up(self, step: LocalStep, error: BaseException) -> None:
        """End the running tasks of a step that could not be started completely."""
        loop = asyncio.get_running_loop()
        node_error = await loop.run_in_executor(self._pool, self._own.refusal, error)
        text = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        step.failure.message = f"cannot start the step's tasks on this node: {node_error or text}"
        step.failure.check = "" if node_error is None else node_error.check
        step.progress.started.set()
        await end_step(step, grace_s=0.0, pool=self._pool)
        for task in step.tasks.values():
            if task.process is None and task.ended is None:
                task.ended = (1, 0)
                task.close_input()
        self._monitor.settle(step, [])


def cpus_of(launch: LocalLaunch) -> List[int]:
    """Return the CPUs on which the launch may run."""
    return list(launch.meta.hold.cpus) or allowed_cpus()


def _with_cpu_report(request: StepLaunch, cpus: List[List[int]]) -> StepLaunch:
    """Return the step with tasks that first print their CPUs (variable BOUND)."""
    node = request.env.get("SLURMD_NODENAME", "")
    tasks = []
    for local, task in enumerate(request.tasks):
        line = describe_binding(request.cpu_bind, cpus[local], node=node, rank=task.rank, local=local)
        tasks.append(dataclasses.replace(task, env={**task.env, BOUND: line}))
    return dataclasses.replace(request, tasks=tasks)
