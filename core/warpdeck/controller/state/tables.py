"""Tables of everything that the controller knows: jobs, nodes, links, readings, usage, reservations, and indexes over them.

Durable: jobs, nodes, usage, reservations, and the next job id. All other tables are volatile and are filled again after a restart.
The site's rules are read from its configuration and kept here for all code that decides.
"""

from __future__ import annotations

from collections.abc import Collection

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
    Reading,
    Request,
    Reservation,
    Why,
)
from warpdeck.model.created_by_nonce import MadeTable
from warpdeck.model.step import Step
from warpdeck.policy import NO_BACKLOG
from warpdeck.policy.priority.predict import Predictor
from warpdeck.ports.ports import UnreadableRow, UsageRow, Waits

from .request_shapes import RequestShapes
from .suspect_nodes import Suspects


class Tables:
    """Unfinished and recently ended jobs, all nodes, and read-only questions about them. `State` adds the changes."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.nodes: dict[NodeName, Node] = {}
        self.next_job_id = 1
        self.unreadable: tuple[UnreadableRow, ...] = ()
        self.links: dict[NodeName, Link] = {}
        self.link_reasons: dict[NodeName, str] = {}
        self.readings: dict[NodeName, Reading] = {}
        self.health: dict[NodeName, NodeHealth] = {}
        self.conditions: dict[NodeName, Condition] = {}
        """The last that was written down of each node."""
        self.whys: dict[JobId, Why] = {}
        self.priorities: dict[JobId, int] = {}
        self.untold: dict[JobId, None] = {}
        """Waiting jobs that are new or others since the planner last told them why they wait."""
        self.site = Site()
        self.used: dict[tuple[str, str, str], UsageRow] = {}
        """What ended jobs have used, by account, user and QoS."""
        self.submitted: dict[tuple[str, str, str], int] = {}
        """Jobs and array tasks that have not ended, by account, user and QoS."""
        self.shapes = RequestShapes()
        self.reserved: dict[str, Reservation] = {}
        """Reservations made at run time; see reservations.py for all."""
        self.made: MadeTable = {}
        """What requests have made, by user and nonce; see made.py."""
        self.waits = Waits()
        self.predictor = Predictor()
        """How long users' jobs run; learnt again from the store at a start."""
        self.backlog = NO_BACKLOG
        """When those are likely to start for whom the passes work no start out."""
        self.promised: dict[JobId, float] = {}
        """The starts that the last passes reserved for waiting jobs."""
        self.steps: dict[JobId, dict[int, Step]] = {}
        """Steps that run, and those that ended lately, of jobs in memory; by number."""
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
        self.suspects = Suspects()
        """Nodes on which jobs fail at once."""
        self.in_state: dict[JobState, int] = {}
        """How many jobs in memory are in each state."""
        self._members: dict[JobId, dict[JobId, None]] = {}
        """Of arrays and heterogeneous jobs: another job is all of its submission."""
        self._on_node: dict[NodeName, dict[JobId, None]] = {}

    def learn(self, job: Job) -> None:
        """Remembers how long the job ran, if it ended by itself."""
        ran_s = job.ran_s()
        if ran_s is not None and job.state in BY_ITSELF:
            self.predictor.remember(job.user, ran_s, limit_s=job.time_limit_s)

    def predict(self, user: str, request: Request) -> float | None:
        """How long a job of this user is likely to run; None where nothing is known of them."""
        limit_s = request.time_limit_s or self.site.settings.default_time_s
        return self.predictor.predict(user, limit_s=limit_s)

    def array_members(self, array_job_id: JobId) -> list[Job]:
        """The jobs of one submission that are in memory, by id."""
        members = self._members.get(array_job_id)
        if members is not None:
            return [self.jobs[job_id] for job_id in sorted(members)]
        job = self.jobs.get(array_job_id)
        return [job] if job is not None and job.array_job_id == array_job_id else []

    def member_ids(self, array_job_id: JobId) -> Collection[JobId]:
        """Those of an array's, in the order in which they came: what waits of it is the first. () for another job."""
        return self._members.get(array_job_id, {}).keys()

    def named(self, number: JobId) -> list[Job]:
        """The jobs in memory that a plain number means: a whole submission, or the one array task with that id."""
        members = self.array_members(number)
        return members or ([self.jobs[number]] if number in self.jobs else [])

    @property
    def has_to_plan(self) -> bool:
        """Whether somebody waits: to start, or suspended to go on."""
        return bool(self.pending) or bool(self.in_state.get(JobState.SUSPENDED))

    @property
    def minds_events(self) -> bool:
        """Whether what happens to others may start, end or resume somebody: not while all who wait are held, and know it."""
        all_rest = len(self.resting) == len(self.pending) and not self.in_state.get(JobState.SUSPENDED)
        return not all_rest or bool(self.untold) or bool(self.follower)

    def jobs_on(self, name: NodeName) -> list[Job]:
        """The jobs that hold a share of this node, by id."""
        return [self.jobs[job_id] for job_id in sorted(self._on_node.get(name, ()))]

    def handed_to(self, name: NodeName) -> list[Job]:
        """The jobs that are behind others on this node and hold nothing of it, each after the one that it is behind."""
        found = [self.jobs[job_id] for job_id in sorted(self.follower.values())]
        return [job for job in found if job.allocation and job.allocation.node_names()[0] == name]
