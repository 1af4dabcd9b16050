"""Results of planning passes, and statistics about past jobs that the planner uses."""

from __future__ import annotations

from warpdeck.model import JobId, PendingReason
from warpdeck.policy import NO_BACKLOG
from warpdeck.policy.priority.predict import Predictor
from warpdeck.ports.ports import Waits


class PlannerResults:
    """Everything that the last passes reported about waiting jobs."""

    def __init__(self) -> None:
        self.pending_reasons: dict[JobId, PendingReason] = {}
        self.priorities: dict[JobId, int] = {}
        self.untold: dict[JobId, None] = {}
        """Waiting jobs that are new or changed since the planner last computed their pending reasons."""
        self.backlog = NO_BACKLOG
        """Estimated start times of waiting jobs for which the passes compute no start."""
        self.promised: dict[JobId, float] = {}
        """Starts that the last passes reserved for waiting jobs."""
        self.predictor = Predictor()
        """Predicts run times from the previous jobs of each user. It is filled from the store at a start."""
        self.waits = Waits()
