"""From a step's launch to the process of one of its tasks: environment, container, its line to other ranks, hooks."""

from __future__ import annotations

import asyncio
import contextlib
import os
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional, Sequence, Tuple

from warpdeck_agent.containers.container_environment import Setting
from warpdeck_agent.containers.containers import contained
from warpdeck_agent.gpu.gpu_names import with_gpu_names
from warpdeck_agent.isolation.hold import hold_name
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.start.launch_start import job_variables, with_programs
from warpdeck_agent.storage.spool import Spool
from warpdeck_agent.supervisor.descriptor_store import Lines
from warpdeck_agent.tasks.ports import Ports
from warpdeck_agent.tasks.task import SCRIPT_NAME, STEP_VARIABLE, install_script, run_task
from warpdeck_agent.users.accounts import account_environment, as_user, group_of
from warpdeck_agent.users.interpreters import Interpreters
from warpdeck_agent.users.user_children import UserChildren
from warpdeck_agent.wire.steps import StepLaunch, StepTask

if TYPE_CHECKING:
    from warpdeck_agent.launch.launch import Step


class TaskStarter:
    """Starts tasks whose files are there."""

    def __init__(self, spool: Spool, *, ports: Ports, pool: Executor, children: UserChildren) -> None:
        self._spool = spool
        self._ports = ports
        self._pool = pool
        self._interpreters = Interpreters(children)
        self.lines = Lines(spool.path)
        install_script(spool.file(SCRIPT_NAME))

    def environment(self, step: Step, launch: StepLaunch) -> Dict[str, str]:
        """The variables of all its tasks. The user's own folder and shell are this node's where the caller does not say them."""
        env = {**account_environment(step.job.meta.uid), **launch.env}
        env = self._ports.with_master(env, step.job.key, tasks=True)
        env.update(job_variables(step.job, self._spool))
        env[STEP_VARIABLE] = str(step.number)
        return with_programs(env, self._spool)

    async def start(
        self,
        step: Step,
        launch: StepLaunch,
        asked: StepTask,
        *,
        env: Dict[str, str],
        cpus: List[int],
        program: Sequence[str],
    ) -> None:
        """Returns when the task runs. Raises OSError, ValueError, LaunchError."""
        loop = asyncio.get_running_loop()
        with _line(step, asked.rank) as (keep, ours, told):
            given = {**env, **asked.env, **told}
            if ours >= 0:
                await loop.run_in_executor(self._pool, self.lines.keep, line_name(step, asked.rank), ours)
            run = partial(self.run, step, launch, asked, env=given, cpus=cpus, keep=keep, program=program)
            await loop.run_in_executor(self._pool, run)

    def run(
        self,
        step: Step,
        launch: StepLaunch,
        asked: StepTask,
        *,
        env: Dict[str, str],
        cpus: List[int],
        program: Sequence[str],
        keep: Sequence[int] = (),
    ) -> None:
        """One that is given these descriptors; `program` is what a task on a terminal begins with.

        In a thread. Raises OSError, ValueError, LaunchError."""
        meta = step.job.meta
        env = with_gpu_names(env, meta.gpu_names)
        argv = asked.argv or launch.argv
        user = as_user(meta.user, uid=meta.uid, gid=group_of(meta))
        if launch.container is not None:
            argv = contained(argv, launch.container, _setting(step, launch, env, pty=asked.terminal))
        if asked.terminal:
            argv = [*program, "ptytask", *argv]
        task = step.tasks[asked.rank]
        run_task(
            task,
            argv,
            script=self._spool.file(SCRIPT_NAME),
            env=env,
            cwd=launch.cwd,
            other=meta.work_dir,
            hold=step.hold,
            private=meta.private,
            cpus=cpus,
            user=user,
            keep=keep,
            hooks=(launch.prologs, launch.epilogs),
            limits=launch.limits,
        )
        step.job.may_have_ungrouped |= not task.grouped

    async def program(self, step: Step, launch: StepLaunch) -> List[str]:
        """This program, as the job's user may run it, if a task has a terminal. Raises LaunchError."""
        if not any(asked.terminal for asked in launch.tasks):
            return []
        meta = step.job.meta
        drop = as_user(meta.user, uid=meta.uid, gid=group_of(meta))
        found = await self._interpreters.command(meta.uid, drop)
        if not found:
            raise LaunchError(f"{meta.user} may run no Python 3.9 or newer on this node, which --pty needs")
        return found


def line_name(step: Step, rank: Optional[int] = None) -> str:
    """What our end of a rank's line is called in the supervisor; without a rank, what all of the step's begin with."""
    return f"{hold_name(*step.job.key)}/{step.number}/" + ("" if rank is None else str(rank))


def _setting(step: Step, launch: StepLaunch, env: Dict[str, str], *, pty: bool) -> Setting:
    """Where a task's container is to run. The tasks of a node share one where the runtime's are not made in a moment."""
    meta = step.job.meta
    return Setting(
        launch=f"{hold_name(*step.job.key)}-{step.number}",
        work_dir=launch.cwd,
        home=env.get("HOME", ""),
        paths=list(dict.fromkeys([launch.cwd, meta.work_dir, meta.seen_tmp_dir])),
        env=list(env),
        gpus=bool(step.gpus),
        pty=pty,
        as_root=meta.uid == 0,
        tasks=len(launch.tasks),
    )


@contextlib.contextmanager
def _line(step: Step, rank: int) -> Iterator[Tuple[Sequence[int], int, Dict[str, str]]]:
    """What a rank is given to speak PMI with, until it has been started: its descriptor, our end, and what it is told."""
    if step.exchange is None:
        yield (), -1, {}
        return
    descriptor, ours = step.exchange.open(rank)
    try:
        yield (descriptor,), ours, step.exchange.variables(rank, descriptor)
    finally:
        os.close(descriptor)
