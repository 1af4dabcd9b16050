"""The scheduling policy: plan(view, now, settings) -> Plan. Pure: no clock, no randomness, no I/O."""

from .admit import Refusal, admit, never_fits
from .answer import End, Plan, Preempt, Reserve, Resume, Start
from .plan import plan
from .settings import Settings, Weights
from .site import AccountView, Limits, PartitionView, QosView, ReservationView, Tres, UserView
from .view import GpuView, NodeView, PendingJob, RunningJob, View

__all__ = [
    "AccountView",
    "End",
    "GpuView",
    "Limits",
    "NodeView",
    "PartitionView",
    "PendingJob",
    "Plan",
    "Preempt",
    "QosView",
    "Refusal",
    "ReservationView",
    "Reserve",
    "Resume",
    "RunningJob",
    "Settings",
    "Start",
    "Tres",
    "UserView",
    "View",
    "Weights",
    "admit",
    "never_fits",
    "plan",
]
