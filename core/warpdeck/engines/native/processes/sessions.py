"""Jobs of one command: `warpdeck run`, and `srun --pty` outside of any allocation.

The client of a run sends its arguments unparsed. Parsing takes the client longer than a short job takes, and the
parser is already loaded here.

A session is a job with a terminal that keeps running without a client. The arguments are srun's, with its
environment and grammar. A step is made instead if the request is impossible for a job with a single process:
several tasks, a container, or srun's prolog and epilog around a task.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.client.blocking_client import STEPS
from warpdeck.client.submission import Draft, draft_command, has_several_tasks
from warpdeck.config import Config
from warpdeck.engines.native.jobs.submissions import NativeSubmissions
from warpdeck.engines.native.outcomes import Apply, known_job
from warpdeck.engines.native.output.node_streams import NodeStreams
from warpdeck.engines.native.output.output import log_of
from warpdeck.engines.shared.job_waits import JobWaits, has_begun
from warpdeck.model import Job, JobId, Request
from warpdeck.notation.options.getopt import split_command
from warpdeck.notation.options.given_options import GivenOption
from warpdeck.notation.request.job_request import build_request
from warpdeck.notation.step.srun_line import read_srun, srun_options
from warpdeck.notation.step.step_options import SrunOptions
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine import Progress, StartedRun
from warpdeck.ports.engine_streams import ByteSource
from warpdeck.ports.ports import Store
from warpdeck.protocol import requests as ask
from warpdeck.protocol.nonces import mark_of
from warpdeck.protocol.results import OpenedJob

from .allocations import launch_source

OF_STEPS = frozenset(
    {"container", "hosts", "immediate", "mpi", "programs", "relative", "task_epilog", "task_prolog"}
)
"""Fields of a step that a job with a single process cannot have."""


@dataclass(frozen=True, kw_only=True)
class NativeSessions:
    """The `EngineSessions` of the controller. `config` returns the configuration in force."""

    store: Store
    apply: Apply
    submissions: NativeSubmissions
    waits: JobWaits
    streams: NodeStreams
    config: Callable[[], Config]
    clock: Callable[[], float]

    async def run(self, caller: Caller, message: ask.Run) -> StartedRun:
        request, notes = self._request(message)
        outcome = await self.apply(await self.submissions.event(caller.who, [request], mark_of(message)))
        assert outcome.created is not None
        job = outcome.job or await self.store.job(JobId(outcome.created.job_id)) or known_job(outcome)
        opened = OpenedJob(job_id=job.id, notes=[*notes, *outcome.created.notes])
        return StartedRun(opened, partial(self._outputs, job))

    async def open(self, caller: Caller, message: ask.Session) -> OpenedJob:
        plugins = self.config().submission.plugin_options
        line = read_srun(message.words, launch_source(caller, message, now=self.clock()), plugins=plugins)
        asked = srun_options(line, message.env, files={})
        if not _is_session(caller, asked):
            raise UserError("the session is a step", "use srun", code=STEPS)
        options = [*asked.job_options, GivenOption("export", "NONE", "srun")]
        fields, notes = build_request(options, message.env)
        if has_several_tasks(fields):
            raise UserError("several tasks are a step", "write: srun", code=STEPS)
        fields |= {
            "argv": asked.ask["argv"],
            "env": asked.ask["env"],
            "pty": {"rows": message.rows, "cols": message.cols},
            "requeue": False,
            "submit_line": shlex.join(["srun", *message.words]),
        }
        fields.setdefault("name", asked.ask["name"])
        draft = Draft(fields, notes, cwd=message.cwd, environ=message.env)
        try:
            request = msgspec.convert(draft.request, Request, strict=False)
        except msgspec.ValidationError as error:
            raise UserError(f"invalid session: {error}", "see `srun --help`") from error
        event = await self.submissions.event(caller.who, [request], mark_of(message))
        made = (await self.apply(event)).created
        assert made is not None
        return OpenedJob(job_id=made.job_id, notes=[*notes, *made.notes])

    async def _outputs(self, job: Job, progress: Progress) -> tuple[ByteSource, ByteSource]:
        """Wait for the start and return the sources of standard output and of standard error."""
        job = await self.waits.until(job, has_begun, progress)
        if not job.shares:
            raise UserError(f"job {job.label()} ended before it started ({job.state})", "see `warpdeck show`")
        out, err = (
            [(share.node, log_of(job, share, channel, offset=0, follow=True)) for share in job.shares]
            for channel in ("out", "err")
        )
        open_all = self.streams.open_all
        return partial(open_all, job, out), partial(open_all, job, err)

    def _request(self, message: ask.Run) -> tuple[Request, list[str]]:
        """Return the request that the arguments describe, and notes for the user. Raises UserError."""
        options, command = split_command(list(message.words))
        if not command:
            raise UserError("no command given", "usage: warpdeck run [OPTIONS] COMMAND...")
        draft = draft_command(command, options, cwd=message.cwd, environ=message.env, now=self.clock())
        if has_several_tasks(draft.request):
            raise UserError("several tasks are a step", "write: warpdeck srun", code=STEPS)
        try:
            return msgspec.convert(draft.request, Request, strict=False), draft.notes
        except msgspec.ValidationError as error:
            raise UserError(f"invalid job: {error}", "see `warpdeck run --help`") from error


def _is_session(caller: Caller, asked: SrunOptions) -> bool:
    if asked.answer or asked.needed_file or asked.job or caller.process is not None:
        return False
    return bool(asked.ask.get("pty")) and not asked.ask.keys() & OF_STEPS
