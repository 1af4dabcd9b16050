"""The scheduling policy: plan(view, now, settings) -> Plan. Pure: no clock, no randomness, no I/O."""

from .plan import feasible, plan
from .view import (
    GpuView,
    NodeView,
    PartitionView,
    PendingJob,
    Plan,
    Reserve,
    RunningJob,
    Settings,
    Start,
    View,
)

__all__ = [
    "GpuView",
    "NodeView",
    "PartitionView",
    "PendingJob",
    "Plan",
    "Reserve",
    "RunningJob",
    "Settings",
    "Start",
    "View",
    "feasible",
    "plan",
]
