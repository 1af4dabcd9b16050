"""The scheduling policy: plan(view, now, settings) -> Plan. Pure: no clock, no randomness, no I/O."""

from .admit import Refusal, admit, admit_together, never_fits
from .advise import Advice, advise
from .answer import End, Plan, Preempt, Reserve, Resume, Start
from .backlog import NO_BACKLOG, TOLD, Backlog, likely_starts
from .fairshare import Standing, decayed, decayed_seconds, fair_tree
from .features import parse_constraint
from .memory import Memory
from .plan import plan
from .priority import Factors, Ranking, priorities
from .settings import Settings, Weights
from .site import AccountView, Limits, PartitionView, QosView, ReservationView, Tres, UserView
from .tres import WALL, held_tres
from .view import GpuView, NodeView, PendingJob, RunningJob, View

__all__ = [
    "NO_BACKLOG",
    "TOLD",
    "WALL",
    "AccountView",
    "Advice",
    "Backlog",
    "End",
    "Factors",
    "GpuView",
    "Limits",
    "Memory",
    "NodeView",
    "PartitionView",
    "PendingJob",
    "Plan",
    "Preempt",
    "QosView",
    "Ranking",
    "Refusal",
    "ReservationView",
    "Reserve",
    "Resume",
    "RunningJob",
    "Settings",
    "Standing",
    "Start",
    "Tres",
    "UserView",
    "View",
    "Weights",
    "admit",
    "admit_together",
    "advise",
    "decayed",
    "decayed_seconds",
    "fair_tree",
    "held_tres",
    "likely_starts",
    "never_fits",
    "parse_constraint",
    "plan",
    "priorities",
]
