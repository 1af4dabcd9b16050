"""Allocations that belong to a client, made by srun for its only step or by salloc.

The client's connection holds its allocation. A client that is cut off because the controller restarts
reconnects (SallocAttach). If it does not, `StepLeases` releases the allocation.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import msgspec

from warpdeck.base.errors import ANSWERED, VERBATIM, UserError
from warpdeck.config import Config
from warpdeck.controller.events.events import HolderLeft
from warpdeck.controller.launch.environment import component_variables, made_environment
from warpdeck.controller.launch.node_aliases import address_variables
from warpdeck.controller.state.state import State
from warpdeck.engines.native.jobs.submissions import NativeSubmissions
from warpdeck.engines.native.outcomes import Apply, known_job
from warpdeck.engines.shared.job_waits import JobWaits
from warpdeck.engines.shared.session_requests import option_source
from warpdeck.model import Job, JobId, JobState, Request
from warpdeck.notation.options.given_options import Options, OptionSource
from warpdeck.notation.options.option_table import SALLOC_22_05, OptionTable, with_plugins
from warpdeck.notation.reading.components import LaunchLine
from warpdeck.notation.request.job_request import build_request
from warpdeck.notation.step.salloc_line import SallocOptions, read_salloc, salloc_options
from warpdeck.ports.caller import NOT_YOURS, Caller, may_access
from warpdeck.ports.engine import Progress
from warpdeck.ports.engine_streams import HeldAllocation
from warpdeck.ports.store import Store
from warpdeck.protocol import requests as ask
from warpdeck.protocol.nonces import mark_of

from .step_leases import StepLeases

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


_UNREAD = "localhost\n"
"""Assumed content of a file that the client was not asked for: one host name."""


def launch_source(
    caller: Caller, message: ask.Srun | ask.Salloc | ask.Session, *, now: float
) -> OptionSource:
    """Return the surroundings of the client that its options may refer to."""
    files = message.files if isinstance(message, ask.Srun) else {}
    return option_source(caller, message, now=now, read_text=lambda name: files.get(name, _UNREAD))


async def _discard(line: str) -> None:
    """Report nothing to the client."""


def unless_quiet(progress: Progress, *, quiet: bool) -> Progress:
    """Return the function that reports what a client waits for. With --quiet it reports nothing, as in Slurm."""
    return _discard if quiet else progress


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


@dataclass(frozen=True, kw_only=True)
class Allocations:
    """Makes and releases allocations. `config` returns the configuration in force."""

    state: State
    store: Store
    apply: Apply
    submissions: NativeSubmissions
    waits: JobWaits
    leases: StepLeases
    config: Callable[[], Config]
    clock: Callable[[], float]

    async def make(
        self,
        caller: Caller,
        message: ask.Srun | ask.Salloc,
        progress: Progress,
        *,
        wish: Wish,
        known: OptionTable,
    ) -> Job:
        """Make a new allocation for the connected client and return its job. Raises UserError.

        If an srun repeats its request, the job may have ended already. Errors use the wording of the command
        whose options are `known`.
        """
        for note in wish.notes:
            await progress(note)
        try:
            requests = [wish.request, *wish.components]
            outcome = await self.apply(await self.submissions.event(caller.who, requests, mark_of(message)))
        except UserError as error:
            from .launch_errors import in_its_words  # Imported here because it is seldom needed.

            raise in_its_words(error, known, message.env) from error
        if outcome.job is None and outcome.created is not None and isinstance(message, ask.Srun):
            ended = await self.store.job(JobId(outcome.created.job_id))
            if ended is not None:
                return ended
        job = known_job(outcome)
        for note in outcome.notes:
            await progress(note)
        self.leases.holds(job.id)
        return job

    async def begun(
        self,
        message: ask.Srun | ask.Salloc,
        job: Job,
        progress: Progress,
        *,
        immediate_s: float | None,
    ) -> Job:
        """Wait until the allocation runs and return its job. Raises UserError.

        If the client stops waiting, or --immediate runs out, the allocation is released.
        """
        try:
            if not _runs(self.state, job):
                async with asyncio.timeout(immediate_s):
                    job = await self._wait(message, job, progress)
        except TimeoutError:
            self.leases.lets_go(job.id)
            from .launch_errors import too_late  # Imported here because it is seldom needed.

            raise too_late(message.env) from None
        except BaseException:
            self.leases.lets_go(job.id)
            raise
        return self.state.jobs[job.id]

    async def _wait(self, message: ask.Srun | ask.Salloc, job: Job, progress: Progress) -> Job:
        state, waited = self.state, False
        is_pending = state.jobs[job.id].state is JobState.PENDING
        if is_pending and state.planned.pending_reasons.get(job.id):
            waited = True
            if isinstance(message, ask.Salloc):
                await progress(f"Pending job allocation {job.id}")
            await progress(f"job {job.id} queued and waiting for resources")
        job = await self.waits.until(job, lambda now: now.is_finished or _runs(state, now), progress)
        if job.is_finished:
            why = f": {job.exit.message}" if job.exit is not None and job.exit.message else ""
            raise UserError(f"job {job.id} ended before it could be used ({job.state}){why}", "")
        if waited:
            await progress(f"job {job.id} has been allocated resources")
        return job

    @contextlib.contextmanager
    def judged(
        self,
        message: ask.Srun | ask.Salloc,
        line: LaunchLine,
        source: OptionSource,
        *,
        known: OptionTable,
    ) -> Iterator[Callable[[UserError | None], None]]:
        """Context in which a request that we refuse fails with the real command's error.

        Our own error is kept if the real command would accept the request. The context's value is a function
        that makes the same check without an error of our own. It is called if an option's value was ignored.
        """

        def judge(ours: UserError | None) -> None:
            from . import launch_errors  # Imported here because it is seldom needed.

            plugins = self.config().submission.plugin_options
            launch_errors.check(line, source, with_plugins(known, plugins), ours=ours)

        try:
            yield judge
        except UserError as error:
            if error.code not in (VERBATIM, ANSWERED, FILE):
                judge(error)
            if error.code == "dependency":  # Slurm's controller parses this option.
                from .launch_errors import in_its_words  # Imported here because it is seldom needed.

                raise in_its_words(error, known, message.env) from error
            raise

    async def allocate(self, caller: Caller, message: ask.Salloc, progress: Progress) -> HeldAllocation:
        """Make an allocation for salloc. Raises UserError."""
        source = launch_source(caller, message, now=self.clock())
        line = read_salloc(message.words, source, plugins=self.config().submission.plugin_options)
        with self.judged(message, line, source, known=SALLOC_22_05) as judge:
            asked = salloc_options(line)
            wish = self._wish(asked, message)
            if wish.notes:
                judge(None)
        made = await self.make(caller, message, progress, wish=wish, known=SALLOC_22_05)
        waiting = unless_quiet(progress, quiet=asked.quiet)
        job = await self.begun(message, made, waiting, immediate_s=wish.immediate_s)
        if not asked.has_shell:
            self.leases.released(job.id)
        return self._held(caller, job, self._answer(asked, job), is_held=asked.has_shell)

    def attach(self, caller: Caller, message: ask.SallocAttach) -> HeldAllocation:
        """Return the allocation to which salloc reconnects. Raises UserError."""
        job = self.state.jobs.get(JobId(message.job))
        if job is None or not may_access(caller.who, job) or job.request.holder != "salloc":
            raise UserError(
                f"allocation {message.job} no longer exists", "see `warpdeck queue`", code=NOT_YOURS
            )
        self.leases.holds(job.id)
        return self._held(caller, job, {})

    def _held(
        self, caller: Caller, job: Job, answer: dict[str, Any], *, is_held: bool = True
    ) -> HeldAllocation:
        async def revoked() -> str:
            ended = await self.waits.until(job, lambda now: now.is_finished)
            self.leases.released(ended.id)
            return _revoked(ended)

        async def release(code: int) -> None:
            await self.apply(HolderLeft(principal=caller.who, job_id=job.id, code=code))

        return HeldAllocation(answer, revoked, release, partial(self.leases.lets_go, job.id), is_held)

    def _wish(self, asked: SallocOptions, message: ask.Salloc) -> Wish:
        wish = wish_of(
            asked.options,
            message.env,
            holder="salloc" if asked.has_shell else "nobody",
            name="interactive",
            cwd=message.cwd,
        )
        others = [
            wish_of(options, {}, holder="hetjob", name="interactive", cwd=message.cwd)
            for options in asked.others
        ]
        components = tuple(each.request for each in others)
        return wish._replace(immediate_s=asked.immediate_s, components=components)

    def _answer(self, asked: SallocOptions, job: Job) -> dict[str, Any]:
        members = self.state.array_members(job.id)
        names = [name for each in members if each.allocation for name in each.allocation.node_names()]
        variables = made_environment(job, 0, submit_host="") | address_variables(names, self.state.nodes)
        if job.component is not None:
            variables |= component_variables(members)
        return {
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


def _runs(state: State, job: Job) -> bool:
    """Return whether the job runs with all of its components."""
    return all(each.state is JobState.RUNNING or each.is_finished for each in state.array_members(job.id))


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
