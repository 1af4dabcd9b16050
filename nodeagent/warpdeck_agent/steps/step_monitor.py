"""Watches the tasks of running steps: their ends, their memory and their time limits."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import Executor
from typing import Any, Callable, Dict, List

from warpdeck_agent.isolation import launch_cgroups
from warpdeck_agent.launch.background_tasks import BackgroundTasks
from warpdeck_agent.launch.launch import LocalStep
from warpdeck_agent.launch.memory_limit import MemoryWatch, WatchedProcesses
from warpdeck_agent.launch.termination_message import oom_message
from warpdeck_agent.linux.child_peak import ChildPeak
from warpdeck_agent.linux.process_end_watch import ProcessEndWatch
from warpdeck_agent.tasks.task import OUTPUTS, Task
from warpdeck_agent.wire.steps import ERR, TaskEnded

from .step_ending import end_step
from .step_pmi import StepPmi


class StepMonitor:
    """Watches steps and reports their ends. `tell` gets the reports."""

    def __init__(
        self, tell: Callable[[Any], None], pmi: StepPmi, *, memory: MemoryWatch, pool: Executor
    ) -> None:
        self._tell = tell
        self._pmi = pmi
        self._memory = memory
        self._pool = pool
        self._peak = ChildPeak()
        self._steps: Dict[int, LocalStep] = {}
        """The step of each watched task, by the task's id()."""
        self._watch: ProcessEndWatch[Task] = ProcessEndWatch(
            self._task_ended, pid=Task.supervisor_pid, lives=lambda task: task.folder.supervisor_lives()
        )
        self._background = BackgroundTasks()

    def watch_task(self, step: LocalStep, task: Task) -> None:
        """Watch a task that has begun."""
        self._steps[id(task)] = step
        self._watch.add(task)

    def adopt_task(self, step: LocalStep, task: Task) -> None:
        """Watch a task that an earlier agent started, or read its end."""
        step.tasks[task.rank] = task
        if task.folder.supervisor_lives():
            task.adopted = True
            self.watch_task(step, task)
            return
        task.read_end()
        if step.containment.own_groups and step.containment.ran_out_of_memory(task):
            self._note_oom(step, task)

    def limit_time(self, step: LocalStep, limit_s: float) -> None:
        """End the step after `limit_s` seconds."""
        step.progress.timer = asyncio.get_running_loop().call_later(limit_s, self._time_is_over, step)

    def watch_memory(self, step: LocalStep) -> None:
        """Watch the memory of a step if it has its own memory limit and the kernel does not enforce it."""
        limit_bytes = step.containment.handle.watch_mem_bytes
        if limit_bytes in (0, step.launch.meta.hold.watch_mem_bytes):
            return
        self._memory.add(
            WatchedProcesses(
                tag=step.launch.processes.tag,
                step=str(step.number),
                limit_bytes=limit_bytes,
                runs=lambda: not step.is_done,
                used=step.note_memory,
                over=lambda mem_bytes: self._out_of_memory(step),
            )
        )

    def settle(self, step: LocalStep, ends: List[TaskEnded]) -> None:
        """Report the ended tasks, and the end of the step when none of its tasks runs."""
        if step.progress.started.is_set() and all(task.ended is not None for task in step.tasks.values()):
            if step.progress.timer is not None:
                step.progress.timer.cancel()
            step.take_usage()
            if own := step.containment.own_groups:
                self._pool.submit(launch_cgroups.remove, own)
            step.progress.done.set()
            self._pmi.close(step)
        for listener in step.progress.listeners:
            listener.set()
        if ends or step.is_done:
            self._tell(step.report(ends if not step.is_done else None))

    def _task_ended(self, task: Task) -> None:
        step = self._steps.pop(id(task))
        step.note_process(task, self._peak.known(task.reap()))
        task.read_end()
        assert task.ended is not None
        if step.containment.ran_out_of_memory(task):
            self._note_oom(step, task)
        if step.exchange is not None:
            step.exchange.rank_ended(task.rank, *task.ended)
        self.settle(step, [task.end()])

    def _out_of_memory(self, step: LocalStep) -> None:
        step.containment.exceeded_limit = True
        self._background.start(end_step(step, grace_s=0.0, pool=self._pool))

    def _note_oom(self, step: LocalStep, task: Task) -> None:
        """Record that a task ran out of memory.

        The first task of the step on this node that runs out of memory gets slurmstepd's message on its standard
        error.
        """
        if not any(each.oom for each in step.tasks.values()):
            step_id = f"{step.launch.meta.job_id}.{step.number}"
            with contextlib.suppress(OSError):
                task.folder.append(OUTPUTS[ERR], f"slurmstepd: error: {oom_message(step_id)}")
        task.oom = True

    def _time_is_over(self, step: LocalStep) -> None:
        step.failure.message = "the step reached its time limit"
        self._background.start(end_step(step, grace_s=step.launch.meta.grace_s, pool=self._pool))
