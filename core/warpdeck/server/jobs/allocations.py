"""Allocations that belong to a client, made by srun for its only step or by salloc.

The client's connection holds its allocation. A client that is cut off because the controller restarts
reconnects (SallocAttach). If it does not, the step keeper releases the allocation.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from warpdeck.base.errors import ANSWERED, VERBATIM, UserError
from warpdeck.base.passwd import existing_gid, existing_uid
from warpdeck.controller.events.events import HolderLeft
from warpdeck.controller.launch.environment import component_variables, made_environment
from warpdeck.controller.launch.node_aliases import address_variables
from warpdeck.controller.state.state import State
from warpdeck.engines.native.outcomes import known_job
from warpdeck.model import Job, JobId, JobState, Request
from warpdeck.notation.options.given_options import Options, OptionSource
from warpdeck.notation.options.option_table import SALLOC_22_05, OptionTable, with_plugins
from warpdeck.notation.reading.components import LaunchLine
from warpdeck.notation.request.job_request import build_request
from warpdeck.notation.step.salloc_line import read_salloc, salloc_options
from warpdeck.ports.caller import may_control
from warpdeck.protocol import requests as ask
from warpdeck.protocol.nonces import mark_of
from warpdeck.server.connection import ClientStream, Connection
from warpdeck.server.end_subscriptions import wait_for

FILE = "file"
"""Code of the error that asks the client for the text of a file."""
_OF_A_PROCESS = frozenset(
    {
        *(
            "SLURM_NODEID",
            "SLURMD_NODENAME",
            "SLURM_GTIDS",
            "SLURM_TOPOLOGY_ADDR",
            "SLURM_TOPOLOGY_ADDR_PATTERN",
        ),
        *("SLURM_CPUS_ON_NODE", "SLURM_PRIO_PROCESS", "SLURM_JOB_UID", "SLURM_JOB_USER"),
        *("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
    }
)
"""Variables that the processes of a job get but salloc's shell does not."""


class Wish(NamedTuple):
    """Request for an allocation, and the notes about it for the user."""

    request: Request
    notes: list[str]
    components: tuple[Request, ...] = ()
    """The second and later components of a heterogeneous job."""
    immediate_s: float | None = None
    """Seconds of --immediate. The allocation is released if it does not start within this time."""


def wish_of(options: Options, env: Mapping[str, str], *, holder: str, name: str, cwd: str) -> Wish:
    """Build the request for an allocation. Raises UserError if the options are invalid."""
    fields, notes = build_request(options, env)
    fields |= {"holder": holder, "submit_dir": cwd, "requeue": False}
    fields.setdefault("name", name)
    try:
        return Wish(msgspec.convert(fields, Request, strict=False), notes)
    except msgspec.ValidationError as error:
        raise UserError(f"invalid allocation: {error}", "check the options") from error


async def make_allocation(
    connection: Connection,
    message: ask.Srun | ask.Salloc,
    *,
    wish: Wish,
    known: OptionTable,
) -> Job:
    """Make a new allocation for the connected client and return its job. Raises UserError.

    If an srun repeats its request, the job may have ended already. Errors use the wording of the command
    whose options are `known`.
    """
    controller = connection.server.controller
    for note in wish.notes:
        await connection.progress(message.id, note)
    try:
        outcome = await controller.apply(
            await connection.server.submitter.event(
                connection.who, [wish.request, *wish.components], mark_of(message)
            )
        )
    except UserError as error:
        from .launch_errors import in_its_words  # Imported here because it is seldom needed.

        raise in_its_words(error, known, message.env) from None
    if outcome.job is None and outcome.created is not None and isinstance(message, ask.Srun):
        ended = await controller.store.job(JobId(outcome.created.job_id))
        if ended is not None:
            return ended
    job = known_job(outcome)
    for note in outcome.notes:
        await connection.progress(message.id, note)
    connection.server.steps.holds(job.id)
    return job


async def begun(
    connection: Connection, message: ask.Srun | ask.Salloc, job: Job, *, immediate_s: float | None
) -> Job:
    """Wait until the allocation runs and return its job. Raises UserError.

    If the client stops waiting, or --immediate runs out, the allocation is released.
    """
    controller = connection.server.controller
    try:
        if not _runs(controller.state, job):
            async with asyncio.timeout(immediate_s):
                job = await _wait(connection, message, job)
    except TimeoutError:
        connection.server.steps.lets_go(job.id)
        from .launch_errors import too_late  # Imported here because it is seldom needed.

        raise too_late(message.env) from None
    except BaseException:
        connection.server.steps.lets_go(job.id)
        raise
    return controller.state.jobs[job.id]


def _runs(state: State, job: Job) -> bool:
    """Return whether the job runs with all of its components."""
    return all(each.state is JobState.RUNNING or each.is_finished for each in state.array_members(job.id))


async def _wait(connection: Connection, message: ask.Srun | ask.Salloc, job: Job) -> Job:
    controller = connection.server.controller
    number = message.id
    waited = False
    if controller.state.jobs[
        job.id
    ].state is JobState.PENDING and controller.state.planned.pending_reasons.get(job.id):
        waited = True
        if isinstance(message, ask.Salloc):
            await connection.progress(number, f"Pending job allocation {job.id}")
        await connection.progress(number, f"job {job.id} queued and waiting for resources")
    job = await wait_for(
        connection, job, lambda now: now.is_finished or _runs(controller.state, now), tell=number
    )
    if job.is_finished:
        why = f": {job.exit.message}" if job.exit is not None and job.exit.message else ""
        raise UserError(f"job {job.id} ended before it could be used ({job.state}){why}", "")
    if waited:
        await connection.progress(number, f"job {job.id} has been allocated resources")
    return job


_UNREAD = "localhost\n"
"""Assumed content of a file that the client was not asked for: one host name."""


def launch_source(connection: Connection, message: ask.Srun | ask.Salloc | ask.Session) -> OptionSource:
    """Return the surroundings of the client that its options may refer to."""
    files = message.files if isinstance(message, ask.Srun) else {}
    return OptionSource(
        cwd=message.cwd,
        environ=message.env,
        now=connection.server.controller.clock(),
        is_root=connection.who.uid == 0,
        user_id=existing_uid,
        group_id=existing_gid,
        read_text=lambda name: files.get(name, _UNREAD),
    )


@contextlib.contextmanager
def judged(
    connection: Connection,
    message: ask.Srun | ask.Salloc,
    line: LaunchLine,
    source: OptionSource,
    *,
    known: OptionTable,
) -> Iterator[Callable[[UserError | None], None]]:
    """Context in which a request that we refuse fails with the real command's error.

    Our own error is kept if the real command would accept the request. The context's value is a function that
    makes the same check without an error of our own. It is called if an option's value was ignored.
    """

    def judge(ours: UserError | None) -> None:
        from . import launch_errors  # Imported here because it is seldom needed.

        plugins = connection.server.controller.config.submission.plugin_options
        launch_errors.check(line, source, with_plugins(known, plugins), ours=ours)

    try:
        yield judge
    except UserError as error:
        if error.code not in (VERBATIM, ANSWERED, FILE):
            judge(error)
        if error.code == "dependency":  # Slurm's controller parses this option.
            from .launch_errors import in_its_words  # Imported here because it is seldom needed.

            raise in_its_words(error, known, message.env) from None
        raise


def _revoked(job: Job) -> str:
    """Return the message for salloc that the allocation is gone: Slurm's wording followed by the reason."""
    if job.state is JobState.TIMEOUT:
        return f"Job {job.id} has exceeded its time limit and its allocation has been revoked."
    why = job.exit.message if job.exit is not None else ""
    if job.state is JobState.CANCELLED and job.ended_by_uid is not None:
        from warpdeck.base.passwd import name_of  # Imported here because it is seldom needed.

        why = f"it was cancelled by {name_of(job.ended_by_uid)}"
    if not why and job.state is not JobState.COMPLETED:
        why = f"it ended as {job.state}"
    return f"Job allocation {job.id} has been revoked." + (f" Reason: {why}." if why else "")


class HeldStream(ClientStream):
    """The stream by which salloc holds its allocation."""

    def __init__(self, connection: Connection, number: int, job: Job) -> None:
        super().__init__(connection, number)
        self._job = job
        self._task: asyncio.Task[Any] | None = asyncio.current_task()

    async def watch(self) -> None:
        """Wait until the allocation has ended, then tell the client."""
        job = await wait_for(self.connection, self._job, lambda now: now.is_finished)
        self.say_end(_revoked(job), None)
        self.connection.server.steps.released(job.id)

    async def order(self, order: ask.StepOrder) -> None:
        """Release the allocation because the command that ran in it has ended."""
        if order.what == "end":
            event = HolderLeft(principal=self.connection.who, job_id=self._job.id, code=order.code)
            await self.connection.server.controller.apply(event)

    def end(self, *, finished: bool = False) -> None:
        """Release the allocation because its client has disconnected."""
        if self.is_open:
            super().end()
            self.connection.server.steps.lets_go(self._job.id)
            if self._task is not None:
                self._task.cancel()


async def hold(connection: Connection, message: ask.Salloc) -> None:
    """Make an allocation for salloc and hold it until the client ends."""
    controller = connection.server.controller
    source = launch_source(connection, message)
    line = read_salloc(message.words, source, plugins=controller.config.submission.plugin_options)
    with judged(connection, message, line, source, known=SALLOC_22_05) as judge:
        asked = salloc_options(line)
        wish = wish_of(
            asked.options,
            message.env,
            holder="salloc" if asked.has_shell else "nobody",
            name="interactive",
            cwd=message.cwd,
        )._replace(immediate_s=asked.immediate_s)
        others = [
            wish_of(options, {}, holder="hetjob", name="interactive", cwd=message.cwd)
            for options in asked.others
        ]
        wish = wish._replace(components=tuple(each.request for each in others))
        if wish.notes:
            judge(None)
    made = await make_allocation(connection, message, wish=wish, known=SALLOC_22_05)
    job = await begun(connection, message, made, immediate_s=wish.immediate_s)
    stream = HeldStream(connection, message.id, job)
    members = controller.state.array_members(job.id)
    names = [name for each in members if each.allocation for name in each.allocation.node_names()]
    variables = made_environment(job, 0, submit_host="") | address_variables(names, controller.state.nodes)
    if job.component is not None:
        variables |= component_variables(members)
    result = {
        "job_id": job.id,
        "env": {name: value for name, value in variables.items() if name not in _OF_A_PROCESS},
        "command": asked.command,
        "has_shell": asked.has_shell,
        "kill_signal": asked.kill_signal,
        "bell": asked.bell,
        "quiet": asked.quiet,
        "chdir": asked.chdir,
        "nodes": names,
    }
    connection.send({"t": "ok", "id": message.id, "result": result})
    if asked.has_shell:
        await stream.watch()
    else:
        connection.server.steps.released(job.id)
        stream.say_end("", None)


async def attach(connection: Connection, message: ask.SallocAttach) -> None:
    """Reconnect salloc to its allocation."""
    job = connection.server.controller.state.jobs.get(JobId(message.job))
    if job is None or not may_control(connection.who, job) or job.request.holder != "salloc":
        raise UserError(f"allocation {message.job} no longer exists", "see `warpdeck queue`")
    connection.server.steps.holds(job.id)
    stream = HeldStream(connection, message.id, job)
    connection.send({"t": "ok", "id": message.id, "result": {}})
    await stream.watch()
