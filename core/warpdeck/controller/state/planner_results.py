"""Results of planning passes, and statistics about past jobs that the planner uses."""

from __future__ import annotations

from warpdeck.model import JobId, PendingReason
from warpdeck.policy import NO_BACKLOG
from warpdeck.policy.priority.predict import Predictor
from warpdeck.ports.ports import Waits


class PlannerResults:
    """Everything that the last passes reported about waiting jobs."""

    def __init__(self) -> None:
        self.whys: dict[JobId, PendingReason] = {}
        self.priorities: dict[JobId, int] = {}
        self.untold: dict[JobId, None] = {}
        """Waiting jobs that are new or others since the planner last told them why they wait."""
        self.backlog = NO_BACKLOG
        """When those are likely to start for whom the passes work no start out."""
        self.promised: dict[JobId, float] = {}
        """The starts that the last passes reserved for waiting jobs."""
        self.predictor = Predictor()
        """How long users' jobs run; learnt again from the store at a start."""
        self.waits = Waits()
