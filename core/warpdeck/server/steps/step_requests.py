"""Handles srun in the controller: creates a job step and connects its streams to the client.

The client sends its command line, which is parsed here (notation.srun), so that every srun has the same
grammar. If other steps hold the resources, the client is told. The step is requested again whenever something
of the job has changed.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence

import msgspec

from warpdeck.base.errors import VERBATIM, UserError
from warpdeck.controller.events.events import StepRequested
from warpdeck.controller.loop.initial_steps import InitialStep
from warpdeck.controller.reducers.step_commands import BUSY, STARTING, created_before, plan_step, whole_step
from warpdeck.model import Job, JobId, NodeName
from warpdeck.model.step import MAX_STEP_TASKS, Step, StepOptions
from warpdeck.notation.options.options import SRUN_22_05
from warpdeck.notation.step.srun import parse_srun, programs_of
from warpdeck.notation.step.step_options import Srun, Streams
from warpdeck.notation.values.job_ids import parse_job_id
from warpdeck.notation.values.master_address import has_own_master
from warpdeck.ports.caller import may_control
from warpdeck.protocol import requests as ask
from warpdeck.server.connection import ClientStream, Connection
from warpdeck.server.jobs.allocations import FILE, Wish, begun, judged, make_allocation, wish_of
from warpdeck_agent.wire.steps import EVERY_TASK

from .step_plan import Part, stream_plan, task_number, written_paths
from .step_stream import StepStream

RETRY_S = 10.0
"""Seconds after which a waiting step is requested again even if nothing of its job has changed."""
NO_TASK = -1
_COUNT = re.compile(r"[0-9]{1,6}")


async def run(connection: Connection, message: ask.Srun) -> None:
    """Parse srun's command line, start its step and connect the step to the client."""
    with judged(connection, message, SRUN_22_05) as judge:
        words, *further = programs_of(message.words)
        asked = _parse(connection, message, words)
        if asked.told:
            connection.send({"t": "told", "id": message.id, "text": asked.told, "code": asked.told_code})
            return
        wanted = _convert(asked, has_input=message.has_input)
        job = _find_job(connection, asked)
        parts = _components(connection, message, job, asked, wanted, further)
        if len(parts) == 1:
            parts = [await _no_more_nodes_than_tasks(connection, message, parts[0])]
        _have_tried([part.streams for part in parts] or [asked.streams], message)
        if asked.passed_over or (job is None and wanted.relative is not None):
            judge(None)
        wish = _wish(connection, message, asked) if job is None else None
    first: InitialStep | None = None
    if wish is not None:
        made = await make_allocation(connection, message, wish=wish, known=SRUN_22_05)
        asked_for = _event(connection, message, made, wanted)
        if created_before(connection.server.controller.state, asked_for) is None:
            if made.steps_made and made.exit is not None:
                _tell_end(connection, message, made)
                return
            with connection.server.controller.events.initial_steps.waiting(asked_for) as first:
                made = await begun(connection, message, made, immediate_s=wish.immediate_s)
        job = made
    else:
        job, wanted = parts[0].job, parts[0].wanted
    parts = [Part(job, wanted, asked.streams), *parts[1:]]
    first_event, *others = [_event(connection, message, part.job, part.wanted) for part in parts]
    event = first_event
    if others:  # Ranks of different jobs cannot meet in PMI barriers, so PMI is disabled.
        alone = tuple(msgspec.structs.replace(each, mpi="none") for each in others)
        event = msgspec.structs.replace(event, mpi="none", others=alone)
    try:
        step = await first.created() if first is not None else None
        step = step or await _place(connection, message.id, event)
    except BaseException as error:
        if job.request.holder == "srun":
            connection.server.steps.lets_go(job.id)
        if isinstance(error, UserError):
            from warpdeck.server.jobs.launch_errors import (
                of_step,  # Imported here because it is seldom needed.
            )

            raise of_step(error, job.id, message.env) from None
        raise
    connection.server.steps.released(job.id)  # From here on the step itself keeps the job's allocation.
    steps = whole_step(connection.server.controller.state, step)
    stream = StepStream(connection, message.id, steps, wait_s=wanted.wait_s)
    plan = stream_plan(parts, steps, cwd=message.cwd)
    connection.send({"t": "ok", "id": message.id, "result": plan})
    await stream.join({})


def _tell_end(connection: Connection, message: ask.Srun, job: Job) -> None:
    """Report the end of the job to an srun that reconnects after its job has run and ended.

    The job was made for this srun's step, so the job's exit status is the step's.
    """
    assert job.exit is not None
    line = f"error: job {job.id} ended while the connection was lost: what its tasks wrote is not here"
    connection.send({"t": "note", "stream": message.id, "line": line})
    stream = ClientStream(connection, message.id)
    stream.say_end(job.exit.message, {"code": job.exit.code, "signal": job.exit.signal})
    connection.server.steps.released(job.id)


def _components(
    connection: Connection,
    message: ask.Srun,
    job: Job | None,
    asked: Srun,
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
    members = {each.component.offset: each for each in _members(connection, job) if each.component}
    chosen: dict[int, tuple[StepOptions, Streams]] = {}
    programs = [(asked, wanted)]
    for words in further:
        one = _parse(connection, message, words)
        one.streams = one.streams.after(asked.streams)
        programs.append((one, _convert(one, has_input=message.has_input)))
    for number, (one, step) in enumerate(programs):
        for offset in one.groups or (number,):
            if offset in chosen:
                raise UserError(
                    f"component {offset} is given twice", "give each program different components"
                )
            chosen[offset] = step, one.streams
    highest, asks = (job.component.size - 1 if job.component is not None else 0), max(chosen)
    if asks > highest:
        raise UserError(
            f"Requested het-group offset exceeds highest hetjob index ({asks} > {highest})", exit_code=1
        )
    if len(chosen) > 1 and any(step.mpi == "pmi2" for step, _ in chosen.values()):
        raise UserError(
            "--mpi=pmi2 over several components is not supported",
            "start the program with mpirun, or use one component",
        )
    return [Part(members[offset], *chosen[offset]) for offset in sorted(chosen)]


def _members(connection: Connection, job: Job) -> list[Job]:
    return connection.server.controller.state.array_members(job.array_job_id)


def _event(connection: Connection, message: ask.Srun, job: Job, wanted: StepOptions) -> StepRequested:
    return StepRequested(
        principal=connection.who,
        job_id=job.id,
        options=wanted,
        cwd=message.cwd,
        caller=connection.caller.node if connection.caller is not None else None,
        mpi=wanted.mpi or connection.server.controller.config.steps.mpi,
        first=job.shares[0].node if job.shares else NodeName(""),
        own_master=has_own_master(message.env),
        nonce=message.nonce,
    )


def _parse(connection: Connection, message: ask.Srun, words: list[str]) -> Srun:
    """Parse the arguments of one program. Raises UserError, also to request the text of a file."""
    plugins = connection.server.controller.config.submission.plugin_options
    asked = parse_srun(words, message.env, files=message.files, plugins=plugins)
    if asked.needs:
        raise UserError(f"the text of {asked.needs} is needed", code=FILE, details={"file": asked.needs})
    return asked


def _have_tried(streams: Sequence[Streams], message: ask.Srun) -> None:
    """Make the client check that it can write its output files before any task starts. Raises UserError.

    Otherwise the output of the tasks would be lost.
    """
    if message.writes is None:
        return
    for path in (path for each in streams for path in written_paths(each, cwd=message.cwd)):
        if path not in message.writes:
            raise UserError(f"cannot write {path}", code=FILE, details={"writes": path})


def _wish(connection: Connection, message: ask.Srun, asked: Srun) -> Wish:
    """Return the request for the job that is made for the step.

    Exported variables belong to the step instead.
    """
    return wish_of(
        [*asked.job_options, ("export", "NONE", "srun")],
        {},
        holder="srun",
        name=asked.ask["name"],
        cwd=message.cwd,
        now=connection.server.controller.clock(),
    )._replace(immediate_s=asked.immediate_s)


async def attach(connection: Connection, message: ask.SrunAttach) -> None:
    """Reconnect to a step that is running, or that has ended meanwhile and still has unsent output."""
    job_word, _, number = message.step.partition(".")
    if not job_word.isdecimal() or not number.isdecimal():
        raise UserError(f"{message.step!r} is not a step", "use JOB.STEP, such as 12.0")
    state = connection.server.controller.state
    job, step = (
        state.jobs.get(JobId(int(job_word))),
        state.steps.get(JobId(int(job_word)), {}).get(int(number)),
    )
    if job is None or step is None or not may_control(connection.who, job):
        raise UserError(f"step {message.step} no longer exists", "see `warpdeck show`")
    stream = StepStream(connection, message.id, whole_step(state, step), wait_s=0)
    connection.send({"t": "ok", "id": message.id, "result": {"job_id": step.job_id, "step": step.number}})
    await stream.join(message.have)


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


async def _no_more_nodes_than_tasks(connection: Connection, message: ask.Srun, part: Part) -> Part:
    """Lower the number of nodes to the number of tasks if tasks are counted, also by the job's own variable.

    Nodes that are named, or that must be filled with tasks, stay.
    """
    wanted = part.wanted
    tasks = wanted.tasks or _count_of(message.env, "SLURM_NTASKS", own=0)
    low = wanted.nodes_min or 0
    if not 0 < tasks < low or wanted.nodelist or wanted.hosts or wanted.tasks_per_node:
        return part
    words = f"Warning: can't run {tasks} processes on {low} nodes, setting nnodes to {tasks}"
    await connection.progress(message.id, words)
    return part._replace(wanted=msgspec.structs.replace(wanted, nodes_min=tasks, nodes_max=tasks))


def _count_of(environ: Mapping[str, str], variable: str, *, own: int) -> int:
    """Return the variable's number, or 0 if it has none or if it is the job's own number."""
    text = environ.get(variable, "")
    found = int(text) if _COUNT.fullmatch(text) else 0
    return 0 if found == own or found > MAX_STEP_TASKS else found


def _find_job(connection: Connection, asked: Srun) -> Job | None:
    """Return the named job, else the caller's own job. None means that a new job must be made."""
    state = connection.server.controller.state
    if asked.job:
        number, tasks = parse_job_id(asked.job)
        found = [job for job in state.named(JobId(number)) if not job.is_finished] or state.named(
            JobId(number)
        )
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
    if connection.caller is not None:
        return state.jobs[connection.caller.job_id]
    return None


def _convert(asked: Srun, *, has_input: bool) -> StepOptions:
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


async def _place(connection: Connection, number: int, event: StepRequested) -> Step:
    """Return the committed step. Raises UserError.

    If resources are not free, it waits for them and sends the client the reason.
    """
    controller = connection.server.controller
    listener = controller.hub.listen()
    told = ""
    begun = time.monotonic()
    try:
        while True:
            try:
                step = await _ask_once(connection, event)
            except UserError as error:
                if error.code not in (BUSY, STARTING) or event.options.immediate:
                    raise
                if error.code == BUSY and error.message != told:
                    told = error.message
                    await connection.progress(number, told)
            else:
                if told:
                    waited = time.monotonic() - begun
                    line = f"Step created for job {event.job_id} after {waited:.0f} s"
                    await connection.progress(number, line)
                return step
            try:
                async with asyncio.timeout(RETRY_S):
                    await listener.changed.wait()
            except TimeoutError:
                continue
            finally:
                listener.take()
    finally:
        controller.hub.leave(listener)


async def _ask_once(connection: Connection, event: StepRequested) -> Step:
    controller = connection.server.controller
    made = created_before(controller.state, event)
    if made is not None:
        return made
    layouts = [plan_step(controller.state, each) for each in (event, *event.others)]
    first = layouts[0].shares[0].node
    port = 0
    if sum(len(layout.shares) for layout in layouts) > 1 and not event.own_master:
        job = controller.state.jobs[event.job_id]
        port = await controller.fleet.reserve_port(first, job_id=job.id, restarts=job.restarts)
    outcome = await controller.apply(msgspec.structs.replace(event, first=first, port=port))
    assert outcome.step is not None
    return outcome.step
