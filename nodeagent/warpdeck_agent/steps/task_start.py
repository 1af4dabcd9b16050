"""Starts the tasks of a step.

It prepares their environment, container, PMI connection and hooks, and runs them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional, Sequence, Tuple

from warpdeck_agent.containers.container_environment import ContainerContext
from warpdeck_agent.containers.containers import container_command
from warpdeck_agent.gpu.gpu_names import with_gpu_names
from warpdeck_agent.isolation.containment_handle import containment_name
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.start.launch_start import job_variables, with_programs
from warpdeck_agent.storage.spool import Spool
from warpdeck_agent.supervisor.descriptor_store import DescriptorClient
from warpdeck_agent.tasks.ports import Ports
from warpdeck_agent.tasks.task import SCRIPT_NAME, STEP_VARIABLE, install_script, run_task
from warpdeck_agent.users.accounts import account_environment, as_user, group_of
from warpdeck_agent.users.interpreters import Interpreters
from warpdeck_agent.users.user_children import UserChildren
from warpdeck_agent.wire.steps import StepLaunch, StepTask

if TYPE_CHECKING:
    from warpdeck_agent.launch.launch import LocalStep


class TaskStarter:
    """Starts tasks. The files of the tasks must exist already."""

    def __init__(self, spool: Spool, *, ports: Ports, pool: Executor, children: UserChildren) -> None:
        self._spool = spool
        self._ports = ports
        self._pool = pool
        self._interpreters = Interpreters(children)
        self.descriptors = DescriptorClient(spool.path)
        install_script(spool.file(SCRIPT_NAME))

    def environment(self, step: LocalStep, request: StepLaunch) -> Dict[str, str]:
        """Return the variables of all tasks of the step.

        The user's home folder and shell are this node's, unless the caller sets them.
        """
        env = {**account_environment(step.launch.meta.uid), **request.env}
        env = self._ports.with_master(env, step.launch.key, tasks=True)
        env.update(job_variables(step.launch, self._spool))
        env[STEP_VARIABLE] = str(step.number)
        return with_programs(env, self._spool)

    async def start(
        self,
        step: LocalStep,
        request: StepLaunch,
        task_request: StepTask,
        *,
        env: Dict[str, str],
        cpus: List[int],
        program: Sequence[str],
    ) -> None:
        """Start a task and return when it runs. Raises OSError, ValueError or LaunchError."""
        loop = asyncio.get_running_loop()
        with _pmi_descriptor(step, task_request.rank) as (keep, ours, pmi_variables):
            given = {**env, **task_request.env, **pmi_variables}
            if ours >= 0:
                await loop.run_in_executor(
                    self._pool, self.descriptors.keep, descriptor_name(step, task_request.rank), ours
                )
            run = partial(
                self.run, step, request, task_request, env=given, cpus=cpus, keep=keep, program=program
            )
            await loop.run_in_executor(self._pool, run)

    def run(
        self,
        step: LocalStep,
        request: StepLaunch,
        task_request: StepTask,
        *,
        env: Dict[str, str],
        cpus: List[int],
        program: Sequence[str],
        keep: Sequence[int] = (),
    ) -> None:
        """Start a task in the calling thread, with the descriptors `keep`.

        Blocks. `program` is the command prefix of a task on a terminal. Raises OSError, ValueError or
        LaunchError.
        """
        meta = step.launch.meta
        env = with_gpu_names(env, meta.gpu_names)
        argv = task_request.argv or request.argv
        user = as_user(meta.user, uid=meta.uid, gid=group_of(meta))
        if request.container is not None:
            argv = container_command(
                argv, request.container, _container_context(step, request, env, pty=task_request.terminal)
            )
        if task_request.terminal:
            argv = [*program, "ptytask", *argv]
        task = step.tasks[task_request.rank]
        run_task(
            task,
            argv,
            script=self._spool.file(SCRIPT_NAME),
            env=env,
            cwd=request.cwd,
            other=meta.work_dir,
            containment=step.containment.handle,
            private=meta.private,
            cpus=cpus,
            user=user,
            keep=keep,
            hooks=(request.prologs, request.epilogs),
            limits=request.limits,
        )
        step.launch.processes.may_have_ungrouped |= not task.grouped

    async def program(self, step: LocalStep, request: StepLaunch) -> List[str]:
        """Return the command for running this program as the job's user, if a task has a terminal.

        Raises LaunchError.
        """
        if not any(task_request.terminal for task_request in request.tasks):
            return []
        meta = step.launch.meta
        drop = as_user(meta.user, uid=meta.uid, gid=group_of(meta))
        found = await self._interpreters.command(meta.uid, drop)
        if not found:
            raise LaunchError(
                f"--pty needs Python 3.9 or newer, but {meta.user} can run none on this node: install python3"
            )
        return found


def descriptor_name(step: LocalStep, rank: Optional[int] = None) -> str:
    """Return the name of our end of a rank's PMI connection in the supervisor.

    Without a rank, return the prefix of the step's names.
    """
    return f"{containment_name(*step.launch.key)}/{step.number}/" + ("" if rank is None else str(rank))


def _container_context(
    step: LocalStep, request: StepLaunch, env: Dict[str, str], *, pty: bool
) -> ContainerContext:
    """Return the context of a task's container.

    The tasks of a node share one container with runtimes that are slow to create them.
    """
    meta = step.launch.meta
    return ContainerContext(
        launch=f"{containment_name(*step.launch.key)}-{step.number}",
        work_dir=request.cwd,
        home=env.get("HOME", ""),
        paths=list(dict.fromkeys([request.cwd, meta.work_dir, meta.seen_tmp_dir])),
        env=list(env),
        gpus=bool(step.gpus),
        pty=pty,
        as_root=meta.uid == 0,
        tasks=len(request.tasks),
    )


@contextlib.contextmanager
def _pmi_descriptor(step: LocalStep, rank: int) -> Iterator[Tuple[Sequence[int], int, Dict[str, str]]]:
    """Yield a rank's descriptor for PMI, our end of it, and the rank's variables.

    The descriptor is closed when the rank has been started.
    """
    if step.exchange is None:
        yield (), -1, {}
        return
    descriptor, ours = step.exchange.open(rank)
    try:
        yield (descriptor,), ours, step.exchange.variables(rank, descriptor)
    finally:
        os.close(descriptor)
