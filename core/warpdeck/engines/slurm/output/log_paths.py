"""Finds the output files of jobs.

Jobs that were submitted through warpdeck have the pattern of the name in their record. For others, the copy of the queue
has it. squeue tells no file of standard error, cuts long paths, and invents a file for jobs of srun. In these cases
`scontrol show job` is asked.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from typing import NamedTuple

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.controller.launch.launching import output_paths
from warpdeck.engines.slurm.cluster.job_changes import is_ours
from warpdeck.engines.slurm.cluster.polling import Allowance
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.reading.job_table import COLUMNS
from warpdeck.model import Job, JobId

MAX_KNOWN = 1000
"""Maximum number of jobs for which the answer of scontrol is kept."""
_CUT_BYTES = next(column.width_bytes for column in COLUMNS if column.name == "stdout")
_OUT, _ERR = "   StdOut=", "   StdErr="


class LogPaths(NamedTuple):
    """The paths of standard output and of standard error. They are equal if both go to one file."""

    out: str
    err: str

    def of(self, channel: str) -> str:
        """Return the path of a channel (out, err)."""
        return self.out if channel == "out" else self.err


class LogFinder:
    """Finds the output files of this user's jobs."""

    def __init__(self, commands: SlurmCommands, allowance: Allowance) -> None:
        self._commands = commands
        self._allowance = allowance
        self._known: OrderedDict[JobId, LogPaths] = OrderedDict()
        """Job -> its paths as scontrol tells them."""

    async def paths(self, job: Job, *, channel: str = "out") -> LogPaths:
        """Return the paths of a job. They are empty if the job has no output file.

        Raises UserError if Slurm has forgotten a job before anybody asked for its file.
        """
        found = _resolved(job)
        if is_ours(job) or (channel == "out" and await self._is_right(job, found.out)):
            return found
        told = await self._told(job.id)
        if told is None and not found.out:
            raise UserError(
                f"the output file of job {job.label()} is not known, and Slurm does not tell it now",
                f"look into {job.request.chdir or job.request.submit_dir}, the folder of the job",
            )
        if told is None:
            return found
        if not told.out:
            return told  # A job of srun or salloc writes to a terminal, but squeue shows a name all the same.
        request = msgspec.structs.replace(job.request, output=told.out, error=told.err)
        return _resolved(msgspec.structs.replace(job, request=request))

    async def _is_right(self, job: Job, path: str) -> bool:
        """Return whether the name that squeue tells is complete and leads to a file."""
        if not path or len(job.request.output.encode()) >= _CUT_BYTES:
            return False
        return await asyncio.to_thread(os.path.exists, path)

    async def _told(self, job_id: JobId) -> LogPaths | None:
        """Return the paths that slurmctld tells. None: it has forgotten the job or does not answer."""
        if job_id not in self._known:
            self._allowance.count(1, time.monotonic())
            try:
                text = await self._commands.read("scontrol", "show", "job", str(job_id))
            except UserError:
                return None
            self._known[job_id] = LogPaths(_value(text, _OUT), _value(text, _ERR))
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        return self._known[job_id]


def _resolved(job: Job) -> LogPaths:
    request = job.request
    if is_ours(job) and not request.output and not request.script and not request.holder:
        # Slurm runs a command as a batch job, too, and gives it the usual file.
        pattern = "slurm-%A_%a.out" if request.array else "slurm-%j.out"
        job = msgspec.structs.replace(job, request=msgspec.structs.replace(request, output=pattern))
    out, err = output_paths(job)
    return LogPaths(out, err or out)


def _value(text: str, key: str) -> str:
    """Return the value of a line of `scontrol show job`.

    The name or the comment of a job may contain line breaks and imitate the line. The true one comes after them, and a
    user can only mislead himself, because the file is read with his own rights.
    """
    _, found, rest = f"\n{text}".rpartition(f"\n{key}")
    value = rest.partition("\n")[0] if found else ""
    return "" if value == "(null)" else value
