"""Finds the job that an interrupted submission has become, in a queue that is read for this purpose.

A gateway may be killed at any moment, and sbatch may time out although slurmctld accepts the job. Then only the queue
tells the truth: the command of our jobs is the path of the wrapper in the job's folder. A submission that is not in a
queue that was read SETTLE_S after its sbatch had ended was not submitted.
"""

from __future__ import annotations

import asyncio
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


@dataclass(frozen=True, kw_only=True)
class Search:
    """Looks for submissions of one user in the queue."""

    commands: SlurmCommands
    allowance: Allowance
    uid: int
    settle_s: float = SETTLE_S
    monotonic: Callable[[], float] = time.monotonic

    async def find(self, folder: JobFolder) -> JobId | None:
        """Return the job of this folder, or None if it is certain that nothing was submitted.

        No sbatch of the folder runs. Raises UserError if Slurm does not answer now.
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
                return folder.job_id()
            await asyncio.sleep(min(LOOK_S, max(0.0, ended + self.settle_s - self.monotonic())))

    async def _jobs(self) -> dict[str, JobId]:
        """Return the jobs in the queue by their commands. A heterogeneous job has the id of its first component."""
        self.allowance.count(LOOK_RPCS, self.monotonic())
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
