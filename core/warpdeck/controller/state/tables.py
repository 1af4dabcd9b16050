"""Tables of the controller's state: jobs, nodes, links, readings, usage, reservations, and indexes over them.

Jobs, nodes, usage, reservations and the next job id are durable. All other tables are volatile and are filled
again after a restart. The site's rules come from its configuration and are kept here for all code that makes
decisions.
"""

from __future__ import annotations

from collections.abc import Collection

from warpdeck.base.controller_starts import UNSEALED
from warpdeck.config import Site
from warpdeck.model import (
    BY_ITSELF,
    Condition,
    Job,
    JobId,
    JobState,
    Link,
    Node,
    NodeHealth,
    NodeName,
    NodeReading,
    PendingReason,
    Request,
    Reservation,
    Resources,
)
from warpdeck.model.created_by_nonce import CreatedTable
from warpdeck.model.recovery import Recovery
from warpdeck.model.step import Step
from warpdeck.policy import NO_ESTIMATES
from warpdeck.policy.priority.predict import Predictor
from warpdeck.ports.store import UnreadableRow, UsageRecord, Waits
from warpdeck_agent.wire.epochs import ControllerStart

from .suspect_nodes import SuspectNodes
from .user_use import UserUse

MAX_INTERNED = 10_000
"""Maximum number of different requests that are kept. A site has a few hundred."""


class NodeStatus:
    """Volatile facts about each node: link, readings, health. They are learned again after a restart."""

    def __init__(self) -> None:
        self.links: dict[NodeName, Link] = {}
        self.link_reasons: dict[NodeName, str] = {}
        self.readings: dict[NodeName, NodeReading] = {}
        self.health: dict[NodeName, NodeHealth] = {}
        self.conditions: dict[NodeName, Condition] = {}
        """The last recorded condition of each node."""
        self.suspects = SuspectNodes()
        """Nodes on which jobs fail at once."""

    def drop(self, name: NodeName) -> None:
        """Forget a node, so that a later node of the same name starts without a history."""
        for table in (self.links, self.link_reasons, self.readings, self.health, self.conditions):
            table.pop(name, None)


class JobIndex:
    """Indexes over the jobs in memory. Each change of a job also updates the indexes.

    Sets of job ids are dictionaries, because these keep their order.
    """

    def __init__(self) -> None:
        self.pending: dict[JobId, None] = {}
        self.timed: dict[JobId, None] = {}
        """Waiting jobs that the clock alone can affect; see deadlines.py."""
        self.held: dict[JobId, None] = {}
        """Waiting jobs that are held and have no deadline."""
        self.hetjob_leaders: dict[JobId, None] = {}
        """Waiting jobs that lead a heterogeneous job."""
        self.hetjob_components: dict[JobId, None] = {}
        """Waiting components of heterogeneous jobs, without the leaders."""
        self.active: dict[JobId, None] = {}
        self.in_reservations: dict[JobId, None] = {}
        """Jobs that wait for a reservation or run in one."""
        self.successor: dict[JobId, JobId] = {}
        """Job -> the prefetched job that takes over its allocation when it ends; see launch_prefetch.py."""
        self.in_state: dict[JobState, int] = {}
        """Number of jobs in memory in each state."""
        self.members: dict[JobId, dict[JobId, None]] = {}
        """Members of arrays and heterogeneous jobs by submission.

        Any other job is the only member of its submission and is not listed.
        """
        self.on_node: dict[NodeName, dict[JobId, None]] = {}


class PlannerResults:
    """The results of the last passes about waiting jobs."""

    def __init__(self) -> None:
        self.pending_reasons: dict[JobId, PendingReason] = {}
        self.priorities: dict[JobId, int] = {}
        self.unexplained: dict[JobId, None] = {}
        """Waiting jobs that are new or changed since the planner last computed their pending reasons."""
        self.start_estimates = NO_ESTIMATES
        """Estimated start times of the waiting jobs without a start time from the passes."""
        self.reserved_starts: dict[JobId, float] = {}
        """Starts that the last passes reserved for waiting jobs."""
        self.predictor = Predictor()
        """Predicts run times from the previous jobs of each user. It is filled from the store at a start."""
        self.waits = Waits()


class RequestInterner:
    """Keeps one object for all equal resource requests, because the planner compares requests by identity.

    The table is emptied when it is full.
    """

    def __init__(self) -> None:
        self._resources: dict[Resources, Resources] = {}

    def intern(self, requested: Resources) -> Resources:
        """Return the first object seen that is equal to `requested`."""
        if len(self._resources) >= MAX_INTERNED:
            self._resources.clear()
        return self._resources.setdefault(requested, requested)


class KnownStarts:
    """The start of this controller, and the one that has fenced it (`base.controller_starts`)."""

    def __init__(self) -> None:
        self.seal = UNSEALED
        """Proves that a launch or a start comes from a controller of this site."""
        self.own = ControllerStart()
        self.fenced_by: ControllerStart | None = None
        """The start that the agents obey instead; None if the controller is not fenced."""
        self.unclaimed: dict[NodeName, object] = {}
        """Nodes that have not answered yet since the start, while the controller waits for them."""
        self.postponed: set[tuple[JobId, NodeName]] = set()
        """Shares that their nodes did not know while the controller waited. They are launched, or ended, afterwards."""


class StateTables:
    """Unfinished and recently ended jobs, all nodes, and queries about them. `State` adds the changes."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.nodes: dict[NodeName, Node] = {}
        self.controller_id = ""
        """Random name of this installation; it stays the same across restarts."""
        self.starts = KnownStarts()
        self.recovery = Recovery()
        """Launches that this controller does not know, because its database is older than they are."""
        self.next_job_id = 1
        self.unreadable: tuple[UnreadableRow, ...] = ()
        self.site = Site()
        self.used: dict[tuple[str, str, str], UsageRecord] = {}
        """Usage of ended jobs, by account, user and QoS."""
        self.submitted: dict[tuple[str, str, str], int] = {}
        """Number of unfinished jobs and array tasks, by account, user and QoS."""
        self.user_use = UserUse()
        self.request_interner = RequestInterner()
        self.reserved: dict[str, Reservation] = {}
        """Reservations created at run time. reservations.py returns these together with the configured ones.
        """
        self.created: CreatedTable = {}
        """Objects that requests have created, by user and nonce; see model/created_by_nonce.py."""
        self.steps: dict[JobId, dict[int, Step]] = {}
        """Running and recently ended steps of the jobs in memory, by step number."""
        self.node_status = NodeStatus()
        self.planned = PlannerResults()
        self.index = JobIndex()

    def learn(self, job: Job) -> None:
        """Record the job's run time for later predictions, if the job ended by itself."""
        ran_s = job.ran_s()
        if ran_s is not None and job.state in BY_ITSELF:
            self.planned.predictor.remember(job.user, ran_s, limit_s=job.time_limit_s)

    def predict(self, user: str, request: Request) -> float | None:
        """Return the predicted run time in seconds of a user's job.

        Returns None if nothing is known about the user's jobs.
        """
        limit_s = request.time_limit_s or self.site.settings.default_time_s
        return self.planned.predictor.predict(user, limit_s=limit_s)

    def array_members(self, array_job_id: JobId) -> list[Job]:
        """Return the jobs of one submission that are in memory, ordered by id."""
        members = self.index.members.get(array_job_id)
        if members is not None:
            return [self.jobs[job_id] for job_id in sorted(members)]
        job = self.jobs.get(array_job_id)
        return [job] if job is not None and job.array_job_id == array_job_id else []

    def member_ids(self, array_job_id: JobId) -> Collection[JobId]:
        """Return the ids of an array's jobs in their order of arrival; () for a job that is not an array.

        The record of the waiting tasks comes first.
        """
        return self.index.members.get(array_job_id, {}).keys()

    def named(self, number: JobId) -> list[Job]:
        """Return the jobs in memory that a plain job number names.

        The number names a whole submission, or the one array task with that id.
        """
        members = self.array_members(number)
        return members or ([self.jobs[number]] if number in self.jobs else [])

    @property
    def may_start(self) -> bool:
        """Whether this controller may start jobs now."""
        return self.starts.fenced_by is None and not self.starts.unclaimed and not self.recovery.is_needed

    @property
    def has_to_plan(self) -> bool:
        """Whether a job waits to start, or is suspended and waits to resume.

        This is False while the controller must not start jobs.
        """
        waits = bool(self.index.pending) or bool(self.index.in_state.get(JobState.SUSPENDED))
        return waits and self.may_start

    @property
    def reacts_to_events(self) -> bool:
        """Whether an event may start, end or resume a waiting job.

        This is False while all waiting jobs are held and their pending reasons are known.
        """
        all_held = len(self.index.held) == len(self.index.pending) and not self.index.in_state.get(
            JobState.SUSPENDED
        )
        return not all_held or bool(self.planned.unexplained) or bool(self.index.successor)

    def jobs_on(self, name: NodeName) -> list[Job]:
        """Return the jobs that hold a share of this node, ordered by id."""
        return [self.jobs[job_id] for job_id in sorted(self.index.on_node.get(name, ()))]

    def prefetched_to(self, name: NodeName) -> list[Job]:
        """Return the jobs that are prefetched to this node and hold no resources there yet.

        Each job comes after its predecessor.
        """
        found = [self.jobs[job_id] for job_id in sorted(self.index.successor.values())]
        return [job for job in found if job.allocation and job.allocation.node_names()[0] == name]
