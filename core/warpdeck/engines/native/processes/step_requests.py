"""srun in the controller: creates a job step. The client then reads the step's streams.

The client sends its command line, which is parsed here (notation.srun), so that every srun has the same
grammar. If other steps hold the resources, the client is told. The step is requested again whenever something
of the job has changed.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from warpdeck.base.errors import VERBATIM, UserError
from warpdeck.config import Config
from warpdeck.controller.events.events import StepRequested
from warpdeck.controller.loop.initial_steps import InitialStep, InitialSteps
from warpdeck.controller.reducers.step_commands import BUSY, STARTING, created_before, plan_step, whole_step
from warpdeck.model import Job, JobId, NodeName
from warpdeck.model.step import MAX_STEP_TASKS, Step, StepOptions
from warpdeck.notation.options.given_options import GivenOption
from warpdeck.notation.options.option_table import SRUN_22_05
from warpdeck.notation.reading.components import LaunchLine
from warpdeck.notation.step.srun_line import programs_of, read_srun, srun_options
from warpdeck.notation.step.step_options import SrunOptions, Streams
from warpdeck.notation.values.job_ids import parse_job_id
from warpdeck.notation.values.master_address import has_own_master
from warpdeck.ports.caller import NOT_YOURS, Caller, may_access
from warpdeck.ports.engine import Progress
from warpdeck.ports.engine_streams import CommandText, EndedStep, HeldAllocation, StreamEnd
from warpdeck.protocol import requests as ask
from warpdeck_agent.wire.steps import EVERY_TASK

from .allocations import FILE, Allocations, Wish, launch_source, unless_quiet, wish_of
from .step_plan import Part, stream_plan, task_number, written_paths
from .step_streams import StepContext, StepStreams

RETRY_S = 10.0
"""Seconds after which a waiting step is requested again even if nothing of its job has changed."""
NO_TASK = -1
_COUNT = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True, kw_only=True)
class NativeSteps:
    """The `EngineSteps` of the controller. `config` returns the configuration in force."""

    context: StepContext
    allocations: Allocations
    first_steps: InitialSteps
    config: Callable[[], Config]
    clock: Callable[[], float]

    def start(self) -> None:
        self.context.leases.start()

    def stop(self) -> None:
        self.context.leases.stop()

    async def salloc(self, caller: Caller, message: ask.Salloc, progress: Progress) -> HeldAllocation:
        return await self.allocations.allocate(caller, message, progress)

    async def salloc_attach(self, caller: Caller, message: ask.SallocAttach) -> HeldAllocation:
        return self.allocations.attach(caller, message)

    async def srun(
        self, caller: Caller, message: ask.Srun, progress: Progress
    ) -> StepStreams | CommandText | EndedStep:
        words, *further = programs_of(message.words)
        line, source = (
            self._read(caller, message, words),
            launch_source(caller, message, now=self.clock()),
        )
        with self.allocations.judged(message, line, source, known=SRUN_22_05) as judge:
            asked = _options(message, line)
            if asked.answer:
                return CommandText(asked.answer, asked.answer_code)
            wanted = _convert(asked, has_input=message.has_input)
            job = self._find_job(caller, asked)
            parts = self._components(caller, message, job, asked, wanted, further)
            if len(parts) == 1:
                parts = [await _no_more_nodes_than_tasks(message, parts[0], progress)]
            _have_tried([part.streams for part in parts] or [asked.streams], message)
            if asked.has_ignored_options or (job is None and wanted.relative is not None):
                judge(None)
            wish = self._wish(message, asked) if job is None else None
        waiting = unless_quiet(progress, quiet=asked.streams.quiet)
        first: InitialStep | None = None
        if wish is not None:
            made = await self.allocations.make(caller, message, progress, wish=wish, known=SRUN_22_05)
            asked_for = self._event(caller, message, made, wanted)
            if created_before(self.context.state, asked_for) is None:
                if made.steps_made and made.exit is not None:
                    return self._ended(made)
                with self.first_steps.waiting(asked_for) as first:
                    made = await self.allocations.begun(message, made, waiting, immediate_s=wish.immediate_s)
            parts = [Part(made, wanted, asked.streams)]
        steps = await self._placed(caller, message, parts, first, waiting)
        plan = stream_plan(parts, steps, cwd=message.cwd)
        return StepStreams(self.context, caller, steps, wait_s=parts[0].wanted.wait_s, answer=plan)

    async def srun_attach(self, caller: Caller, message: ask.SrunAttach) -> StepStreams:
        """Return a step that is running, or that has ended meanwhile and still has unsent output."""
        job_word, _, number = message.step.partition(".")
        if not job_word.isdecimal() or not number.isdecimal():
            raise UserError(f"{message.step!r} is not a step", "use JOB.STEP, such as 12.0")
        job_id = JobId(int(job_word))
        job, step = (
            self.context.state.jobs.get(job_id),
            self.context.state.steps.get(job_id, {}).get(int(number)),
        )
        if job is None or step is None or not may_access(caller.who, job):
            raise UserError(f"step {message.step} no longer exists", "see `warpdeck show`", code=NOT_YOURS)
        answer = {"job_id": step.job_id, "step": step.number}
        steps = whole_step(self.context.state, step)
        return StepStreams(self.context, caller, steps, wait_s=0, answer=answer, have=message.have)

    async def _placed(
        self,
        caller: Caller,
        message: ask.Srun,
        parts: Sequence[Part],
        first: InitialStep | None,
        progress: Progress,
    ) -> Sequence[Step]:
        """Return the committed steps of all parts. Raises UserError in srun's wording."""
        job = parts[0].job
        event, *others = [self._event(caller, message, part.job, part.wanted) for part in parts]
        if others:  # Ranks of different jobs cannot meet in PMI barriers, so PMI is disabled.
            alone = tuple(msgspec.structs.replace(each, mpi="none") for each in others)
            event = msgspec.structs.replace(event, mpi="none", others=alone)
        try:
            step = await first.created() if first is not None else None
            step = step or await self._place(event, progress)
        except BaseException as error:
            if job.request.holder == "srun":
                self.context.leases.lets_go(job.id)
            if isinstance(error, UserError):
                from .launch_errors import of_step  # Imported here because it is seldom needed.

                raise of_step(error, job.id, message.env) from error
            raise
        self.context.leases.released(job.id)  # From here on the step itself keeps the job's allocation.
        return whole_step(self.context.state, step)

    def _ended(self, job: Job) -> EndedStep:
        """Return the end of the job for an srun that reconnects after its job has run and ended.

        The job was made for this srun's step, so the job's exit status is the step's.
        """
        assert job.exit is not None
        self.context.leases.released(job.id)
        line = f"error: job {job.id} ended while the connection was lost: what its tasks wrote is not here"
        return EndedStep(line, StreamEnd(job.exit.message, exit=job.exit))

    def _components(
        self,
        caller: Caller,
        message: ask.Srun,
        job: Job | None,
        asked: SrunOptions,
        wanted: StepOptions,
        further: Sequence[list[str]],
    ) -> list[Part]:
        """Return the components of the job with their programs, in the order of their ranks. Raises UserError.

        The list is empty if the job has yet to be made.
        """
        if job is None or (not further and asked.groups in ((), (0,))):
            if further or any(asked.groups):
                raise UserError(
                    "srun with several components needs a heterogeneous job",
                    "submit one with `sbatch A : B`, and use `srun A : B` in its script",
                )
            if job is None:
                return []
            return [Part(job, _as_variables_say(wanted, job, message.env), asked.streams)]
        programs = [(asked, wanted)]
        for words in further:
            one = _options(message, self._read(caller, message, words))
            one.streams = one.streams.after(asked.streams)
            programs.append((one, _convert(one, has_input=message.has_input)))
        chosen = _chosen(programs, highest=job.component.size - 1 if job.component is not None else 0)
        family = self.context.state.array_members(job.array_job_id)
        members = {each.component.offset: each for each in family if each.component}
        return [Part(members[offset], *chosen[offset]) for offset in sorted(chosen)]

    def _event(self, caller: Caller, message: ask.Srun, job: Job, wanted: StepOptions) -> StepRequested:
        return StepRequested(
            principal=caller.who,
            job_id=job.id,
            options=wanted,
            cwd=message.cwd,
            caller=caller.process.node if caller.process is not None else None,
            mpi=wanted.mpi or self.config().steps.mpi,
            first=job.shares[0].node if job.shares else NodeName(""),
            own_master=has_own_master(message.env),
            nonce=message.nonce,
        )

    def _read(self, caller: Caller, message: ask.Srun, words: Sequence[str]) -> LaunchLine:
        """Read the arguments of one program."""
        plugins = self.config().submission.plugin_options
        return read_srun(words, launch_source(caller, message, now=self.clock()), plugins=plugins)

    def _wish(self, message: ask.Srun, asked: SrunOptions) -> Wish:
        """Return the request for the job that is made for the step.

        Exported variables belong to the step instead.
        """
        return wish_of(
            [*asked.job_options, GivenOption("export", "NONE", "srun")],
            {},
            holder="srun",
            name=asked.ask["name"],
            cwd=message.cwd,
        )._replace(immediate_s=asked.immediate_s)

    def _find_job(self, caller: Caller, asked: SrunOptions) -> Job | None:
        """Return the named job, else the caller's own job. None means that a new job must be made."""
        state = self.context.state
        if asked.job:
            number, tasks = parse_job_id(asked.job)
            named = state.named(JobId(number))
            found = [job for job in named if not job.is_finished] or named
            if tasks is not None:
                found = [job for job in found if job.array_task_id == tasks[0][0]]
            if number in state.jobs and tasks is None:
                found = [state.jobs[JobId(number)]]
            if not found:
                raise UserError(
                    f"srun: error: Unable to confirm allocation for job {asked.job}: Invalid job id specified\n"
                    f"srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {asked.job}",
                    "see `warpdeck queue`",
                    code=VERBATIM,
                )
            return found[0]
        return state.jobs[caller.process.job_id] if caller.process is not None else None

    async def _place(self, event: StepRequested, progress: Progress) -> Step:
        """Return the committed step. Raises UserError.

        If resources are not free, it waits for them and reports the reason.
        """
        listener = self.context.hub.listen()
        told = ""
        begun = time.monotonic()
        try:
            while True:
                try:
                    step = await self._ask_once(event)
                except UserError as error:
                    if error.code not in (BUSY, STARTING) or event.options.immediate:
                        raise
                    if error.code == BUSY and error.message != told:
                        told = error.message
                        await progress(told)
                else:
                    if told:
                        waited = time.monotonic() - begun
                        await progress(f"Step created for job {event.job_id} after {waited:.0f} s")
                    return step
                try:
                    async with asyncio.timeout(RETRY_S):
                        await listener.changed.wait()
                except TimeoutError:
                    continue
                finally:
                    listener.take()
        finally:
            self.context.hub.leave(listener)

    async def _ask_once(self, event: StepRequested) -> Step:
        state, made = self.context.state, created_before(self.context.state, event)
        if made is not None:
            return made
        layouts = [plan_step(state, each) for each in (event, *event.others)]
        first = layouts[0].shares[0].node
        port = 0
        if sum(len(layout.shares) for layout in layouts) > 1 and not event.own_master:
            job = state.jobs[event.job_id]
            port = await self.context.fleet.reserve_port(first, job_id=job.id, restarts=job.restarts)
        outcome = await self.context.apply(msgspec.structs.replace(event, first=first, port=port))
        assert outcome.step is not None
        return outcome.step


def _chosen(
    programs: Sequence[tuple[SrunOptions, StepOptions]], *, highest: int
) -> dict[int, tuple[StepOptions, Streams]]:
    """Return the program of each component by its offset. Raises UserError.

    `highest` is the highest offset of the job.
    """
    chosen: dict[int, tuple[StepOptions, Streams]] = {}
    for number, (one, step) in enumerate(programs):
        for offset in one.groups or (number,):
            if offset in chosen:
                raise UserError(
                    f"component {offset} is given twice", "give each program different components"
                )
            chosen[offset] = step, one.streams
    asks = max(chosen)
    if asks > highest:
        raise UserError(
            f"Requested het-group offset exceeds highest hetjob index ({asks} > {highest})", exit_code=1
        )
    if len(chosen) > 1 and any(step.mpi == "pmi2" for step, _ in chosen.values()):
        raise UserError(
            "--mpi=pmi2 over several components is not supported",
            "start the program with mpirun, or use one component",
        )
    return chosen


def _have_tried(streams: Sequence[Streams], message: ask.Srun) -> None:
    """Make the client check that it can write its output files before any task starts. Raises UserError.

    Otherwise the output of the tasks would be lost.
    """
    if message.writes is None:
        return
    for path in (path for each in streams for path in written_paths(each, cwd=message.cwd)):
        if path not in message.writes:
            raise UserError(f"cannot write {path}", code=FILE, details={"writes": path})


def _options(message: ask.Srun, line: LaunchLine) -> SrunOptions:
    """Return the options of one program. Raises UserError, also to request the text of a file."""
    asked = srun_options(line, message.env, files=message.files)
    if asked.needed_file:
        raise UserError(
            f"the text of {asked.needed_file} is needed", code=FILE, details={"file": asked.needed_file}
        )
    return asked


def _as_variables_say(wanted: StepOptions, job: Job, environ: Mapping[str, str]) -> StepOptions:
    """Apply SLURM_NTASKS and SLURM_JOB_NUM_NODES as options of srun.

    They are ignored if they have the job's own values.
    """
    shares = job.allocation.shares if job.allocation is not None else ()
    tasks = _count_of(environ, "SLURM_NTASKS", own=sum(share.tasks for share in shares))
    nodes = _count_of(environ, "SLURM_JOB_NUM_NODES", own=len(shares))
    if tasks and wanted.tasks is None:
        wanted = msgspec.structs.replace(wanted, tasks=tasks)
    if nodes and wanted.nodes_min is None and not wanted.nodelist:
        wanted = msgspec.structs.replace(wanted, nodes_min=nodes, nodes_max=nodes)
    return wanted


async def _no_more_nodes_than_tasks(message: ask.Srun, part: Part, progress: Progress) -> Part:
    """Lower the number of nodes to the number of tasks if tasks are counted, also by the job's own variable.

    Nodes that are named, or that must be filled with tasks, stay.
    """
    wanted = part.wanted
    tasks = wanted.tasks or _count_of(message.env, "SLURM_NTASKS", own=0)
    low = wanted.nodes_min or 0
    if not 0 < tasks < low or wanted.nodelist or wanted.hosts or wanted.tasks_per_node:
        return part
    await progress(f"Warning: can't run {tasks} processes on {low} nodes, setting nnodes to {tasks}")
    return part._replace(wanted=msgspec.structs.replace(wanted, nodes_min=tasks, nodes_max=tasks))


def _count_of(environ: Mapping[str, str], variable: str, *, own: int) -> int:
    """Return the variable's number, or 0 if it has none or if it is the job's own number."""
    text = environ.get(variable, "")
    found = int(text) if _COUNT.fullmatch(text) else 0
    return 0 if found == own or found > MAX_STEP_TASKS else found


def _convert(asked: SrunOptions, *, has_input: bool) -> StepOptions:
    """Return the step request as a model object. Raises UserError if a value is out of range."""
    mode = asked.streams.input
    rank = NO_TASK
    if asked.ask.get("pty"):
        rank, mode = 0, "all"
        asked.streams = Streams(output="0", error="0", quiet=asked.streams.quiet)
    elif task_number(mode) >= 0:
        rank = task_number(mode)
    elif mode != "none" and (has_input or mode not in ("", "all")):
        rank = EVERY_TASK
    try:
        return msgspec.convert({**asked.ask, "input_rank": rank}, StepOptions)
    except msgspec.ValidationError as error:
        raise UserError(f"invalid step: {error}", "see `srun --help`") from error
