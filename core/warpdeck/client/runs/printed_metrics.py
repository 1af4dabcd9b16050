"""Parses the metrics that a training prints.

Examples are `loss=0.41`, `loss: 0.41`, `{"loss": 0.41}`, `loss 0.41` and `3.1 it/s`. With `=` or `:`, any
name is accepted. With a blank, only common names are, because otherwise every sentence with a number would
match. A name that occurs only once makes no curve, but it may be the result of a run. The time of a line is
the timestamp in it (ISO, local time) or is derived from its position in the file, assuming that the output is
distributed evenly from the start to the end of the run. Of a large log, only parts are read.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from typing import NamedTuple

from warpdeck.base.escapes import without_escapes

MAX_NAMES = 60
"""Largest number of names in one log. Programs that print a thousand are not analyzed by eye."""
MAX_POINTS = 2000
"""Largest number of points of one curve, enough for each column of dots on a wide terminal."""
OF_A_STRETCH = 4
MAX_LINE_BYTES = 4096
"""Bytes of a line that are parsed. The rest of a longer line contains no metrics."""
# All repetitions are limited, so that a line of a million digits takes only linear time.
_NUMBER = (
    r"([-+]?(?:\d[\d_]{0,20}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,3})?|\.\d{1,20}|nan|NaN|inf|Infinity))(?![\w:])"
)
_WORDS = (
    "loss|acc|accuracy|ppl|perplexity|lr|learning_rate|reward|score|bleu|f1|auc|mfu|tflops|grad_norm|step|steps|iter"
    "|iteration|global_step|epoch"
)
_NAMED = re.compile(
    r"(?<![\w./-])[\"']?(?:"
    rf"([A-Za-z][\w./-]{{0,40}})[\"']?\s{{0,4}}[=:]\s{{0,8}}[\"']?|((?:[\w.]+[/_])?(?:{_WORDS}))\s{{1,12}}){_NUMBER}",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"(?<![\d,.])(\d[\d,]{0,20}(?:\.\d{0,20})?)\s?(it/s|s/it|samples/s|tokens/s|tok/s|img/s|GB/s)\b"
)
_BAR = re.compile(r"\b(\d{1,15})/\d{1,15} \[")
"""Matches the step in a progress bar of tqdm."""
_STEPS = ("step", "steps", "global_step", "iter", "iteration", "epoch")
"""Names that count the progress, in order of preference."""
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)")
_FIRST = ("loss", "train/loss", "train_loss")
"""Names of the metrics that are shown first."""


class Part(NamedTuple):
    """Bytes of a log, and their offset in the file."""

    at_bytes: int
    data: bytes


class Point(NamedTuple):
    """A printed value, its time in seconds after the start of the run, and its step if the line contains
    one.
    """

    at_s: float
    value: float
    step: float | None = None


Readings = dict[str, tuple[Point, ...]]


def readings(
    parts: Sequence[Part], *, size_bytes: int, begin: float, end: float, least_points: int = 2
) -> Readings:
    """Return the curves of a run from `begin` to `end` (unix times), the most interesting first.

    Names with fewer than `least_points` values are left out. NaN values are kept.
    """
    found: dict[str, list[Point]] = {}
    for part in parts:
        _read(part, found, size_bytes=max(1, size_bytes), begin=begin, end=end)
    curves = {name: thinned(sorted(points)) for name, points in found.items() if len(points) >= least_points}
    return dict(sorted(curves.items(), key=lambda item: _rank(item[0])))


def thinned(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return at most about MAX_POINTS points: the first, last, smallest and largest of each interval.

    All NaN values are kept.
    """
    known = [point for point in points if not math.isnan(point.value)]
    if len(known) <= MAX_POINTS:
        return tuple(points)
    kept = [point for point in points if math.isnan(point.value)]
    size = -(-len(known) * OF_A_STRETCH // MAX_POINTS)
    for at in range(0, len(known), size):
        part = known[at : at + size]
        extremes = (min(part, key=lambda each: each.value), max(part, key=lambda each: each.value))
        kept += dict.fromkeys((part[0], *extremes, part[-1]))
    return tuple(sorted(kept))


def _rank(name: str) -> tuple[int, int, str]:
    lower = name.lower()
    return (_FIRST.index(lower) if lower in _FIRST else len(_FIRST)), int("loss" not in lower), lower


def _read(part: Part, found: dict[str, list[Point]], *, size_bytes: int, begin: float, end: float) -> None:
    data = part.data.replace(b"\r", b"\n")
    at = data.find(b"\n") + 1 if part.at_bytes else 0  # the first line of a part may be incomplete
    for raw in data[at:].split(b"\n"):
        placed = begin + (part.at_bytes + at) / size_bytes * (end - begin)
        at += len(raw) + 1
        line = without_escapes(raw[:MAX_LINE_BYTES]).decode("utf-8", "replace")
        if (pairs := _pairs(line)) is None:
            continue
        numbers, step = pairs
        at_s = (_stamp(line) or placed) - begin
        for name, value in numbers.items():
            if name in found or len(found) < MAX_NAMES:
                found.setdefault(name, []).append(Point(at_s, value, step))


def _pairs(line: str) -> tuple[dict[str, float], float | None] | None:
    """Return (values by name, step) of a line, or None if it contains no metrics."""
    numbers = {(a or b): _float(number) for a, b, number in _NAMED.findall(line)}
    numbers |= {unit: _float(number.replace(",", "")) for number, unit in _RATE.findall(line)}
    by_lower = {name.lower(): name for name in numbers}
    counts = [numbers[by_lower[name]] for name in _STEPS if name in by_lower]
    counts += [float(number) for number in _BAR.findall(line)[:1]]
    for name in _STEPS:
        if name in by_lower:
            numbers.pop(by_lower[name])
    return (numbers, counts[0] if counts else None) if numbers else None


def _float(text: str) -> float:
    value = float(text.replace("_", ""))
    return value if math.isfinite(value) else math.nan


def _stamp(line: str) -> float | None:
    """Return the timestamp in the line as unix time, or None."""
    match = _STAMP.search(line)
    if match is None:
        return None
    try:
        return time.mktime(time.strptime(f"{match[1]} {match[2]}", "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None
