"""The history of the node and each of its GPUs: rings in memory, with the minutes also stored in a file."""

from __future__ import annotations

import math
from typing import Dict, List, Optional

from warpdeck_agent.gpu.foreign_users import MINUTE_S, ForeignUseHistory
from warpdeck_agent.storage.spool import Folder
from warpdeck_agent.wire.messages import AskMoment, Curve, GpuInfo, GpuSample, Moment, Strangers

from .bounded_record import Interval, Rings, Values
from .minute_history import MinuteHistory

NODE = ""
"""The key of the node's own rings, beside the uuids of its GPUs."""
BACK_S = 600.0
"""If the clock goes back by more than this, in seconds, it was ahead before, and the measurements with those
times are discarded.
"""


class NodeHistory:
    """The history of the node. It is fed with every reading, with unix times."""

    def __init__(self, folder: Folder) -> None:
        self._minutes = MinuteHistory(folder)
        self._minute = -1
        self._latest_unix = 0.0
        self._rings: Dict[str, Rings] = {NODE: Rings()}
        self._uuids: Dict[int, str] = {}
        self._foreign = ForeignUseHistory()

    def set_gpus(self, gpus: List[GpuInfo], now: float) -> None:
        """Set the node's GPUs, and load their history from an earlier agent."""
        self._uuids = {gpu.index: gpu.uuid for gpu in gpus}
        self._recall(now)

    def _recall(self, now: float) -> None:
        """Start anew with the previous day from the file."""
        self._minute, self._latest_unix = -1, now
        self._rings = {key: Rings() for key in (NODE, *self._uuids.values())}
        self._foreign = ForeignUseHistory()
        for minute, values_by_object, foreign in self._minutes.read(now):
            self._foreign.recall(minute, foreign)
            for key, values in values_by_object.items():
                if key in self._rings:
                    self._rings[key].recall(values, minute * MINUTE_S)

    def add_reading(self, own: Values, gpus: List[GpuSample], now: float) -> None:
        """Add the present measurements of the node and of its GPUs."""
        if now < self._latest_unix - BACK_S:
            self._recall(now)
        self._latest_unix = max(now, self._latest_unix)
        self._rings[NODE].add(own, now)
        for gpu in gpus:
            if gpu.index in self._uuids:
                values: Values = {
                    "gpu_util_pct": gpu.util_pct,
                    "gpu_mem_bytes": gpu.mem_used_bytes,
                    "gpu_power_w": gpu.power_w,
                    "gpu_temp_c": gpu.temp_c,
                }
                self._rings[self._uuids[gpu.index]].add(values, now)
                self._foreign.add_reading(self._uuids[gpu.index], gpu, now)
        self._keep(int(now // MINUTE_S))

    def _keep(self, minute: int) -> None:
        """Store the minute that is over. If the clock went back a little, there is none."""
        if 0 <= self._minute < minute:
            span = Interval(self._minute * MINUTE_S, MINUTE_S)
            measured = {key: rings.during(span) for key, rings in self._rings.items()}
            self._minutes.add(self._minute, measured, self._foreign.close(self._minute))
        self._minute = max(minute, self._minute)

    def curves(self, step_s: float) -> List[Curve]:
        """Return the curve of the node, and one for each GPU."""
        return [rings.curve(step_s, uuid) for uuid, rings in self._rings.items()]

    def moment(self, request: AskMoment, *, cpus: int) -> Moment:
        """Return the state of the node and its GPUs at that moment."""
        own = self._rings[NODE]
        since_unix, span = own.since(), own.span(request.at_unix)
        since_unix = since_unix if math.isfinite(since_unix) else 0.0
        if span is None:
            return Moment(ask=request.ask, since_unix=since_unix)
        values = own.during(span)
        load = values.get("cpu_pct")
        return Moment(
            ask=request.ask,
            begin_unix=span.begin_unix,
            step_s=span.step_s,
            since_unix=since_unix,
            cpu_pct=None if load is None else round(load / cpus, 1),
            mem_used_bytes=_whole(values, "mem_bytes"),
            gpus=[_gpu(index, self._rings[uuid].during(span)) for index, uuid in sorted(self._uuids.items())],
            strangers=self._foreign_at(request.at_unix),
        )

    def _foreign_at(self, at_unix: float) -> List[Strangers]:
        found = [(index, self._foreign.at(uuid, at_unix)) for index, uuid in sorted(self._uuids.items())]
        return [seen.to_wire(index) for index, seen in found if seen is not None]


def _gpu(index: int, values: Values) -> GpuSample:
    power = values.get("gpu_power_w")
    return GpuSample(
        index=index,
        util_pct=_whole(values, "gpu_util_pct"),
        mem_used_bytes=_whole(values, "gpu_mem_bytes"),
        power_w=None if power is None else round(power, 1),
        temp_c=_whole(values, "gpu_temp_c"),
    )


def _whole(values: Values, name: str) -> Optional[int]:
    value = values.get(name)
    return None if value is None else round(value)
