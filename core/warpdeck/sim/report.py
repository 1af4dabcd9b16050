"""The figures of a replay, as they are usual in the literature. Pure functions.

Bounded slowdown is (wait + run time) / max(run time, 10 s), at least 1. It is the factor by which waiting
prolonged the time to the result, without an excessive weight of very short jobs (Feitelson et al. 1997). The
95th percentile is the nearest rank. Utilization is the used part of the machine from the first submission to
the last end.
"""

from __future__ import annotations

import math

import msgspec

from .replay import JobRun, ReplayResult

SLOWDOWN_THRESHOLD_S = 10.0


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of one replay. Waits and slowdowns cover only jobs that ran."""

    jobs: int
    mean_wait_s: float
    p95_wait_s: float
    max_wait_s: float
    mean_bounded_slowdown: float
    utilization: float
    makespan_s: float
    refused: int
    skipped: int
    without_limit: int
    unstarted: int
    preempted: int
    predicted: int
    """Number of jobs with a predicted run time at submission."""
    prediction_error_s: float
    """Mean of |predicted - true| run time over these jobs. `limit_error_s` is the same for their time limits.
    """
    limit_error_s: float
    passes: int
    cpu_s: float
    seed: int = 0
    """Always 0, because nothing in a replay is random. The field exists for comparisons with other
    simulators.
    """


def bounded_slowdown(wait_s: float, run_s: float) -> float:
    """Return the bounded slowdown, at least 1."""
    return max(1.0, (wait_s + run_s) / max(run_s, SLOWDOWN_THRESHOLD_S))


def nearest_rank(sorted_values: list[float], share: float) -> float:
    """Return the smallest value for which at least this share of the values is not larger."""
    return sorted_values[max(0, math.ceil(share * len(sorted_values)) - 1)]


def make_report(
    result: ReplayResult, *, machine_units: int, refused: int = 0, skipped: int = 0, without_limit: int = 0
) -> ReplayReport:
    """Return the figures. Without any runs they are 0."""
    runs = result.runs
    waits = sorted(run.wait_s for run in runs) or [0.0]
    slowdowns = [bounded_slowdown(run.wait_s, run.end_s - run.start_s) for run in runs] or [1.0]
    makespan_s = _makespan(runs)
    used = sum(run.job.units * (run.end_s - run.start_s) for run in runs)
    predictions = result.predictions
    return ReplayReport(
        jobs=len(runs),
        mean_wait_s=sum(waits) / len(waits),
        p95_wait_s=nearest_rank(waits, 0.95),
        max_wait_s=waits[-1],
        mean_bounded_slowdown=sum(slowdowns) / len(slowdowns),
        utilization=used / (machine_units * makespan_s) if makespan_s else 0.0,
        makespan_s=makespan_s,
        refused=refused,
        skipped=skipped,
        without_limit=without_limit,
        unstarted=len(result.unstarted),
        preempted=result.preempted,
        predicted=len(predictions),
        prediction_error_s=sum(abs(one.error_s) for one in predictions) / max(1, len(predictions)),
        limit_error_s=sum(abs(one.limit_error_s) for one in predictions) / max(1, len(predictions)),
        passes=result.passes,
        cpu_s=result.cpu_s,
    )


def _makespan(runs: tuple[JobRun, ...]) -> float:
    if not runs:
        return 0.0
    return max(run.end_s for run in runs) - min(run.job.pending.submit_at_unix for run in runs)
