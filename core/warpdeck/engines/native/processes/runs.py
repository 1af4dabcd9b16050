"""`warpdeck run`: makes a job of its command and streams the output of all nodes back.

The client sends its arguments unparsed. Parsing takes the client longer than a short job takes, and the
parser is already loaded here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.client.blocking_client import STEPS
from warpdeck.client.submission import draft_command, has_several_tasks
from warpdeck.engines.native.jobs.job_waits import JobWaits, has_begun
from warpdeck.engines.native.jobs.submissions import NativeSubmissions
from warpdeck.engines.native.outcomes import Apply, known_job
from warpdeck.engines.native.output.node_streams import NodeStreams
from warpdeck.engines.native.output.output import log_of
from warpdeck.model import Job, JobId, Request
from warpdeck.notation.options.getopt import split_command
from warpdeck.ports.caller import Principal
from warpdeck.ports.engine import Progress
from warpdeck.ports.engine_streams import ByteSource
from warpdeck.ports.ports import Store
from warpdeck.protocol import requests as ask
from warpdeck.protocol.nonces import mark_of
from warpdeck.protocol.results import OpenedJob


class StartedRun:
    """The job of a command. `opened` is the answer to its client."""

    def __init__(self, job: Job, opened: OpenedJob, waits: JobWaits, streams: NodeStreams) -> None:
        self.opened = opened
        self._job = job
        self._waits = waits
        self._streams = streams

    async def outputs(self, progress: Progress) -> tuple[ByteSource, ByteSource]:
        """Wait for the start and return the sources of standard output and of standard error."""
        job = await self._waits.until(self._job, has_begun, progress)
        if not job.shares:
            raise UserError(f"job {job.label()} ended before it started ({job.state})", "see `warpdeck show`")
        out, err = (
            [(share.node, log_of(job, share, channel, offset=0, follow=True)) for share in job.shares]
            for channel in ("out", "err")
        )
        open_all = self._streams.open_all
        return partial(open_all, job, out), partial(open_all, job, err)


class Runs:
    """Makes jobs of commands."""

    def __init__(
        self,
        store: Store,
        *,
        apply: Apply,
        submissions: NativeSubmissions,
        waits: JobWaits,
        streams: NodeStreams,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._apply = apply
        self._submissions = submissions
        self._waits = waits
        self._streams = streams
        self._clock = clock

    async def run(self, who: Principal, message: ask.Run) -> StartedRun:
        """Submit the job of a command. Raises UserError."""
        request, notes = self._request(message)
        outcome = await self._apply(await self._submissions.event(who, [request], mark_of(message)))
        assert outcome.made is not None
        job = outcome.job or await self._store.job(JobId(outcome.made.job_id)) or known_job(outcome)
        opened = OpenedJob(job_id=job.id, notes=[*notes, *outcome.made.notes])
        return StartedRun(job, opened, self._waits, self._streams)

    def _request(self, message: ask.Run) -> tuple[Request, list[str]]:
        """Return the request that the arguments describe, and notes for the user. Raises UserError."""
        options, command = split_command(list(message.words))
        if not command:
            raise UserError("no command given", "usage: warpdeck run [OPTIONS] COMMAND...")
        draft = draft_command(command, options, cwd=message.cwd, environ=message.env, now=self._clock())
        if has_several_tasks(draft.request):
            raise UserError("several tasks are a step", "write: warpdeck srun", code=STEPS)
        try:
            return msgspec.convert(draft.request, Request, strict=False), draft.notes
        except msgspec.ValidationError as error:
            raise UserError(f"invalid job: {error}", "see `warpdeck run --help`") from error
