"""Indexes over the jobs in memory. They follow from the jobs and are updated with each change of a job."""

from __future__ import annotations

from warpdeck.model import JobId, JobState, NodeName


class JobIndex:
    """Sets of job ids as dictionaries, because these keep their order."""

    def __init__(self) -> None:
        self.pending: dict[JobId, None] = {}
        self.timed: dict[JobId, None] = {}
        """Those of them for which the clock alone changes something; see moments.py."""
        self.resting: dict[JobId, None] = {}
        """Those of them that are held, and that the clock does not end."""
        self.leaders: dict[JobId, None] = {}
        """Waiting jobs with components."""
        self.led: dict[JobId, None] = {}
        """Waiting components of others."""
        self.active: dict[JobId, None] = {}
        self.in_reservations: dict[JobId, None] = {}
        """Jobs that wait for a reservation, or run in one."""
        self.follower: dict[JobId, JobId] = {}
        """Of a job the one that takes its place when it ends; see following.py."""
        self.in_state: dict[JobState, int] = {}
        """How many jobs in memory are in each state."""
        self.members: dict[JobId, dict[JobId, None]] = {}
        """Of arrays and heterogeneous jobs: another job is all of its submission."""
        self.on_node: dict[NodeName, dict[JobId, None]] = {}
