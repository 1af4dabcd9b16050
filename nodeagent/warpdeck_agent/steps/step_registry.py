"""The steps on this node: tasks that were started inside launches, idempotent by (job id, restarts, step).

  D/jobs/<job>.<restarts>/steps/<step>/   meta.json, which belongs to the agent, and a folder
                                          for each task by its rank (see `tasks.task`)

A step's tasks carry the job tag of their job and are in its cgroup, so ending the job ends them as well.
Their own variable WARPDECK_STEP distinguishes them from other steps. A restarted agent finds them again in
the same way as jobs.
"""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import Executor
from typing import Any, Callable, Dict, List, Optional

from warpdeck_agent.isolation.containment_handle import handle_from
from warpdeck_agent.launch.background_tasks import BackgroundTasks
from warpdeck_agent.launch.launch import LocalLaunch, LocalStep, StepKey, step_folder
from warpdeck_agent.launch.memory_limit import MemoryWatch
from warpdeck_agent.start.node_resources import NodeResources
from warpdeck_agent.storage.spool import Folder, JobFolder, Spool
from warpdeck_agent.tasks.affinity import own_cpus
from warpdeck_agent.tasks.task import Task
from warpdeck_agent.users.user_children import UserChildren
from warpdeck_agent.wire.steps import ForgetStep, Pmi, StepFenced, StepKill, StepLaunch, StepReport

from .step_ending import end_step, signal_step
from .step_monitor import StepMonitor
from .step_pmi import StepPmi
from .step_start import StepStarter, cpus_of
from .task_start import TaskStarter

MAX_CURVES = 500
"""The most ended steps for which one Welcome carries curves. Each curve has several kilobytes, and the size of a
message is limited.
"""


class StepRegistry:
    """All steps for which the controller has not recorded an end. `find` returns the launch of a step."""

    def __init__(
        self,
        spool: Spool,
        find: Callable[[int, int], Optional[LocalLaunch]],
        tell: Callable[[Any], None],
        *,
        node: NodeResources,
        pool: Executor,
        memory: MemoryWatch,
        children: UserChildren,
    ) -> None:
        tasks = TaskStarter(spool, ports=node.ports, pool=pool, children=children)
        self._pmi = StepPmi(tell, tasks.descriptors, pool)
        self._monitor = StepMonitor(tell, self._pmi, memory=memory, pool=pool)
        self._starter = StepStarter(tasks, self._monitor, tell, own=spool.own, pool=pool)
        self._find = find
        self._tell = tell
        self._pool = pool
        self._expect_move = node.containment.lock.expect
        self._steps: Dict[StepKey, LocalStep] = {}
        self._background = BackgroundTasks()

    def reports(self) -> List[StepReport]:
        """Return the reports of all steps, for Welcome."""
        return [step.report(curve=number < MAX_CURVES) for number, step in enumerate(self._steps.values())]

    def get(self, job_id: int, restarts: int, number: int) -> Optional[LocalStep]:
        return self._steps.get((job_id, restarts, number))

    def start(self, request: StepLaunch) -> None:
        """Start a step, or report its state if it already exists."""
        key = (request.job_id, request.restarts, request.step)
        known = self._steps.get(key)
        if known is not None:
            self._tell(known.report())
            return
        launch = self._find(request.job_id, request.restarts)
        if launch is None or launch.phase != "running" or launch.end.cause:
            self._refuse(key, "the job no longer runs on this node")
            return
        self._expect_move()
        gpus = [uuid for uuid in request.env.get("CUDA_VISIBLE_DEVICES", "").split(",") if uuid]
        folder = Folder(step_folder(launch, request.step))
        step = LocalStep(launch, request.step, folder, gpus=gpus, begin_unix=time.time())
        taken = {cpu for other in launch.steps.values() if not other.is_done for cpu in other.cpus}
        step.cpus = own_cpus(request.cpus, allowed=cpus_of(launch), taken=taken)
        if request.pmi is not None:
            self._pmi.open(step, request.pmi, [task.rank for task in request.tasks])
        self._steps[key] = step
        launch.steps[request.step] = step
        launch.usage.had_steps = True
        self._background.start(self._starter.start(step, request))

    def _refuse(self, key: StepKey, message: str) -> None:
        self._tell(StepReport(job_id=key[0], restarts=key[1], step=key[2], phase="exited", message=message))

    def kill(self, request: StepKill) -> None:
        """End a step, or send a signal to it."""
        step = self.get(request.job_id, request.restarts, request.step)
        if step is None or step.is_done:
            return
        self._background.start(self._kill(step, request))

    async def _kill(self, step: LocalStep, request: StepKill) -> None:
        """Wait until the step's tasks have started, then kill or signal it.

        While a task is starting, its processes cannot be told apart from others.
        """
        await step.progress.started.wait()
        if request.signal:
            await signal_step(step, request.signal, rank=request.rank, pool=self._pool)
        else:
            await end_step(step, grace_s=request.grace_s, pool=self._pool)

    def fenced(self, message: StepFenced) -> None:
        """Handle the message that all ranks of a step have reached a fence."""
        step = self.get(message.job_id, message.restarts, message.step)
        if step is not None:
            self._pmi.fenced(step, message)

    def repeat_fences(self) -> None:
        """Repeat all fences to a controller that may not have received them."""
        for step in self._steps.values():
            self._pmi.repeat_fences(step)

    def forget(self, request: ForgetStep) -> None:
        """Drop a step when the controller has recorded its end and read its output."""
        key = (request.job_id, request.restarts, request.step)
        step = self._steps.get(key)
        if step is not None and step.is_done:
            self._drop(key, step)

    def _drop(self, key: StepKey, step: LocalStep) -> None:
        del self._steps[key]
        step.launch.steps.pop(step.number, None)
        self._pool.submit(JobFolder(step.folder.path).remove)

    def drop_of(self, launch: LocalLaunch) -> None:
        """Drop the steps of a forgotten job."""
        for number, step in list(launch.steps.items()):
            self._drop((launch.meta.job_id, launch.meta.restarts, number), step)

    def adopt(self, launch: LocalLaunch) -> None:
        """Adopt the steps that an earlier agent left inside a launch."""
        base = os.path.dirname(step_folder(launch, 0))
        launch.usage.had_steps = os.path.isdir(base)
        for name in sorted(os.listdir(base)) if launch.usage.had_steps else ():
            folder = Folder(os.path.join(base, name))
            stored = folder.read("meta.json")
            if not name.isdecimal() or not stored:
                JobFolder(folder.path).remove()
                continue
            plan = json.loads(stored)
            step = LocalStep(launch, int(name), folder, gpus=plan["gpus"], begin_unix=plan["begin_unix"])
            step.cpus = tuple(plan.get("cpus", ()))
            step.usage.meter.restore(folder)
            if "hold" in plan:
                step.containment.replace(handle_from(plan["hold"]))
                self._monitor.watch_memory(step)
            step.progress.started.set()
            self._steps[launch.meta.job_id, launch.meta.restarts, step.number] = step
            launch.steps[step.number] = step
            for rank in plan["ranks"]:
                self._monitor.adopt_task(step, _task(step, int(rank)))
            if plan.get("pmi"):
                self._pmi.rejoin(step, Pmi(**plan["pmi"]), [int(rank) for rank in plan["ranks"]])
            self._monitor.settle(step, [])


def _task(step: LocalStep, rank: int) -> Task:
    """Return a task that an earlier agent started."""
    return Task(JobFolder(step.folder.file(str(rank))), rank, reads=False)
