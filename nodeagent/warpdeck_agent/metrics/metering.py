"""The usage of a launch: GPUs, CPU time and memory.

GPU usage comes from each GPU reading. CPU time and memory come from the launch's cgroup, or else from its
processes. All activity of an exclusive GPU counts. Of a shared GPU, the utilization and memory of the job's
own processes count, and its share of the power. A reading is valid until the next one, but no longer than
LONGEST_S. While a driver hangs nothing is known, and nothing is counted. A step has a meter of its own, with
its own GPUs.
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from warpdeck_agent.storage.spool import Folder
from warpdeck_agent.wire.messages import Curve, GpuSample, GpuUsage

from .bounded_record import BoundedRecord, Values, known

IDLE_PCT = 5
"""Utilization in percent below which a GPU counts as idle."""
LONGEST_S = 5.0
KEEP_S = 60.0
"""Interval in seconds at which the meter is saved, for a restarted agent."""
LEAST_POINTS = 3
"""The minimum number of points of a useful curve. A shorter launch has no curve."""
FILE = "usage.json"


class UsageMeter:
    """The meter of one launch or step. `share_pct` is its share of its GPUs."""

    def __init__(self, *, begin_unix: float, share_pct: int = 100) -> None:
        self._share_pct = share_pct
        self._record = BoundedRecord(begin_unix)
        self._last = begin_unix
        self._written = 0.0
        self._gpu: Dict[str, float] = dict.fromkeys(("seconds", "busy_s", "idle_s", "energy_j"), 0.0)
        self._mem_peak_bytes = 0
        self._measured = False
        self.gpus_used_at = time.time()
        """When one of its GPUs was last in use, or its use was unknown, in unix seconds. An agent does not know what happened
        before it started, so that time counts as use.
        """

    def add_reading(self, gpus: Sequence[GpuSample], *, job_id: int, more: Values, now: float) -> None:
        """Add one reading of its GPUs, at `now` in unix seconds. `more` are other values at this time."""
        passed_s = min(max(0.0, now - self._last), LONGEST_S)
        self._last = now
        uses = [use_of(gpu, job_id=job_id, share_pct=self._share_pct) for gpu in gpus]
        values: Values = dict(more)
        if uses:
            self._count(uses, passed_s)
            if any(util is None or util >= IDLE_PCT for util, _, _ in uses):
                self.gpus_used_at = now
            utils = [(util, 1.0 / len(uses)) for util, _, _ in uses]
            whole = all(util is not None for util, _, _ in uses)
            values["gpu_util_pct"] = known(utils) if whole else None
            values["gpu_mem_bytes"] = known([(mem, 1.0) for _, mem, _ in uses])
            values["gpu_power_w"] = known([(power, 1.0) for _, _, power in uses])
        if values:
            self._record.add(values, now)

    def _count(
        self, uses: List[Tuple[Optional[float], Optional[int], Optional[float]]], passed_s: float
    ) -> None:
        total = self._gpu
        for util, _, power in uses:
            if util is not None:
                self._measured = True
                total["seconds"] += passed_s
                total["busy_s"] += passed_s * util / 100.0
                total["idle_s"] += passed_s if util < IDLE_PCT else 0.0
            total["energy_j"] += passed_s * (power or 0.0)
        self._mem_peak_bytes = max(self._mem_peak_bytes, sum(mem or 0 for _, mem, _ in uses))

    def usage(self) -> Optional[GpuUsage]:
        """Return the GPU usage up to now; None if there was no GPU to read."""
        if not self._measured and not self._mem_peak_bytes:
            return None
        return GpuUsage(mem_peak_bytes=self._mem_peak_bytes, **self._gpu)

    def curve(self) -> Optional[Curve]:
        """Return the curve of its life so far, None while that is too short."""
        return self._record.curve() if self._record.size >= LEAST_POINTS else None

    def keep(self, folder: Folder) -> None:
        """Save the meter now and then. On a full disk, only a restarted agent loses the data."""
        now = time.monotonic()
        if now - self._written < KEEP_S:
            return
        if self._written:
            kept = {"gpu": self._gpu, "mem": self._mem_peak_bytes, "record": self._record.kept()}
            with contextlib.suppress(OSError):
                folder.write(FILE, json.dumps({**kept, "measured": self._measured}), durable=False)
        self._written = now

    def restore(self, folder: Folder) -> None:
        """Continue with the data that an earlier agent saved. Damaged data is ignored."""
        try:
            kept: Dict[str, Any] = json.loads(folder.read(FILE) or "null")
            if kept is None:
                return
            record = BoundedRecord.restored(kept["record"])
            gpu = {name: float(kept["gpu"][name]) for name in self._gpu}
            self._mem_peak_bytes, self._measured = int(kept["mem"]), bool(kept["measured"])
            self._gpu, self._record = gpu, record
        except (ValueError, TypeError, KeyError, AttributeError):
            return


def use_of(
    gpu: GpuSample, *, job_id: int, share_pct: int
) -> Tuple[Optional[float], Optional[int], Optional[float]]:
    """Return the job's (utilization, memory, power) in a reading. None is unknown."""
    own = [process for process in gpu.processes if process.job_id == job_id]
    mem = sum(process.mem_bytes for process in own)
    if share_pct >= 100:
        return gpu.util_pct, mem or gpu.mem_used_bytes, gpu.power_w
    rates = [process.util_pct for process in own if process.util_pct is not None]
    util = float(min(100, sum(rates))) if rates else None if own else 0.0
    power = None if gpu.power_w is None else gpu.power_w * share_pct / 100.0
    return (None if gpu.util_pct is None else util), mem, power
