"""The state of the cluster as a whole: totals over all nodes, and the recent utilization.

They follow each change of a node or job, because there may be thousands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow

POINT_S = 5.0
"""Seconds between two points of the recent utilization. Readings of nodes arrive about as often."""
POINTS = 60
"""Number of points that are kept: the last five minutes."""
DOWN = "down"
DRAINED = ("drained", "draining")


class Totals(NamedTuple):
    """Sums over nodes. The utilization is that of the allocated GPUs with a reading."""

    gpus: int = 0
    held_gpus: int = 0
    measured_gpus: int = 0
    """Number of allocated GPUs that have a reading."""
    util_sum: int = 0
    """Sum of their utilization in percent."""
    cpus: int = 0
    cpus_used: int = 0
    measured_cpus: int = 0
    load_sum: int = 0
    """Sum of the load of the nodes in percent, each times its CPUs."""
    mem_bytes: int = 0
    mem_alloc_bytes: int = 0
    down: int = 0
    drained: int = 0

    @property
    def util_pct(self) -> float | None:
        """The mean utilization of the allocated GPUs, or of all CPUs if the cluster has no GPUs.

        None if nothing is allocated or measured.
        """
        if self.gpus:
            return self.util_sum / self.measured_gpus if self.measured_gpus else None
        return self.load_sum / self.measured_cpus if self.measured_cpus else None

    @property
    def without_readings(self) -> Totals:
        """The totals without the readings, which change every second."""
        return self._replace(measured_gpus=0, util_sum=0, measured_cpus=0, load_sum=0)

    def changed(self, before: NodeRow | None, after: NodeRow | None) -> Totals:
        """Return the totals after the row of a node was replaced. None means that there is no such row."""
        old, new = _of(before), _of(after)
        return Totals(*(total - less + more for total, less, more in zip(self, old, new, strict=True)))


NOTHING = Totals()


def _of(node: NodeRow | None) -> Totals:
    if node is None:
        return NOTHING
    held = [gpu for gpu in node.gpus if gpu.job]
    readings = [gpu.util_pct for gpu in held if gpu.util_pct is not None]
    return Totals(
        gpus=len(node.gpus),
        held_gpus=len(held),
        measured_gpus=len(readings),
        util_sum=sum(readings),
        cpus=node.cpus,
        cpus_used=node.cpus_used,
        measured_cpus=0 if node.cpu_pct is None else node.cpus,
        load_sum=round((node.cpu_pct or 0.0) * node.cpus),
        mem_bytes=node.mem_bytes,
        mem_alloc_bytes=node.mem_alloc_bytes,
        down=int(node.state == DOWN),
        drained=int(node.state in DRAINED),
    )


class Trend:
    """The utilization of the last minutes, one point every POINT_S seconds."""

    def __init__(self) -> None:
        self._points: deque[float | None] = deque(maxlen=POINTS)
        self._at = 0.0

    def note(self, util_pct: float | None, now: float) -> None:
        """Add the present utilization. Without news it stays the same, so missing points repeat the last one."""
        if not self._points:
            self._at = now
            self._points.append(util_pct)
            return
        passed = int((now - self._at) // POINT_S)
        if passed < 0 or passed > POINTS:
            self._points.clear()
            self._at = now
        else:
            self._points.extend([self._points[-1]] * (passed - 1))
            self._at += passed * POINT_S
        if passed:
            self._points.append(util_pct)

    @property
    def points(self) -> Sequence[float | None]:
        """The utilization in percent, the newest last. None is unknown."""
        return tuple(self._points)


class ClusterNow:
    """The present state of the cluster."""

    def __init__(self) -> None:
        self.totals = NOTHING
        self.trend = Trend()
        self.holders: dict[int, JobRow] = {}
        """The running jobs that hold GPUs, by id."""
        self.down: set[str] = set()
        """The names of the nodes that are down."""
        self.drained: set[str] = set()

    def put_node(self, name: str, before: NodeRow | None, after: NodeRow | None) -> None:
        """Note that the row of a node was replaced. None means that there is no such row."""
        self.totals = self.totals.changed(before, after)
        state = after.state if after is not None else ""
        for states, names in (((DOWN,), self.down), (DRAINED, self.drained)):
            if state in states:
                names.add(name)
            else:
                names.discard(name)

    def put_job(self, job: JobRow) -> None:
        """Note the new row of a job."""
        if job.gpus and job.state == "RUNNING":
            self.holders[job.id] = job
        else:
            self.holders.pop(job.id, None)

    def drop_job(self, number: int) -> None:
        """Note that a job no longer exists."""
        self.holders.pop(number, None)

    def keep_jobs(self, numbers: Collection[int]) -> None:
        """Drop all jobs other than these."""
        self.holders = {number: job for number, job in self.holders.items() if number in numbers}
