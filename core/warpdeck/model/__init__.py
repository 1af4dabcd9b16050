"""Data classes for jobs, steps, nodes, reservations and their states.

The package is pure data: it reads no clock and does no I/O. The other modules of core import its classes from
this module.
"""

from .condition import Condition
from .health import CHECKS, CLEARING, Check, CheckVerdict, GpuDrain, NodeHealth
from .ids import GpuUuid, JobId, NodeName
from .job import (
    UNKNOWN_GPU,
    Allocation,
    Component,
    ExitStatus,
    Job,
    PendingReason,
    PreemptedClaim,
    Share,
    ShareStatus,
)
from .node import Facility, Gpu, GpuLinks, GpuProcess, GpuReading, Link, Node, NodeReading, Topology
from .ranges import (
    Ranges,
    count_tasks,
    format_ranges,
    has_task,
    iter_tasks,
    ranges_of,
    split_ranges,
    with_task,
)
from .request import (
    ArraySpec,
    Container,
    Dependencies,
    Dependency,
    GpuRequest,
    NodeMinimum,
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
from .usage import GpuUsage, JobCurve, OwnUse, Spread, UsageCurve

__all__ = [
    "BY_ITSELF",
    "CHECKS",
    "CLEARING",
    "COMPACT",
    "CURVE_COLUMNS",
    "FINISHED",
    "HOLDS_RESOURCES",
    "TRANSITIONS",
    "UNKNOWN_GPU",
    "Allocation",
    "ArraySpec",
    "Check",
    "CheckVerdict",
    "Component",
    "Condition",
    "Container",
    "Dependencies",
    "Dependency",
    "ExitStatus",
    "Facility",
    "Gpu",
    "GpuDrain",
    "GpuLinks",
    "GpuProcess",
    "GpuReading",
    "GpuRequest",
    "GpuUsage",
    "GpuUuid",
    "Job",
    "JobCurve",
    "JobId",
    "JobState",
    "Link",
    "Node",
    "NodeHealth",
    "NodeMinimum",
    "NodeName",
    "NodeReading",
    "OwnUse",
    "PendingReason",
    "PreemptedClaim",
    "PtySide",
    "PtySize",
    "Ranges",
    "Request",
    "Reservation",
    "Resources",
    "Share",
    "ShareStatus",
    "Snapshot",
    "Spread",
    "Topology",
    "UsageCurve",
    "WarnSignal",
    "count_tasks",
    "format_ranges",
    "has_task",
    "iter_tasks",
    "may_become",
    "ranges_of",
    "split_ranges",
    "state_named",
    "with_task",
]
