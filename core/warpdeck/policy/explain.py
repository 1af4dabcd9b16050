"""What a pass has to say about the jobs that wait: reason, words, who is ahead, and when. Pure.

The expected start of the first jobs is worked out by giving each in turn the earliest interval that the known future
still allows: an honest late estimate, exact for those with a reservation. Jobs further back share the words of their kind.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpdeck.model import JobId, Why
from warpdeck.notation.times import roughly

from .cluster import Mask
from .field import Field, known
from .passing import Obstacle, Pass
from .placement import Shape
from .view import PendingJob
from .why import INSTANT_S, describe_need, lacks

FORECAST_CELLS = 250_000
"""Rows x steps that the forecasts of one pass may look at: bounds its time on large clusters."""


def explain(
    current: Pass, ordered: Sequence[PendingJob], *, forecasts: int | None = None
) -> dict[JobId, Why]:
    """A Why for every job that was offered to the pass and did not wholly start.

    `forecasts`: for how many the expected start is worked out; None is as many as a pass can afford.
    """
    return _Explainer(current, forecasts).run(ordered)


class _Explainer:
    def __init__(self, current: Pass, forecasts: int | None) -> None:
        self._pass = current
        self._missing: dict[int, tuple[str, str]] = {}
        self._words: dict[tuple[Obstacle, JobId | None], tuple[str, str]] = {}
        self._first: dict[str, PendingJob] = {}
        cells = current.fields[""].timeline.times.size
        affordable = min(current.settings.max_forecasts, FORECAST_CELLS // max(1, cells))
        self._forecasts_left = affordable if forecasts is None else forecasts
        self._shared: dict[tuple[Obstacle, str], Why] = {}

    def run(self, ordered: Sequence[PendingJob]) -> dict[JobId, Why]:
        blocked, promised, shared = self._pass.blocked, self._pass.promised, self._shared
        whys: dict[JobId, Why] = {}
        for job in ordered:
            obstacle = blocked.get(job.id)
            if obstacle is None:
                if job.id in self._pass.partly:
                    code, sentence = self._pass.partly[job.id]
                    whys[job.id] = Why(code=code, sentence=sentence)
                continue
            why = shared.get((obstacle, job.partition)) if job.id not in promised else None
            if why is None:
                why = self._why(job, obstacle)
                if obstacle.shape is not None:
                    self._first.setdefault(job.partition, job)
            whys[job.id] = why
        return whys

    def _why(self, job: PendingJob, obstacle: Obstacle) -> Why:
        if obstacle.sentence:
            return self._share(job, obstacle, obstacle.code, obstacle.sentence)
        ahead = self._first.get(job.partition)
        if obstacle.shape is None or obstacle.field is None:
            first = f"job {ahead.name} of {ahead.user}" if ahead is not None else "a job"
            sentence = f"waits its turn: {first} is ahead, and jobs start in strict order"
            return self._share(job, obstacle, "Priority", sentence)
        code, sentence = self._in_words(obstacle, obstacle.field, obstacle.shape, ahead)
        at_unix = self._pass.promised.get(job.id)
        if at_unix is None:
            if self._forecasts_left <= 0:
                return self._share(job, obstacle, code, sentence)
            self._forecasts_left -= 1
            at_unix = self._forecast(obstacle, obstacle.field, obstacle.shape)
        leaving = [str(each.job_id) for each in self._pass.preempts if each.for_job_id == job.id]
        if leaving:
            sentence = f"makes room: job {', '.join(leaving[:3])} was told to leave for it"
        if at_unix is None or not known(at_unix, self._pass.now):
            return Why(code=code, sentence=sentence)
        return Why(code=code, sentence=sentence, expected_start_unix=at_unix)

    def _share(self, job: PendingJob, obstacle: Obstacle, code: str, sentence: str) -> Why:
        """An answer for all that meet the same obstacle."""
        found = self._shared[obstacle, job.partition] = Why(code=code, sentence=sentence)
        return found

    def _forecast(self, obstacle: Obstacle, field: Field, shape: Shape) -> float | None:
        later = field.find_later(shape, obstacle.duration_s)
        if later is None:
            return None
        field.reserve(later[1], later[0], obstacle.duration_s)
        return later[0]

    def _in_words(
        self, obstacle: Obstacle, field: Field, shape: Shape, ahead: PendingJob | None
    ) -> tuple[str, str]:
        key = (obstacle, None if ahead is None else ahead.id)
        found = self._words.get(key)
        if found is None:
            found = self._words[key] = self._find_words(obstacle, field, shape, ahead)
        return found

    def _find_words(
        self, obstacle: Obstacle, field: Field, shape: Shape, ahead: PendingJob | None
    ) -> tuple[str, str]:
        code, sentence = self._shortage(field, shape)
        if code != "Priority":
            return code, sentence
        window = self._closing(field, shape, obstacle.duration_s)
        if window:
            return "ReqNodeNotAvail", window
        if ahead is None:
            return "Resources", "fits now, but not for as long as it asks for"
        return code, f"would fit now, but would delay job {ahead.name} of {ahead.user}, which is ahead"

    def _shortage(self, field: Field, shape: Shape) -> tuple[str, str]:
        """(reason code, what is missing) for this kind of request."""
        found = self._missing.get(id(shape))
        if found is None:
            found = self._missing[id(shape)] = self._look(field, shape)
        return found

    def _look(self, field: Field, shape: Shape) -> tuple[str, str]:
        if not shape.gangs:
            return "BadConstraints", f"cannot be laid out: {describe_need(shape.asked)}"
        if field.find_now(shape, INSTANT_S) is not None:
            return "Priority", ""
        wanted = f"waits for {describe_need(shape.asked)}"
        takes = shape.usable() & field.cluster.takes_jobs
        holder = self._holder(field, takes)
        if holder:
            return "ReqNodeNotAvail", f"{wanted}: {holder}"
        missing = f"{wanted}: {lacks(field.timeline, shape)}"
        return ("Resources" if takes.any() else "ReqNodeNotAvail"), missing

    def _holder(self, field: Field, takes: Mask) -> str:
        """Words for the site reservations that have all of these nodes now, "" if some node is in none."""
        now = self._pass.now
        active = [each for each in self._pass.view.reservations if each.start_unix <= now < each.end_unix]
        if not active or field is not self._pass.fields[""]:
            return ""
        names = {field.cluster.nodes[row].name for row in np.flatnonzero(takes)}
        inside = [each for each in active if names & each.nodes]
        if not inside or names - set().union(*(each.nodes for each in inside)):
            return ""
        first = min(inside, key=lambda each: (each.end_unix, each.name))
        what = "maintenance" if first.maintenance else "the reservation"
        ends = f" for {roughly(first.end_unix - now)} more" if known(first.end_unix, now) else ""
        return f"{what} {first.name} has {'its nodes' if len(inside) == 1 else 'some of its nodes'}{ends}"

    def _closing(self, field: Field, shape: Shape, duration_s: float) -> str:
        """Words for a site reservation that begins before the job could end, "" if none is in the way."""
        if not self._pass.view.reservations:
            return ""
        spot = field.find_now(shape, INSTANT_S)
        names = set(field.names(spot)) if spot else set()
        now = self._pass.now
        for each in self._pass.view.reservations:
            if now < each.start_unix < now + duration_s and names & each.nodes:
                what = "maintenance" if each.maintenance else "the reservation"
                left = roughly(each.start_unix - now)
                return (
                    f"would fit now, but {what} {each.name} begins in {left}; a --time below that starts it"
                )
        return ""
