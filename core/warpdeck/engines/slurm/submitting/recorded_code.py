"""Records the code of a job that was submitted before its snapshot was taken.

Such a job has a start time (--begin) at which its code is due at the latest. When the code is recorded, the job may start
at once. If the client that takes the snapshot is killed, the job starts without it, and never stays held.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.cluster.job_changes import JobChanges
from warpdeck.engines.slurm.commands import command_error
from warpdeck.model import Job, Snapshot
from warpdeck.ports.caller import Caller, owner_text, owns
from warpdeck.ports.store import JournalEntry
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results

from .job_folder import JobFolder
from .submissions import SlurmSubmissions
from .wrapper import CODE, code_text

log = logging.getLogger("warpdeck.slurm")


@dataclass(frozen=True)
class RecordedCode:
    """The request `code_recorded` of the gateway's orders."""

    submissions: SlurmSubmissions

    async def record_code(self, caller: Caller, message: ask.CodeRecorded) -> results.Changed:
        """Record a snapshot for jobs that wait for it, and let them start."""
        made = self.submissions
        snapshot = made.trees.uploaded(caller.who.uid, message.snapshot) if message.snapshot else None
        done: list[str] = []
        errors: list[UserError] = []
        refused: list[str] = []
        for reference in dict.fromkeys(message.jobs):
            try:
                job = await made.lookup.find(reference)
                _refuse(caller, job)
                await self._record(job, snapshot, message.note)
                done.append(job.label())
            except UserError as error:
                errors.append(error)
                refused.append(reference)
        if errors and not done:
            raise UserError("; ".join(error.line for error in errors), code=errors[0].code)
        return results.Changed(
            jobs=done,
            errors=[error.line for error in errors],
            refused=refused,
            codes=[error.code for error in errors],
        )

    async def _record(self, job: Job, snapshot: Snapshot | None, note: str) -> None:
        made, cluster = self.submissions, self.submissions.cluster
        run = next((path for path, number in cluster.scripts.items() if number == job.array_job_id), None)
        if run is not None and snapshot is not None:
            folder = JobFolder(run.rpartition("/")[0])
            packed = made.trees.path(cluster.uid, snapshot.tree)
            folder.write(CODE, code_text(snapshot, packed, job.request))
        text = f"code snapshot saved as tree {snapshot.tree[:12]}" if snapshot else ""
        line = "; ".join(filter(None, (text, note))) or "no code to save"
        request = msgspec.structs.replace(job.request, snapshot=snapshot, code_due_unix=None)
        members = cluster.state.array_members(job.array_job_id) or [job]
        await cluster.change(
            JobChanges(
                jobs=[msgspec.structs.replace(each, request=request) for each in members],
                journal=[JournalEntry(at_unix=made.clock(), job_id=job.id, text=line)],
            )
        )
        await self._start(job)

    async def _start(self, job: Job) -> None:
        """Let a job start. If Slurm refuses, it starts at the time at which its code was due."""
        begin, made = job.request.begin_at_unix, self.submissions
        start = "now" if begin is None or begin <= made.clock() else f"uts{math.ceil(begin)}"
        argv = ("scontrol", "update", f"JobId={job.array_job_id}", f"StartTime={start}")
        made.search.allowance.count_action(1, made.search.monotonic())
        try:
            output = await made.sbatch.commands.change(argv)
            if output.code:
                raise command_error("scontrol", output.err)
        except UserError as error:
            log.warning("job %s starts only when its code was due: %s", job.label(), error)
        made.poller.hurry()


def _refuse(caller: Caller, job: Job) -> None:
    if not owns(caller.who, job):
        raise UserError(f"job {job.label()} belongs to {owner_text(caller.who, job)}", code="denied")
    if job.request.code_due_unix is None:
        raise UserError(f"job {job.label()} does not wait for a code snapshot", code="not_recording")
