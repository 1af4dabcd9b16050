"""Statistics of the controller since it started, or since an admin reset them. sdiag shows them.

Monitoring needs counters that never decrease. Those are in `counters`, which a reset does not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpdeck.controller.presenters.loop_counters import LoopCounters
from warpdeck.controller.state.state import State
from warpdeck.model import BY_ITSELF, FINISHED, HOLDS_RESOURCES, JobId, JobState

MAX_GROUPS = 1000
"""Maximum number of request kinds, and of users, that are counted separately. All others are counted together
as "others".
"""
OTHERS = "others"


class DurationStatistics:
    """Count, total, maximum and last value of one kind of duration, in seconds."""

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self.most_s = 0.0
        self.last_s = 0.0

    def add(self, took_s: float) -> None:
        self.count += 1
        self.total_s += took_s
        self.last_s = took_s
        self.most_s = max(self.most_s, took_s)

    def row(self) -> dict[str, float | int]:
        return {
            "count": self.count,
            "total_s": self.total_s,
            "most_s": self.most_s,
            "last_s": self.last_s,
        }


class SchedulerStatistics:
    """Times and counts of passes, jobs and requests."""

    def __init__(self, now: float) -> None:
        self.counters = LoopCounters()
        self.reset(now)

    def reset(self, now: float) -> None:
        """Reset all values except `counters` to 0."""
        self._since = now
        self._passes = DurationStatistics()
        self._last_pass_unix: float | None = None
        self._jobs_considered = 0
        self._last_queue = 0
        self._jobs = dict.fromkeys(("submitted", "started", "completed", "canceled", "failed"), 0)
        self._request_types: dict[str, DurationStatistics] = {}
        self._users: dict[str, DurationStatistics] = {}

    def count_pass(self, now: float, took_s: float, *, waiting: int) -> None:
        """Count a planning pass over `waiting` pending jobs."""
        self.counters.count_pass(took_s)
        self._passes.add(took_s)
        self._last_pass_unix = now
        self._jobs_considered += waiting
        self._last_queue = waiting

    def count_commit(self, state: State, before: Mapping[JobId, JobState | None]) -> None:
        """Count a committed transaction and its changes.

        `before` contains the states that the changed jobs had before the transaction.
        """
        self.counters.commits += 1
        for job_id, was in before.items():
            job = state.jobs.get(job_id)
            if job is None or job.state is was:
                continue
            if was is None and job.id == job.array_job_id:
                self._jobs["submitted"] += job.request.array.count() if job.request.array else 1
            if job.state in HOLDS_RESOURCES and was not in HOLDS_RESOURCES:
                self._jobs["started"] += 1
            if job.state in FINISHED and was not in FINISHED:
                self._jobs[_end(job.state)] += 1

    def count_request(self, request_type: str, user: str, took_s: float) -> None:
        """Count one answered request."""
        for spans, name in ((self._request_types, request_type), (self._users, user)):
            key = name if name in spans or len(spans) < MAX_GROUPS else OTHERS
            spans.setdefault(key, DurationStatistics()).add(took_s)

    def as_dict(self) -> dict[str, Any]:
        """Return all values in the form that clients get."""
        return {
            "since": self._since,
            "jobs": dict(self._jobs),
            "passes": self._passes.row(),
            "last_pass": self._last_pass_unix,
            "looked_at": self._jobs_considered,
            "last_queue": self._last_queue,
            "requests": {
                request_type: span.row() for request_type, span in sorted(self._request_types.items())
            },
            "users": {user: span.row() for user, span in sorted(self._users.items())},
        }


def _end(state: JobState) -> str:
    """Return "completed" if the job ended by itself, "canceled" if it was cancelled, and "failed"
    otherwise.
    """
    if state in BY_ITSELF:
        return "completed"
    return "canceled" if state is JobState.CANCELLED else "failed"
