"""Jobs of one command: `warpdeck run`, and `srun --pty` outside of any allocation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from warpdeck.config import Config
from warpdeck.engines.native.jobs.submissions import NativeSubmissions
from warpdeck.engines.native.outcomes import Apply, known_job
from warpdeck.engines.native.output.node_streams import NodeStreams
from warpdeck.engines.native.output.output import log_of
from warpdeck.engines.shared.job_waits import JobWaits, has_begun
from warpdeck.engines.shared.output_requests import never_started
from warpdeck.engines.shared.session_requests import run_request, session_request
from warpdeck.model import Job, JobId
from warpdeck.notation.step.srun_line import read_srun
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine import Progress, StartedRun
from warpdeck.ports.engine_streams import ByteSource
from warpdeck.ports.store import Store
from warpdeck.protocol import requests as ask
from warpdeck.protocol.nonces import mark_of
from warpdeck.protocol.results import OpenedJob

from .allocations import launch_source


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
        request, notes = run_request(message, now=self.clock())
        outcome = await self.apply(await self.submissions.event(caller.who, [request], mark_of(message)))
        assert outcome.created is not None
        job = outcome.job or await self.store.job(JobId(outcome.created.job_id)) or known_job(outcome)
        opened = OpenedJob(job_id=job.id, notes=[*notes, *outcome.created.notes])
        return StartedRun(opened, partial(self._outputs, job))

    async def open(self, caller: Caller, message: ask.Session) -> OpenedJob:
        plugins = self.config().submission.plugin_options
        line = read_srun(message.words, launch_source(caller, message, now=self.clock()), plugins=plugins)
        request, notes = session_request(caller, message, line)
        event = await self.submissions.event(caller.who, [request], mark_of(message))
        made = (await self.apply(event)).created
        assert made is not None
        return OpenedJob(job_id=made.job_id, notes=[*notes, *made.notes])

    async def _outputs(self, job: Job, progress: Progress) -> tuple[ByteSource, ByteSource]:
        """Wait for the start and return the sources of standard output and of standard error."""
        job = await self.waits.until(job, has_begun, progress)
        if not job.shares:
            raise never_started(job)
        out, err = (
            [(share.node, log_of(job, share, channel, offset=0, follow=True)) for share in job.shares]
            for channel in ("out", "err")
        )
        open_all = self.streams.open_all
        return partial(open_all, job, out), partial(open_all, job, err)
