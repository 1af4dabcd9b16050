"""The utilization of each GPU during the last minutes, for the sparklines of the map."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpdeck.protocol.job_rows import CurveRow
from warpdeck.protocol.node_rows import NodeRow

STEP_S = 10.0
"""Seconds per point. So a sparkline changes only once in ten seconds, however often the readings change."""
POINTS = 60
Points = tuple[float | None, ...]
GpuKey = tuple[str, int]


class GpuHistory:
    """Points of the last ten minutes for each GPU, the newest last. A point is the last reading of its interval."""

    def __init__(self) -> None:
        self._points: dict[GpuKey, Points] = {}
        self._step = -1
        """Number of the interval that the newest points belong to."""

    def points(self, node: str, gpu: int) -> Points:
        return self._points.get((node, gpu), ())

    def note(self, nodes: Iterable[NodeRow], now: float) -> None:
        """Add the present readings, unless this interval has a point already."""
        step = int(now // STEP_S)
        missed = step - self._step if self._step >= 0 else 1
        if missed <= 0:
            return
        gap: Points = (None,) * min(POINTS, missed - 1)
        self._step = step
        self._points = {
            (node.name, gpu.index): (
                *self._points.get((node.name, gpu.index), ()),
                *gap,
                None if gpu.util_pct is None else float(gpu.util_pct),
            )[-POINTS:]
            for node in nodes
            for gpu in node.gpus
        }

    def fill(self, node: str, curves: Sequence[CurveRow]) -> None:
        """Put the stored measurements of a node before the points that were noted by this app."""
        for curve in curves:
            if curve.gpu is None:
                continue
            stored = _resampled(curve.columns.get("gpu_util_pct", ()), curve.step_s)
            if stored:
                self._points[node, curve.gpu] = stored[-POINTS:]


def _resampled(points: Sequence[float | None], step_s: float) -> Points:
    """Return the last points as means over STEP_S seconds."""
    each = max(1, round(STEP_S / step_s))
    last = points[-POINTS * each :]
    found: list[float | None] = []
    for first in range(len(last) % each, len(last), each):
        known = [point for point in last[first : first + each] if point is not None]
        found.append(sum(known) / len(known) if known else None)
    return tuple(found)
