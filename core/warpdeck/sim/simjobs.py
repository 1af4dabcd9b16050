"""Convert a log's jobs for the planner: sizes that fit the machine, time limits by a rule, users, accounts.

The rules for limits: `log` takes the limit of the log. If it is missing, the run time is taken, which is the
best value that a user could give, and the report counts these jobs. `exact` takes the run time for all jobs.
`menu` imitates a choice from a menu: the run time multiplied by a factor of 1 to 5, which is a checksum of
the job's id, and rounded up to the next of a few common limits.
"""

from __future__ import annotations

import math
import zlib

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import JobId
from warpdeck.policy import PendingJob

from .resource_model import Machine
from .trace import Trace, TraceJob

MENU_S = (600, 1800, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 48 * 3600, 7 * 86_400, 30 * 86_400, 365 * 86_400)


class SimJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a replay: the planner's view of it, and its real run time, which the planner must not know."""

    pending: PendingJob
    run_s: float
    units: int = 1
    """Size of the job in units of the machine, for the utilization."""
    real_wait_s: float | None = None
    """The wait of the job in reality, if known."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs in order of submission with ascending ids, and counts of jobs that were left out or completed."""

    jobs: tuple[SimJob, ...]
    refused: int = 0
    """Jobs larger than the machine."""
    skipped: int = 0
    """Jobs with too little information."""
    without_limit: int = 0
    """Jobs without a limit in the log. Their run time is used as the limit."""


def make_workload(trace: Trace, machine: Machine, *, limits: str) -> Workload:
    """Return the log's jobs for this machine. Raises UserError if none fits."""
    first_s = trace.jobs[0].submit_s
    jobs: list[SimJob] = []
    without_limit = refused = 0
    for job in trace.jobs:
        sized = machine.request_of(job)
        if sized is None:
            refused += 1
            continue
        without_limit += limits == "log" and job.limit_s is None
        job_id = JobId(len(jobs) + 1)
        submit_s = job.submit_s - first_s
        pending = PendingJob(
            id=job_id,
            array_job_id=job_id,
            label=job.job_id,
            user=job.user,
            account=job.account,
            resources=sized.resources,
            submit_at_unix=submit_s,
            eligible_at_unix=submit_s,
            time_limit_s=limit_of(job, rule=limits),
        )
        jobs.append(SimJob(pending=pending, run_s=job.run_s, units=sized.units))
    if not jobs:
        raise UserError("all jobs of the log are larger than the cluster", "use more nodes or CPUs")
    return Workload(jobs=tuple(jobs), refused=refused, skipped=trace.skipped, without_limit=without_limit)


def limit_of(job: TraceJob, *, rule: str) -> int:
    """Return the job's time limit in whole seconds, at least one."""
    if rule == "menu":
        return _menu(job)
    limit_s = job.run_s if rule == "exact" or job.limit_s is None else job.limit_s
    return max(1, math.ceil(limit_s))


def _menu(job: TraceJob) -> int:
    spread = 1 + 4 * (zlib.crc32(job.job_id.encode()) % 10007) / 10007
    limit_s = job.run_s * spread
    return next((limit for limit in MENU_S if limit_s <= limit), MENU_S[-1])
