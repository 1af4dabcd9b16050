"""The nouns of warpdeck. Pure data: no clock, no I/O."""

from .health import CHECKS, CLEARING, Check, GpuDrain, NodeHealth, Verdict
from .ids import GpuUuid, JobId, NodeName
from .job import Allocation, ExitStatus, Job, Share, ShareStatus, Why
from .node import Facility, Gpu, GpuProcess, GpuReading, Link, Node, Reading
from .ranges import Ranges, count_tasks, format_ranges, has_task, iter_tasks, ranges_of, split_ranges
from .request import (
    ArraySpec,
    Container,
    Dependencies,
    Dependency,
    GpuAsk,
    PtySide,
    PtySize,
    Request,
    Resources,
    Snapshot,
    WarnSignal,
)
from .reservation import Reservation
from .states import (
    BY_ITSELF,
    COMPACT,
    FINISHED,
    HOLDS_RESOURCES,
    TRANSITIONS,
    JobState,
    may_become,
    state_named,
)
from .usage import COLUMNS as CURVE_COLUMNS
from .usage import Curve, GpuUsage, JobCurve

__all__ = [
    "BY_ITSELF",
    "CHECKS",
    "CLEARING",
    "COMPACT",
    "CURVE_COLUMNS",
    "FINISHED",
    "HOLDS_RESOURCES",
    "TRANSITIONS",
    "Allocation",
    "ArraySpec",
    "Check",
    "Container",
    "Curve",
    "Dependencies",
    "Dependency",
    "ExitStatus",
    "Facility",
    "Gpu",
    "GpuAsk",
    "GpuDrain",
    "GpuProcess",
    "GpuReading",
    "GpuUsage",
    "GpuUuid",
    "Job",
    "JobCurve",
    "JobId",
    "JobState",
    "Link",
    "Node",
    "NodeHealth",
    "NodeName",
    "PtySide",
    "PtySize",
    "Ranges",
    "Reading",
    "Request",
    "Reservation",
    "Resources",
    "Share",
    "ShareStatus",
    "Snapshot",
    "Verdict",
    "WarnSignal",
    "Why",
    "count_tasks",
    "format_ranges",
    "has_task",
    "iter_tasks",
    "may_become",
    "ranges_of",
    "split_ranges",
    "state_named",
]
