"""One run of a program: a job with its parameters and the metrics that it printed, and filters of runs."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from warpdeck.notation.filters.job_filter import holds, parse_filter
from warpdeck.protocol.job_rows import JobRow

from .printed_metrics import Point, Readings

_LOWER = re.compile(r"loss|ppl|perplexity|error|err\b|wer|mae|mse|rmse|fid|bpb", re.IGNORECASE)
"""Names of metrics of which the smallest value is the best."""
_COMPARED = re.compile(r"(!?)([\w./-]+)(>=|<=|>|<)([-+]?[\d.]*(?:e[-+]?\d*)?)", re.IGNORECASE)
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_NO_READINGS: Readings = {}
_JOB_FIELDS = ("gpu", "gpus", "cpu", "cpus", "node", "nodes")


class RunData(NamedTuple):
    """A job with its parameters and metrics. `is_read` is false until its log was read."""

    row: JobRow
    params: Mapping[str, str] = {}
    readings: Readings = _NO_READINGS
    is_read: bool = False

    def last(self, name: str) -> float | None:
        """Return the last value of a metric, or None."""
        values = known(self.readings.get(name, ()))
        return values[-1] if values else None

    def best(self, name: str) -> float | None:
        """Return the best value of a metric, or None."""
        values = known(self.readings.get(name, ()))
        return (min if lower_is_better(name) else max)(values, default=None)


def known(points: Sequence[Point]) -> list[float]:
    """Return the values that are numbers."""
    return [point.value for point in points if not math.isnan(point.value)]


def lower_is_better(name: str) -> bool:
    return _LOWER.search(name) is not None


def metric_names(runs: Sequence[RunData]) -> list[str]:
    """Return the names of the metrics: those of most runs first, curves before single values, in the order of their interest."""
    counts: dict[str, int] = {}
    curves: set[str] = set()
    for run in runs:
        for name, points in run.readings.items():
            counts[name] = counts.get(name, 0) + 1
            if len(points) > 1:
                curves.add(name)
    most = max(counts.values(), default=0)
    return sorted(counts, key=lambda name: (2 * counts[name] < most, name not in curves))


def number(text: str) -> float | None:
    """Return the text as a number, or None."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def figure(value: float) -> str:
    """Return a number in at most eight characters, such as 0.4127, 12.35, 2.9e-04 or 31400."""
    size = abs(value)
    if value == 0:
        return "0"
    if size >= 1e7 or size < 1e-3:
        return f"{value:.1e}"
    return f"{value:.0f}" if size >= 1000 else f"{value:.4g}"


def chosen(runs: Collection[RunData], text: str, *, me: str, now: float) -> list[RunData]:
    """Return the runs that match a filter in the language of the queue.

    Parameters are compared as those of a sweep (lr=0.1), and parameters and metrics by their numbers (loss<0.4).
    """
    numbers, words = [], []
    for word in text.split():
        compared = _COMPARED.fullmatch(word)
        if compared is not None and compared[2].lower() not in _JOB_FIELDS:
            numbers.append(compared)
        else:
            words.append(word)
    matches = holds(parse_filter(" ".join(words), me=me), now=now)
    return [
        run
        for run in runs
        if all(_holds(run, each) for each in numbers)
        and matches(
            msgspec.structs.replace(run.row, sweep=" ".join(f"{k}={v}" for k, v in run.params.items()))
        )
    ]


def _holds(run: RunData, compared: re.Match[str]) -> bool:
    absent, name, sign, digits = compared.groups()
    wanted = number(digits)
    if wanted is None:
        return True  # not typed completely
    value = next((run.last(each) for each in run.readings if each.lower() == name.lower()), None)
    if value is None:
        texts = {each.lower(): text for each, text in run.params.items()}
        value = number(texts.get(name.lower(), ""))
    return value is not None and _OPERATORS[sign](value, wanted) != bool(absent)
