"""Indexes over the jobs in memory. They follow from the jobs and are updated with each change of a job."""

from __future__ import annotations

from warpdeck.model import JobId, JobState, NodeName


class JobIndex:
    """Sets of job ids as dictionaries, because these keep their order."""

    def __init__(self) -> None:
        self.pending: dict[JobId, None] = {}
        self.timed: dict[JobId, None] = {}
        """Waiting jobs that the clock alone can affect; see deadlines.py."""
        self.resting: dict[JobId, None] = {}
        """Waiting jobs that are held and have no deadline."""
        self.leaders: dict[JobId, None] = {}
        """Waiting jobs that lead a heterogeneous job."""
        self.led: dict[JobId, None] = {}
        """Waiting components of heterogeneous jobs, without the leaders."""
        self.active: dict[JobId, None] = {}
        self.in_reservations: dict[JobId, None] = {}
        """Jobs that wait for a reservation or run in one."""
        self.follower: dict[JobId, JobId] = {}
        """Job -> the prefetched job that takes over its allocation when it ends; see launch_prefetch.py."""
        self.in_state: dict[JobState, int] = {}
        """Number of jobs in memory in each state."""
        self.members: dict[JobId, dict[JobId, None]] = {}
        """Members of arrays and heterogeneous jobs by submission.

        Any other job is its submission's only member.
        """
        self.on_node: dict[NodeName, dict[JobId, None]] = {}
