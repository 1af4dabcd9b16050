"""Jobs of one command over Slurm: `warpdeck run`, and `srun --pty` outside of any allocation.

Both are batch jobs, so that they survive the client, the gateway and slurmctld. A session runs the command on a terminal
that the node keeps.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from warpdeck.engines.shared.job_waits import has_begun
from warpdeck.engines.shared.output_requests import never_started
from warpdeck.engines.shared.session_requests import option_source, run_request, session_request
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.output.output import SlurmOutput, nodes_of
from warpdeck.engines.slurm.own_user import require_own_user
from warpdeck.engines.slurm.submitting.submissions import SlurmSubmissions
from warpdeck.model import Job, JobId
from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.step.srun_line import read_srun
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine import Progress, StartedRun
from warpdeck.ports.engine_streams import ByteSource
from warpdeck.protocol import requests as ask
from warpdeck.protocol.nonces import mark_of
from warpdeck.protocol.results import OpenedJob

from .output_files import make_paths, over_path, pattern_of

_FIRST_LOOK_S, _LAST_LOOK_S, _GROWTH = 0.1, 2.0, 1.3
_COMMAND = """\
trap : HUP INT QUIT TERM USR1 USR2
"$@"
code=$?
: >"$0"
[ "$code" -gt 128 ] || exit "$code"
trap - HUP INT QUIT TERM USR1 USR2
kill -"$((code - 128))" $$
exit "$code"
"""
"""Runs a command, and makes the file $0 at its end. The signals of Slurm reach the command itself, too."""


@dataclass(frozen=True, kw_only=True)
class SlurmSessions:
    """The `EngineSessions` of a gateway. `folder` is its folder on the shared file system."""

    cluster: Cluster
    submissions: SlurmSubmissions
    output: SlurmOutput
    folder: str
    clock: Callable[[], float]

    async def run(self, caller: Caller, message: ask.Run) -> StartedRun:
        require_own_user(caller.who, self.cluster.uid)
        request, notes = run_request(message, now=self.clock())
        paths = await asyncio.to_thread(make_paths, self.folder, caller.who.uid, mark_of(message))
        request = msgspec.structs.replace(request, output=pattern_of(paths.out), error=pattern_of(paths.err))
        command = ["/bin/sh", "-c", _COMMAND, paths.over, *request.argv]
        made = await self.submissions.create(
            caller.who, [request], mark_of(message), start=lambda folder: command
        )
        opened = OpenedJob(job_id=made.job_id, notes=[*notes, *made.notes])
        return StartedRun(opened, partial(self._outputs, JobId(made.job_id)))

    async def open(self, caller: Caller, message: ask.Session) -> OpenedJob:
        require_own_user(caller.who, self.cluster.uid)
        source = source_of(caller, message, now=self.clock())
        request, notes = session_request(caller, message, read_srun(message.words, source))
        paths = await asyncio.to_thread(make_paths, self.folder, caller.who.uid, mark_of(message))
        request = msgspec.structs.replace(request, output=pattern_of(paths.out))
        made = await self.submissions.create(caller.who, [request], mark_of(message))
        return OpenedJob(job_id=made.job_id, notes=[*notes, *made.notes])

    async def _outputs(self, job_id: JobId, progress: Progress) -> tuple[ByteSource, ByteSource]:
        """Wait for the start and return the sources of standard output and of standard error."""
        job = await self.output.waits.until(await self.output.lookup.find(str(job_id)), has_begun, progress)
        if not nodes_of(job):
            raise never_started(job)
        over = partial(self._over, job)
        out = await self.output.source(job, channel="out", follow=True, over=over)
        err = await self.output.source(job, channel="err", follow=True, over=over)
        return out, err

    async def _over(self, job: Job) -> None:
        """Return when the command of a job has ended, which its file shows before Slurm is asked again."""
        path, pause_s = over_path(job.request.output.replace("%%", "%")), _FIRST_LOOK_S
        while not await asyncio.to_thread(_exists, path):
            await asyncio.sleep(pause_s)
            pause_s = min(_LAST_LOOK_S, _GROWTH * pause_s)


def source_of(caller: Caller, message: ask.Srun | ask.Salloc | ask.Session, *, now: float) -> OptionSource:
    """Return the surroundings of the client that its options may refer to. The gateway has the rights of this client."""

    def read_text(name: str) -> str:
        with open(os.path.join(message.cwd, name), encoding="utf-8", errors="surrogateescape") as file:
            return file.read(1 << 20)

    return option_source(caller, message, now=now, read_text=read_text)


def _exists(path: str) -> bool:
    """Return whether a file exists. Opening the folder first makes NFS ask its server."""
    with suppress(OSError):
        os.close(os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    return os.path.exists(path)
