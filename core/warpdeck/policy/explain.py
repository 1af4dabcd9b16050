"""What a pass has to say about the jobs that wait: reason, words, who is ahead, and when. Pure.

The expected start of the first jobs is worked out by giving each in turn the earliest interval that the known future
still allows: an honest late estimate, exact for those with a reservation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpdeck.model import JobId, Why

from .field import Field, known
from .passing import Blocked, Obstacle, Pass
from .placement import Shape
from .view import PendingJob
from .why import describe_need, duration, lacks

INSTANT_S = 0.001
"""A duration that no reservation is in the way of: what fits for this long fits now but for those ahead."""


def explain(current: Pass, ordered: Sequence[PendingJob]) -> dict[JobId, Why]:
    """A Why for every job that was offered to the pass and did not wholly start."""
    return _Explainer(current).run(ordered)


class _Explainer:
    def __init__(self, current: Pass) -> None:
        self._pass = current
        self._missing: dict[int, tuple[str, str]] = {}
        self._first: dict[str, PendingJob] = {}
        self._forecasts = 0
        self._shared: dict[tuple[int, str], Why] = {}

    def run(self, ordered: Sequence[PendingJob]) -> dict[JobId, Why]:
        blocked = {each.job.id: each for each in self._pass.blocked}
        whys: dict[JobId, Why] = {}
        for job in ordered:
            entry = blocked.get(job.id)
            if entry is not None:
                whys[job.id] = self._why(entry)
                if entry.obstacle.shape is not None:
                    self._first.setdefault(job.partition, job)
            elif job.id in self._pass.partly:
                code, sentence = self._pass.partly[job.id]
                whys[job.id] = Why(code=code, sentence=sentence)
        return whys

    def _why(self, entry: Blocked) -> Why:
        obstacle, job = entry.obstacle, entry.job
        if obstacle.sentence:
            return self._plain(obstacle)
        ahead = self._first.get(job.partition)
        if obstacle.shape is None or obstacle.field is None:
            return self._behind(ahead)
        at_unix = entry.at_unix
        if at_unix is None and self._forecasts < self._pass.settings.max_forecasts:
            self._forecasts += 1
            at_unix = self._forecast(obstacle, obstacle.field, obstacle.shape)
        if at_unix is not None and not known(at_unix, self._pass.now):
            at_unix = None
        if at_unix is None and ahead is not None:
            return self._without_time(obstacle, ahead)
        return self._with_time(job, obstacle, ahead, at_unix)

    def _plain(self, obstacle: Obstacle) -> Why:
        key = (id(obstacle), "")
        if key not in self._shared:
            self._shared[key] = Why(code=obstacle.code, sentence=obstacle.sentence)
        return self._shared[key]

    def _behind(self, ahead: PendingJob | None) -> Why:
        first = f"job {ahead.name} of {ahead.user}" if ahead is not None else "a job"
        return Why(
            code="Priority", sentence=f"waits its turn: {first} is ahead, and jobs start in strict order"
        )

    def _without_time(self, obstacle: Obstacle, ahead: PendingJob) -> Why:
        """Far behind: jobs of one kind share the answer."""
        key = (id(obstacle), ahead.name)
        if key not in self._shared:
            code, sentence = self._words(obstacle, ahead)
            self._shared[key] = Why(code=code, sentence=sentence)
        return self._shared[key]

    def _with_time(
        self, job: PendingJob, obstacle: Obstacle, ahead: PendingJob | None, at_unix: float | None
    ) -> Why:
        code, sentence = self._words(obstacle, ahead)
        leaving = [each.job_id for each in self._pass.preempts if each.for_job_id == job.id]
        if leaving:
            named = ", ".join(str(each) for each in leaving[:3])
            sentence = f"makes room: job {named} was told to leave for it"
        if at_unix is not None:
            sentence += f"; expected in {duration(at_unix - self._pass.now)}"
        return Why(code=code, sentence=sentence, expected_start_unix=at_unix)

    def _forecast(self, obstacle: Obstacle, field: Field, shape: Shape) -> float | None:
        later = field.find_later(shape, obstacle.duration_s)
        if later is None:
            return None
        field.reserve(later[1], later[0], obstacle.duration_s)
        return later[0]

    def _words(self, obstacle: Obstacle, ahead: PendingJob | None) -> tuple[str, str]:
        assert obstacle.field is not None and obstacle.shape is not None
        code, sentence = self._shortage(obstacle.field, obstacle.shape)
        if code == "Priority":
            window = self._closing(obstacle.field, obstacle.shape, obstacle.duration_s)
            if window:
                return "ReqNodeNotAvail", window
            if ahead is None:
                return "Resources", "fits now, but not for as long as it asks for"
            return code, f"would fit now, but would delay job {ahead.name} of {ahead.user}, which is ahead"
        return code, sentence

    def _shortage(self, field: Field, shape: Shape) -> tuple[str, str]:
        """(reason code, what is missing) for this kind of request."""
        found = self._missing.get(id(shape))
        if found is None:
            found = self._missing[id(shape)] = self._look(field, shape)
        return found

    def _look(self, field: Field, shape: Shape) -> tuple[str, str]:
        if not shape.gangs:
            return "BadConstraints", f"cannot be laid out: {describe_need(shape.asked)}"
        usable = shape.usable()
        takes_jobs = np.array([not node.unavailable for node in field.cluster.nodes], dtype=np.bool_)
        missing = f"waits for {describe_need(shape.asked)}: {lacks(field.timeline, shape)}"
        if not (usable & takes_jobs).any():
            return "ReqNodeNotAvail", missing
        if field.find_now(shape, INSTANT_S) is not None:
            return "Priority", ""
        return "Resources", missing

    def _closing(self, field: Field, shape: Shape, duration_s: float) -> str:
        """Words for a site reservation that begins before the job could end, "" if none is in the way."""
        spot = field.find_now(shape, INSTANT_S)
        names = set(field.names(spot)) if spot else set()
        for each in self._pass.view.reservations:
            begins_within = self._pass.now < each.start_unix < self._pass.now + duration_s
            if begins_within and names & each.nodes:
                what = "maintenance" if each.maintenance else "the reservation"
                left = each.start_unix - self._pass.now
                return f"would fit now, but {what} {each.name} begins in {duration(left)}; --time below that starts it"
        return ""
