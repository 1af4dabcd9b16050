"""Jobs that have ended: what is kept of each to find it by, what may be asked, and what they have cost."""

from __future__ import annotations

from typing import Annotated

import msgspec

MAX_PAGE_JOBS = 500
"""Jobs of one answer: a frame has a limit, and nobody looks at more at once."""
MAX_CLAUSES = 32
"""Conditions of one question: a line of text that a person types."""
PAST_ORDERS = (
    *("end", "job", "state", "name", "user", "account", "partition", "qos"),
    *("nodes", "cpus", "gpus", "mem", "time", "submit", "where"),
)
"""What ended jobs may be ordered by: the columns of a list of jobs, and the end."""

Text = Annotated[str, msgspec.Meta(max_length=256)]


class Clause(msgspec.Struct, frozen=True, kw_only=True):
    """One condition on a job (notation.jobfilter has the words for it). `sign`: has, is, or a comparison of numbers."""

    field: Text
    sign: Annotated[str, msgspec.Meta(pattern=r"\A(has|is|>=|<=|>|<|=)\Z")]
    value: Text
    absent: bool = False
    """It must not hold."""


class PastQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which ended jobs, in which order; every clause must hold, and they ended by `until`, so that pages do not move.

    The page begins `offset` jobs behind the job `beside`, or at the beginning; `backwards` counts from there, or from the
    end, towards the beginning. It is in the order that was asked for all the same.
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
    """What a store keeps of an ended job to find it by; names are JobRow's."""

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
    """How it ended, without where."""
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
    """Of a group of ended jobs. Hours of GPUs, but for `cpu_hours`: those held; those of them whose use was measured; of
    these the used (times the mean utilisation) and the wasted ones (times the share of the time below 5 %)."""

    jobs: int = 0
    failed: int = 0
    cpu_hours: float = 0.0
    allocated: float = 0.0
    measured: float = 0.0
    used: float = 0.0
    wasted: float = 0.0

    def plus(self, other: Cost) -> Cost:
        """Of both."""
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
    """Of the ended jobs that have all of these in common."""

    user: str
    account: str
    partition: str
    state: str
    reason: str
    cost: Cost


def end_in_words(*, state: str, exit_code: str, cause: str) -> str:
    """How a job ended: "exit 0", "signal 9 (oom)", "cancelled". `exit_code` is "code:signal", or "" where it never ran."""
    code, _, signal = exit_code.partition(":")
    words = f"signal {signal}" if signal not in ("", "0") else f"exit {code}" if code else state.lower()
    return f"{words} ({cause})" if cause else words


NOT_FAILED = ("COMPLETED", "CANCELLED")
"""Ends that nobody calls a failure."""
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
    """Of one job. What was not measured is claimed neither used nor wasted."""
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
