"""The steps on this node: tasks that were started inside launches, idempotent by (job id, restarts, step).

  D/jobs/<job>.<restarts>/steps/<step>/   meta.json, which belongs to the agent, and a folder
                                          for each task by its rank (see tasks.py)

A step's tasks carry the job tag of their job and are in its cgroup, so ending the job ends them as well.
Their own variable WARPDECK_STEP distinguishes them from other steps. A restarted agent finds them again in
the same way as jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import time
from concurrent.futures import Executor
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

from warpdeck_agent.code.work_folders import Folders
from warpdeck_agent.isolation import launch_cgroups
from warpdeck_agent.isolation.hold import hold_from
from warpdeck_agent.launch.launch import Job, Step, StepKey, step_folder
from warpdeck_agent.launch.memory_limit import MemoryWatch, Watched
from warpdeck_agent.launch.termination_message import oom_words
from warpdeck_agent.linux.child_peak import ChildPeak
from warpdeck_agent.linux.process_end_watch import Watch
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.storage.spool import Folder, JobFolder, Spool
from warpdeck_agent.tasks.affinity import BOUND, allowed_cpus, bind, in_words, own_cpus
from warpdeck_agent.tasks.pmi_exchange import Exchange
from warpdeck_agent.tasks.ports import Ports
from warpdeck_agent.tasks.task import OUTPUTS, Task, make_folder
from warpdeck_agent.users.accounts import group_of
from warpdeck_agent.users.user_children import UserChildren
from warpdeck_agent.wire.steps import (
    ERR,
    FENCE_PIECE_BYTES,
    ForgetStep,
    Pmi,
    StepFence,
    StepFenced,
    StepKill,
    StepLaunch,
    StepReport,
    TaskEnded,
    pieces,
)

from .step_cgroups import held_to
from .step_ending import end_step, signal_step
from .task_start import TaskStarter, line_name

SHORT_S = 0.02
"""A step that ends within this many seconds is reported only once, at its end. A report of its start would
cost the controller a transaction, for which the report of the end would wait.
"""
MAX_CURVES = 500
"""The most ended steps whose curves one Welcome carries. Each curve has several kilobytes, and the size of a
message is limited.
"""
NOTES = "pmi"
"""The file with the PMI messages of a step's ranks, one per line."""


class StepRegistry:
    """All steps whose end the controller has not recorded."""

    def __init__(
        self,
        spool: Spool,
        find: Callable[[int, int], Optional[Job]],
        tell: Callable[[Any], None],
        *,
        pool: Executor,
        ports: Ports,
        memory: MemoryWatch,
        expect_move: Callable[[], object],
        children: UserChildren,
    ) -> None:
        self._starter = TaskStarter(spool, ports=ports, pool=pool, children=children)
        self._folders = Folders()
        self._own = spool.own
        self._find = find
        self._tell = tell
        self._pool = pool
        self._memory = memory
        self._peak = ChildPeak()
        self._expect_move = expect_move
        self._steps: Dict[StepKey, Step] = {}
        self._owners: Dict[int, Step] = {}
        self._tasks: Set[asyncio.Task[None]] = set()
        self._watch: Watch[Task] = Watch(
            self._task_ended, pid=Task.supervisor_pid, lives=lambda task: task.folder.supervisor_lives()
        )

    def reports(self) -> List[StepReport]:
        """Return the reports of all steps, for Welcome."""
        return [step.report(curve=place < MAX_CURVES) for place, step in enumerate(self._steps.values())]

    def get(self, job_id: int, restarts: int, number: int) -> Optional[Step]:
        return self._steps.get((job_id, restarts, number))

    def start(self, launch: StepLaunch) -> None:
        """Start a step, or report its state if it already exists."""
        key = (launch.job_id, launch.restarts, launch.step)
        known = self._steps.get(key)
        if known is not None:
            self._tell(known.report())
            return
        job = self._find(launch.job_id, launch.restarts)
        if job is None or job.phase != "running" or job.cause:
            self._refuse(key, "the job does not run on this node any more")
            return
        self._expect_move()
        gpus = [uuid for uuid in launch.env.get("CUDA_VISIBLE_DEVICES", "").split(",") if uuid]
        folder = Folder(step_folder(job, launch.step))
        step = Step(job, launch.step, folder, gpus=gpus, begin_unix=time.time())
        taken = {cpu for other in job.steps.values() if not other.done.is_set() for cpu in other.cpus}
        step.cpus = own_cpus(launch.cpus, allowed=_cpus_of(job), taken=taken)
        if launch.pmi is not None:
            step.exchange = self._exchange(step, launch.pmi, [task.rank for task in launch.tasks])
        self._steps[key] = step
        job.steps[launch.step] = step
        job.had_steps = True
        self._spawn(self._start(step, launch))

    def _refuse(self, key: StepKey, message: str) -> None:
        self._tell(StepReport(job_id=key[0], restarts=key[1], step=key[2], phase="exited", message=message))

    async def _start(self, step: Step, launch: StepLaunch) -> None:
        loop = asyncio.get_running_loop()
        try:
            await self._start_tasks(step, launch)
        except (OSError, ValueError, LaunchError) as error:
            await self._give_up(step, error)
            return
        self._watch_memory(step)
        step.started.set()
        if launch.time_limit_s:
            step.timer = loop.call_later(launch.time_limit_s, self._time_is_over, step)
        loop.call_later(SHORT_S, self._tell_begin, step)
        self._settle(step, [])

    def _tell_begin(self, step: Step) -> None:
        """Report the start of a step that still runs. The report of an end includes the start."""
        if not step.done.is_set():
            self._tell(step.report([]))

    async def _start_tasks(self, step: Step, launch: StepLaunch) -> None:
        """Start the tasks of a step.

        Tasks that were started are watched even if others fail. Raises OSError, ValueError or LaunchError.
        """
        env = self._starter.environment(step, launch)
        allowed = list(step.cpus) or _cpus_of(step.job)
        bound = bind(
            launch.cpu_bind,
            len(launch.tasks),
            cpus_per_task=int(launch.env.get("SLURM_CPUS_PER_TASK", "1") or 1),
            allowed=allowed,
        )
        cpus = [own or list(step.cpus) for own in bound]
        if launch.bind_verbose:
            launch = _telling(launch, [own or allowed for own in cpus])
        if launch.container is not None:
            launch = dataclasses.replace(launch, cwd=await self._folder(step.job, launch.cwd))
        in_thread = partial(asyncio.get_running_loop().run_in_executor, self._pool)
        try:
            program = await self._starter.program(step, launch)
            if step.exchange is None:
                await in_thread(self._start_all, step, launch, env, cpus, program)
                return
            await in_thread(self._prepare, step, launch)
            for at, asked in enumerate(launch.tasks):
                await self._starter.start(step, launch, asked, env=env, cpus=cpus[at], program=program)
        finally:
            for task in step.tasks.values():
                if task.process is not None:
                    self._owners[id(task)] = step
                    self._watch.add(task)

    async def _folder(self, job: Job, asked: str) -> str:
        """Return the working folder of tasks in a container.

        Raises LaunchError if the folder's file server does not answer.
        """
        meta = job.meta
        outside = asked if meta.private is None else meta.private.outside(asked)
        return asked if await self._folders.is_there(outside, uid=meta.uid) else meta.work_dir

    def _start_all(
        self,
        step: Step,
        launch: StepLaunch,
        env: Dict[str, str],
        cpus: List[List[int]],
        program: List[str],
    ) -> None:
        """Start all tasks of a step without PMI in one go, in a thread.

        Returning to the event loop after each task would cost as much as writing a file.
        """
        self._prepare(step, launch)
        for at, asked in enumerate(launch.tasks):
            given = {**env, **asked.env}
            self._starter.run(step, launch, asked, env=given, cpus=cpus[at], program=program)

    def _prepare(self, step: Step, launch: StepLaunch) -> None:
        """Create the files of all tasks, and a cgroup for the step if it has its own memory limit.

        Runs in a thread.
        """
        meta = step.job.meta
        if launch.mem_bytes:
            step.hold_in(held_to(meta.hold, step.number, launch.mem_bytes))
        mode = 0o711 if os.geteuid() == 0 else 0o700
        steps = os.path.dirname(step.folder.path)
        for path in (step.job.folder.path, steps, step.folder.path):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, mode)
        for path in (steps, step.folder.path):
            os.chmod(path, mode)
        meant = {
            "ranks": [task.rank for task in launch.tasks],
            "gpus": step.gpus,
            "begin_unix": step.begin_unix,
            "cpus": step.cpus,
            "pmi": launch.pmi and dataclasses.asdict(launch.pmi),
            "hold": step.hold.__dict__,
        }
        step.folder.write("meta.json", json.dumps(meant), durable=False)
        for asked in launch.tasks:
            path = step.folder.file(str(asked.rank))
            step.tasks[asked.rank] = make_folder(path, asked, launch=launch, uid=meta.uid, gid=group_of(meta))

    async def _give_up(self, step: Step, error: BaseException) -> None:
        """End the running tasks of a step that could not be started completely."""
        loop = asyncio.get_running_loop()
        ours = await loop.run_in_executor(self._pool, self._own.refusal, error)
        text = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        step.message = f"the step's tasks cannot be started on this node: {ours or text}"
        step.check = "" if ours is None else ours.check
        step.started.set()
        await end_step(step, grace_s=0.0, pool=self._pool)
        for task in step.tasks.values():
            if task.process is None and task.ended is None:
                task.ended = (1, 0)
                task.close_input()
        self._settle(step, [])

    def _task_ended(self, task: Task) -> None:
        step = self._owners.pop(id(task))
        step.note_process(task, self._peak.known(task.reap()))
        task.read_end()
        assert task.ended is not None
        if step.ran_out_of_memory(task):
            self._note_oom(step, task)
        if step.exchange is not None:
            step.exchange.ended(task.rank, *task.ended)
        self._settle(step, [task.end()])

    def _exchange(self, step: Step, asked: Pmi, ranks: Sequence[int]) -> Exchange:
        return Exchange(
            asked,
            ranks,
            fence=lambda number, values: self._tell_fence(step, number, values),
            lost=lambda rank, code, why: self._abort(step, rank, code, why),
            note=lambda said: _put_down(step, said),
        )

    def _rejoin(self, step: Step, asked: Pmi, ranks: Sequence[int]) -> None:
        """Reconnect the step's ranks to this agent.

        The previous agent stored their PMI connections and messages.
        """
        kept = self._starter.lines.take(line_name(step))
        lines = {int(name.rpartition("/")[2]): line for name, line in kept.items()}
        lost = [rank for rank in ranks if step.tasks[rank].ended is None and rank not in lines]
        step.exchange = self._exchange(step, asked, ranks)
        step.exchange.replay(lines, map(json.loads, step.folder.read_lines(NOTES)))
        for rank in ranks:
            ended = step.tasks[rank].ended
            if ended is not None:
                step.exchange.ended(rank, *ended)
        if lost:
            self._abort(
                step, lost[0], 1, "its ranks' lines to the agent (PMI) were lost when that began anew"
            )

    def _tell_fence(self, step: Step, number: int, values: Dict[str, str]) -> None:
        parts = pieces(values, FENCE_PIECE_BYTES)
        for at, part in enumerate(parts, 1):
            meta = step.job.meta
            self._tell(
                StepFence(
                    job_id=meta.job_id,
                    restarts=meta.restarts,
                    step=step.number,
                    number=number,
                    values=part,
                    last=at == len(parts),
                )
            )

    def fenced(self, said: StepFenced) -> None:
        """Handle the message that all ranks of a step have reached a fence."""
        step = self.get(said.job_id, said.restarts, said.step)
        if step is not None and step.exchange is not None:
            step.exchange.fenced(said.number, said.values, last=said.last)

    def repeat_fences(self) -> None:
        """Repeat all fences to a controller that may not have received them."""
        for step in self._steps.values():
            if step.exchange is not None:
                step.exchange.repeat()

    def _abort(self, step: Step, rank: int, code: int, why: str) -> None:
        """Record that one of the step's ranks aborts the step or can no longer take part.

        Only the first abort counts.
        """
        if step.abort is None and not step.is_ending and not step.job.cause:
            step.abort = TaskEnded(rank, code=code)
            step.message = why
            self._tell(step.report([]))

    def _settle(self, step: Step, ends: List[TaskEnded]) -> None:
        """Report the ended tasks, and the end of the step when none of its tasks runs."""
        if step.started.is_set() and all(task.ended is not None for task in step.tasks.values()):
            if step.timer is not None:
                step.timer.cancel()
            step.take_usage()
            if own := step.own_groups:
                self._pool.submit(launch_cgroups.remove, own)
            step.done.set()
            if step.exchange is not None:
                step.exchange.close()
                self._pool.submit(self._starter.lines.drop, line_name(step))
        for listener in step.listeners:
            listener.set()
        if ends or step.done.is_set():
            self._tell(step.report(ends if not step.done.is_set() else None))

    def _watch_memory(self, step: Step) -> None:
        """Watch the memory of a step whose own memory limit the kernel does not enforce."""
        limit_bytes = step.hold.watch_mem_bytes
        if limit_bytes in (0, step.job.meta.hold.watch_mem_bytes):
            return
        self._memory.add(
            Watched(
                mark=step.job.mark,
                step=str(step.number),
                limit_bytes=limit_bytes,
                runs=lambda: not step.done.is_set(),
                used=step.note_memory,
                over=lambda mem_bytes: self._out_of_memory(step),
            )
        )

    def _out_of_memory(self, step: Step) -> None:
        step.out_of_memory = True
        self._spawn(end_step(step, grace_s=0.0, pool=self._pool))

    def _note_oom(self, step: Step, task: Task) -> None:
        """Record that a task ran out of memory.

        The step's first such task on this node gets slurmstepd's message on its standard error.
        """
        if not any(each.oom for each in step.tasks.values()):
            step_id = f"{step.job.meta.job_id}.{step.number}"
            with contextlib.suppress(OSError):
                task.folder.append(OUTPUTS[ERR], f"slurmstepd: error: {oom_words(step_id)}")
        task.oom = True

    def _time_is_over(self, step: Step) -> None:
        step.message = "its time limit is over"
        self._spawn(end_step(step, grace_s=step.job.meta.grace_s, pool=self._pool))

    def kill(self, asked: StepKill) -> None:
        """End a step, or send a signal to it."""
        step = self.get(asked.job_id, asked.restarts, asked.step)
        if step is None or step.done.is_set():
            return
        self._spawn(self._kill(step, asked))

    async def _kill(self, step: Step, asked: StepKill) -> None:
        """Wait until the step's tasks have started, then kill or signal it.

        While a task is starting, its processes cannot be told apart from others.
        """
        await step.started.wait()
        if asked.signal:
            await signal_step(step, asked.signal, rank=asked.rank, pool=self._pool)
        else:
            await end_step(step, grace_s=asked.grace_s, pool=self._pool)

    def forget(self, asked: ForgetStep) -> None:
        """Drop a step whose end the controller has recorded and whose output it has read."""
        key = (asked.job_id, asked.restarts, asked.step)
        step = self._steps.get(key)
        if step is not None and step.done.is_set():
            self._drop(key, step)

    def _drop(self, key: StepKey, step: Step) -> None:
        del self._steps[key]
        step.job.steps.pop(step.number, None)
        self._pool.submit(JobFolder(step.folder.path).remove)

    def drop_of(self, job: Job) -> None:
        """Drop the steps of a forgotten job."""
        for number, step in list(job.steps.items()):
            self._drop((job.meta.job_id, job.meta.restarts, number), step)

    def adopt(self, job: Job) -> None:
        """Adopt the steps that an earlier agent left inside a launch."""
        base = os.path.dirname(step_folder(job, 0))
        job.had_steps = os.path.isdir(base)
        for name in sorted(os.listdir(base)) if job.had_steps else ():
            folder = Folder(os.path.join(base, name))
            words = folder.read("meta.json")
            if not name.isdecimal() or not words:
                JobFolder(folder.path).remove()
                continue
            meant = json.loads(words)
            step = Step(job, int(name), folder, gpus=meant["gpus"], begin_unix=meant["begin_unix"])
            step.cpus = tuple(meant.get("cpus", ()))
            step.meter.restore(folder)
            if "hold" in meant:
                step.hold_in(hold_from(meant["hold"]))
                self._watch_memory(step)
            step.started.set()
            self._steps[job.meta.job_id, job.meta.restarts, step.number] = step
            job.steps[step.number] = step
            for rank in meant["ranks"]:
                self._adopt_task(step, int(rank))
            if meant.get("pmi"):
                self._rejoin(step, Pmi(**meant["pmi"]), [int(rank) for rank in meant["ranks"]])
            self._settle(step, [])

    def _adopt_task(self, step: Step, rank: int) -> None:
        task = Task(JobFolder(step.folder.file(str(rank))), rank, reads=False)
        step.tasks[rank] = task
        if task.folder.supervisor_lives():
            task.adopted = True
            self._owners[id(task)] = step
            self._watch.add(task)
            return
        task.read_end()
        if step.own_groups and step.ran_out_of_memory(task):
            self._note_oom(step, task)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _telling(launch: StepLaunch, cpus: List[List[int]]) -> StepLaunch:
    """Return the step with tasks that first print their CPUs (variable BOUND)."""
    node = launch.env.get("SLURMD_NODENAME", "")
    tasks = []
    for local, task in enumerate(launch.tasks):
        line = in_words(launch.cpu_bind, cpus[local], node=node, rank=task.rank, local=local)
        tasks.append(dataclasses.replace(task, env={**task.env, BOUND: line}))
    return dataclasses.replace(launch, tasks=tasks)


def _cpus_of(job: Job) -> List[int]:
    return list(job.meta.hold.cpus) or allowed_cpus()


def _put_down(step: Step, said: Dict[str, Any]) -> None:
    """Store a PMI message.

    On a full disk the ranks continue; only a restarted agent would then have to end them.
    """
    with contextlib.suppress(OSError):
        step.folder.append(NOTES, json.dumps(said))
