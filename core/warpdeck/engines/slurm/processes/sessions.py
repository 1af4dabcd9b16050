"""Jobs of one command over Slurm: `warpdeck run`, and `srun --pty` outside of any allocation.

Both are batch jobs, so that they survive the client, the gateway and slurmctld. A session runs the command on a terminal
that the node keeps.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import existing_gid, existing_uid
from warpdeck.client.blocking_client import STEPS
from warpdeck.client.submission import Draft, draft_command, has_several_tasks
from warpdeck.engines.shared.job_waits import has_begun
from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.output.output import SlurmOutput, nodes_of
from warpdeck.engines.slurm.submitting.submissions import SlurmSubmissions
from warpdeck.model import Job, JobId, Request
from warpdeck.notation.options.getopt import split_command
from warpdeck.notation.options.given_options import GivenOption, OptionSource
from warpdeck.notation.request.job_request import build_request
from warpdeck.notation.step.srun_line import read_srun, srun_options
from warpdeck.notation.step.step_options import SrunOptions
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine import Progress, StartedRun
from warpdeck.ports.engine_streams import ByteSource
from warpdeck.protocol import requests as ask
from warpdeck.protocol.nonces import mark_of
from warpdeck.protocol.results import OpenedJob

from .output_files import make_paths, over_path, pattern_of
from .own_user import refuse_others

OF_STEPS = frozenset(
    {"container", "hosts", "immediate", "mpi", "programs", "relative", "task_epilog", "task_prolog"}
)
"""Fields of a step that a job with a single process cannot have."""
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
        refuse_others(caller, uid=self.cluster.uid)
        request, notes = self._request(message)
        paths = await asyncio.to_thread(make_paths, self.folder, caller.who.uid, mark_of(message))
        request = msgspec.structs.replace(request, output=pattern_of(paths.out), error=pattern_of(paths.err))
        command = ["/bin/sh", "-c", _COMMAND, paths.over, *request.argv]
        made = await self.submissions.create(
            caller.who, [request], mark_of(message), start=lambda folder: command
        )
        opened = OpenedJob(job_id=made.job_id, notes=[*notes, *made.notes])
        return StartedRun(opened, partial(self._outputs, JobId(made.job_id)))

    async def open(self, caller: Caller, message: ask.Session) -> OpenedJob:
        refuse_others(caller, uid=self.cluster.uid)
        source = source_of(caller, message, now=self.clock())
        asked = srun_options(read_srun(message.words, source), message.env, files={})
        if not _is_session(asked):
            raise UserError("the session is a step", "use srun", code=STEPS)
        options = [*asked.job_options, GivenOption("export", "NONE", "srun")]
        fields, notes = build_request(options, message.env)
        if has_several_tasks(fields):
            raise UserError("several tasks are a step", "write: srun", code=STEPS)
        paths = await asyncio.to_thread(make_paths, self.folder, caller.who.uid, mark_of(message))
        fields |= {
            "argv": asked.ask["argv"],
            "env": asked.ask["env"],
            "pty": {"rows": message.rows, "cols": message.cols},
            "requeue": False,
            "submit_line": shlex.join(["srun", *message.words]),
            "output": pattern_of(paths.out),
        }
        fields.setdefault("name", asked.ask["name"])
        draft = Draft(fields, notes, cwd=message.cwd, environ=message.env)
        try:
            request = msgspec.convert(draft.request, Request, strict=False)
        except msgspec.ValidationError as error:
            raise UserError(f"invalid session: {error}", "see `srun --help`") from error
        made = await self.submissions.create(caller.who, [request], mark_of(message))
        return OpenedJob(job_id=made.job_id, notes=[*notes, *made.notes])

    async def _outputs(self, job_id: JobId, progress: Progress) -> tuple[ByteSource, ByteSource]:
        """Wait for the start and return the sources of standard output and of standard error."""
        job = await self.output.waits.until(await self.output.lookup.find(str(job_id)), has_begun, progress)
        if not nodes_of(job):
            raise UserError(f"job {job.label()} ended before it started ({job.state})", "see `warpdeck show`")
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


def source_of(caller: Caller, message: ask.Srun | ask.Salloc | ask.Session, *, now: float) -> OptionSource:
    """Return the surroundings of the client that its options may refer to. The gateway has the rights of this client."""

    def read_text(name: str) -> str:
        with open(os.path.join(message.cwd, name), encoding="utf-8", errors="surrogateescape") as file:
            return file.read(1 << 20)

    return OptionSource(
        cwd=message.cwd,
        environ=message.env,
        now=now,
        is_root=caller.who.uid == 0,
        user_id=existing_uid,
        group_id=existing_gid,
        read_text=read_text,
    )


def _is_session(asked: SrunOptions) -> bool:
    if asked.answer or asked.needed_file or asked.job:
        return False
    return bool(asked.ask.get("pty")) and not asked.ask.keys() & OF_STEPS


def _exists(path: str) -> bool:
    """Return whether a file exists. Opening the folder first makes NFS ask its server."""
    with suppress(OSError):
        os.close(os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    return os.path.exists(path)
