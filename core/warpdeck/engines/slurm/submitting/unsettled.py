"""Finds the job that an interrupted submission has become, in a queue that is read for this purpose.

A gateway may be killed at any moment, and sbatch may time out although slurmctld accepts the job. Then only the queue
tells the truth: the command of our jobs is the path of the wrapper in the job's folder. A submission that is not in a
queue that was read SETTLE_S after its sbatch had ended was not submitted.

Two kinds of jobs may have left the queue before the gateway came back. A job that has started has claimed its folder. A job
that was canceled before its start is found in the accounting, if the site has one.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from warpdeck.base.errors import UNCERTAIN, UserError
from warpdeck.engines.slurm.cluster.polling import Allowance
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.reading.marked_table import Column, MalformedTable
from warpdeck.model import JobId

from .job_folder import JobFolder

log = logging.getLogger("warpdeck.slurm")
SETTLE_S = 10.0
"""Seconds for which slurmctld may still work on a request of an sbatch that has ended. It is the default of
MessageTimeout in slurm.conf."""
LOOK_S = 2.0
LOOK_RPCS = 2
COLUMNS = (
    Column("id", "JobID", 12),
    Column("label", "JobArrayID", 40),
    Column("array_job_id", "ArrayJobID", 12),
    Column("command", "Command", 160),
)

LINES = (Column("id", "JobID", 0), Column("line", "SubmitLine", 0))
EARLIER_S = 600.0
"""Seconds before the request from which on the accounting is searched. The clocks of the machines may differ."""
_NUMBER = re.compile(r"\d{1,10}")


@dataclass(frozen=True, kw_only=True)
class Search:
    """Looks for submissions of one user in the queue."""

    commands: SlurmCommands
    allowance: Allowance
    uid: int
    has_lines: Callable[[], bool] = lambda: False
    """Returns whether the accounting has the command lines of submissions."""
    settle_s: float = SETTLE_S
    monotonic: Callable[[], float] = time.monotonic

    async def find(self, folder: JobFolder, *, since_unix: float) -> JobId | None:
        """Return the job of this folder, or None if it is certain that nothing was submitted.

        No sbatch of the folder runs, and none ran before `since_unix`. Raises UserError if Slurm does not answer now.
        """
        ended = self.monotonic()
        while True:
            begun = self.monotonic()
            if (found := folder.job_id()) is not None:
                return found
            try:
                jobs = await self._jobs()
            except (UserError, MalformedTable) as error:
                raise UserError(
                    f"it is not known yet whether the job was submitted: {error}",
                    "warpdeck finds out when Slurm answers. To repeat the request is safe.",
                    code=UNCERTAIN,
                ) from error
            if folder.run in jobs:
                return jobs[folder.run]
            if begun >= ended + self.settle_s:
                return folder.job_id() or await self._recorded(folder, since_unix)
            await asyncio.sleep(min(LOOK_S, max(0.0, ended + self.settle_s - self.monotonic())))

    async def _recorded(self, folder: JobFolder, since_unix: float) -> JobId | None:
        """Return the job of this folder that the accounting has, if it answers."""
        if not self.has_lines():
            return None
        start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since_unix - EARLIER_S))
        argv = ("--allocations", f"--user={self.uid}", f"--starttime={start}")
        try:
            records = await self.commands.accounting(argv, LINES)
        except (UserError, MalformedTable) as error:
            log.warning("the accounting does not tell whether %s was submitted: %s", folder.path, error)
            return None
        numbers = [
            int(match[0])
            for record in records
            if record["line"].endswith(f" {folder.run}") and (match := _NUMBER.match(record["id"]))
        ]
        return JobId(min(numbers)) if numbers else None

    async def _jobs(self) -> dict[str, JobId]:
        """Return the jobs in the queue by their commands. A heterogeneous job has the id of its first component."""
        self.allowance.count_action(LOOK_RPCS, self.monotonic())
        argv = ("squeue", "--noheader", "--all", "--states=all", f"--user={self.uid}")
        found: dict[str, JobId] = {}
        async with aclosing(self.commands.table(argv, COLUMNS)) as table:
            async for records in table:
                for fields in records:
                    leader, plus, _ = fields["label"].partition("+")
                    number = leader if plus else fields["array_job_id"] or fields["id"]
                    if number.isdecimal():
                        found[fields["command"]] = JobId(int(number))
        return found
