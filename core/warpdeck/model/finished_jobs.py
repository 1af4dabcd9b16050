"""Finished jobs: their search records, queries for them, and their accumulated cost."""

from __future__ import annotations

from typing import Annotated

import msgspec

MAX_PAGE_JOBS = 500
"""Maximum number of jobs in one response. The size of a frame is limited, and no user reads more jobs at
once.
"""
MAX_CLAUSES = 32
"""Maximum number of conditions in one query. A query is a line of text that a user types."""
FINISHED_ORDERS = (
    *("end", "job", "state", "name", "user", "account", "partition", "qos"),
    *("nodes", "cpus", "gpus", "mem", "time", "submit", "where"),
)
"""Keys by which finished jobs can be sorted: the columns of a job list, and the end time."""

Text = Annotated[str, msgspec.Meta(max_length=256)]


class Clause(msgspec.Struct, frozen=True, kw_only=True):
    """One condition on a job. `notation.jobfilter` defines the syntax.

    `sign` is "has", "is", or a comparison of numbers such as ">=".
    """

    field: Text
    sign: Annotated[str, msgspec.Meta(pattern=r"\A(has|is|>=|<=|>|<|=)\Z")]
    value: Text
    absent: bool = False
    """True if the condition must not hold."""


class FinishedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query for a page of finished jobs.

    Every clause must hold. Only jobs that ended by `until` are considered, so that pages do not shift while
    jobs end. The page begins `offset` jobs after the job `beside`, or at the beginning. If `backwards` is
    true, the offset counts from `beside`, or from the end, towards the beginning. In both cases the jobs of
    the page are in the requested order.
    """

    user: Text | None = None
    clauses: Annotated[tuple[Clause, ...], msgspec.Meta(max_length=MAX_CLAUSES)] = ()
    order: Text = "end"
    descending: bool = True
    until: float | None = None
    beside: int | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    backwards: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE_JOBS)] = MAX_PAGE_JOBS


class EndedJob(msgspec.Struct, frozen=True, kw_only=True):
    """Search record of a finished job. The field names are those of `JobRow`."""

    id: int
    label: str
    array_job_id: int
    name: str
    user: str
    account: str
    partition: str
    qos: str
    state: str
    state_short: str
    reason: str
    """Text about the end of the job, for example "signal 9 (oom)". It does not name the node."""
    node_list: str
    nodes: int
    cpus: int
    gpus: int
    mem_bytes: int
    submit: float
    end: float
    ran_s: float
    gpu_util_pct: float | None = None
    gpu_idle_pct: float | None = None
    sweep: str = ""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of a group of finished jobs.

    All hours except `cpu_hours` are GPU-hours. `allocated` counts the hours held, and `measured` the part of
    them with a measured utilization. `used` is the measured hours multiplied by the mean utilization.
    `wasted` is the measured hours multiplied by the share of the time with less than 5 % utilization.
    """

    jobs: int = 0
    failed: int = 0
    cpu_hours: float = 0.0
    allocated: float = 0.0
    measured: float = 0.0
    used: float = 0.0
    wasted: float = 0.0

    def plus(self, other: Cost) -> Cost:
        """Return the sum of both costs."""
        return Cost(
            jobs=self.jobs + other.jobs,
            failed=self.failed + other.failed,
            cpu_hours=self.cpu_hours + other.cpu_hours,
            allocated=self.allocated + other.allocated,
            measured=self.measured + other.measured,
            used=self.used + other.used,
            wasted=self.wasted + other.wasted,
        )


class GroupCost(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of the finished jobs that share all of these attributes."""

    user: str
    account: str
    partition: str
    state: str
    reason: str
    cost: Cost


def end_text(*, state: str, exit_code: str, cause: str) -> str:
    """Return a text about the end of a job, for example "exit 0", "signal 9 (oom)" or "canceled".

    `exit_code` is "code:signal", or "" if the job never ran. A job that was canceled before it ran has 0:0 over Slurm.
    """
    if cause == "cancelled" and exit_code in ("", "0:0"):
        return "canceled"
    code, _, signal = exit_code.partition(":")
    text = f"signal {signal}" if signal not in ("", "0") else f"exit {code}" if code else state.lower()
    return f"{text} ({cause})" if cause else text


NOT_FAILED = ("COMPLETED", "CANCELLED")
"""Final states that do not count as failures."""
HOUR_S = 3600.0


def cost_of(
    *,
    state: str,
    ran_s: float,
    cpus: int,
    gpus: int,
    util_pct: float | None,
    idle_pct: float | None,
) -> Cost:
    """Return the cost of one job. GPU-hours that were not measured count neither as used nor as wasted."""
    hours = ran_s / HOUR_S
    allocated = hours * gpus
    return Cost(
        jobs=1,
        failed=int(state not in NOT_FAILED),
        cpu_hours=hours * cpus,
        allocated=allocated,
        measured=0.0 if util_pct is None else allocated,
        used=allocated * (util_pct or 0.0) / 100,
        wasted=0.0 if util_pct is None else allocated * (idle_pct or 0.0) / 100,
    )
