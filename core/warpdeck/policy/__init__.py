"""The scheduling policy: decides which jobs start, where, and why the others wait.

The main entry point is `plan(view, now, settings) -> Plan`. `admit` decides whether a request may be
submitted, and `priorities` computes the priority of each pending job. The package is pure: it reads no clock,
uses no randomness and does no I/O.
"""

from warpdeck.policy.cache.pass_cache import PassCache
from warpdeck.policy.explain.start_estimates import (
    ESTIMATED_CODES,
    NO_ESTIMATES,
    StartEstimates,
    estimate_starts,
)
from warpdeck.policy.input.decisions import EndDecision, Plan, Preempt, Reserve, Resume, Start
from warpdeck.policy.input.settings import PlannerSettings, Weights
from warpdeck.policy.input.site import (
    AccountView,
    Limits,
    PartitionView,
    QosView,
    ReservationView,
    Tres,
    UserView,
)
from warpdeck.policy.input.view import GpuView, NodeView, PendingJob, PlannerView, RunningJob
from warpdeck.policy.priority.fairshare import FairshareRow, decayed, decayed_seconds, fair_tree
from warpdeck.policy.priority.priority import Factors, Ranking, priorities
from warpdeck.policy.resources.features import parse_constraint
from warpdeck.policy.resources.tres import WALL, held_tres

from .admit import AdmissionRefusal, admit, admit_hetjob, never_fits
from .dry_run import Estimate, dry_run
from .plan import plan

__all__ = [
    "ESTIMATED_CODES",
    "NO_ESTIMATES",
    "WALL",
    "AccountView",
    "AdmissionRefusal",
    "EndDecision",
    "Estimate",
    "Factors",
    "FairshareRow",
    "GpuView",
    "Limits",
    "NodeView",
    "PartitionView",
    "PassCache",
    "PendingJob",
    "Plan",
    "PlannerSettings",
    "PlannerView",
    "Preempt",
    "QosView",
    "Ranking",
    "ReservationView",
    "Reserve",
    "Resume",
    "RunningJob",
    "Start",
    "StartEstimates",
    "Tres",
    "UserView",
    "Weights",
    "admit",
    "admit_hetjob",
    "decayed",
    "decayed_seconds",
    "dry_run",
    "estimate_starts",
    "fair_tree",
    "held_tres",
    "never_fits",
    "parse_constraint",
    "plan",
    "priorities",
]
