"""Totals over all nodes of the cluster, and the user's quota."""

from __future__ import annotations

from typing import NamedTuple

from warpdeck.protocol.node_rows import NodeRow

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


class Quota(NamedTuple):
    """The user's GPUs in use, and the limit of GPUs that is nearest to being reached."""

    used: int
    most: int
