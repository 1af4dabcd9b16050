"""Tables of everything that the controller knows: jobs, nodes, links, readings, usage, reservations, and indexes over them.

Durable: jobs, nodes, usage, reservations, and the next job id. All other tables are volatile and are filled again after a restart.
The site's rules are read from its configuration and kept here for all code that decides.
"""

from __future__ import annotations

from collections.abc import Collection

from warpdeck.config import Site
from warpdeck.model import (
    BY_ITSELF,
    Job,
    JobId,
    JobState,
    Node,
    NodeName,
    Request,
    Reservation,
)
from warpdeck.model.created_by_nonce import MadeTable
from warpdeck.model.step import Step
from warpdeck.ports.ports import UnreadableRow, UsageRow

from .job_index import JobIndex
from .node_status import NodeStatus
from .planner_results import PlannerResults
from .request_shapes import RequestShapes


class Tables:
    """Unfinished and recently ended jobs, all nodes, and read-only questions about them. `State` adds the changes."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.nodes: dict[NodeName, Node] = {}
        self.next_job_id = 1
        self.unreadable: tuple[UnreadableRow, ...] = ()
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
        self.steps: dict[JobId, dict[int, Step]] = {}
        """Steps that run, and those that ended lately, of jobs in memory; by number."""
        self.node_status = NodeStatus()
        self.planned = PlannerResults()
        self.index = JobIndex()

    def learn(self, job: Job) -> None:
        """Remembers how long the job ran, if it ended by itself."""
        ran_s = job.ran_s()
        if ran_s is not None and job.state in BY_ITSELF:
            self.planned.predictor.remember(job.user, ran_s, limit_s=job.time_limit_s)

    def predict(self, user: str, request: Request) -> float | None:
        """How long a job of this user is likely to run; None where nothing is known of them."""
        limit_s = request.time_limit_s or self.site.settings.default_time_s
        return self.planned.predictor.predict(user, limit_s=limit_s)

    def array_members(self, array_job_id: JobId) -> list[Job]:
        """The jobs of one submission that are in memory, by id."""
        members = self.index.members.get(array_job_id)
        if members is not None:
            return [self.jobs[job_id] for job_id in sorted(members)]
        job = self.jobs.get(array_job_id)
        return [job] if job is not None and job.array_job_id == array_job_id else []

    def member_ids(self, array_job_id: JobId) -> Collection[JobId]:
        """Those of an array's, in the order in which they came: what waits of it is the first. () for another job."""
        return self.index.members.get(array_job_id, {}).keys()

    def named(self, number: JobId) -> list[Job]:
        """The jobs in memory that a plain number means: a whole submission, or the one array task with that id."""
        members = self.array_members(number)
        return members or ([self.jobs[number]] if number in self.jobs else [])

    @property
    def has_to_plan(self) -> bool:
        """Whether somebody waits: to start, or suspended to go on."""
        return bool(self.index.pending) or bool(self.index.in_state.get(JobState.SUSPENDED))

    @property
    def minds_events(self) -> bool:
        """Whether what happens to others may start, end or resume somebody: not while all who wait are held, and know it."""
        all_rest = len(self.index.resting) == len(self.index.pending) and not self.index.in_state.get(
            JobState.SUSPENDED
        )
        return not all_rest or bool(self.planned.untold) or bool(self.index.follower)

    def jobs_on(self, name: NodeName) -> list[Job]:
        """The jobs that hold a share of this node, by id."""
        return [self.jobs[job_id] for job_id in sorted(self.index.on_node.get(name, ()))]

    def handed_to(self, name: NodeName) -> list[Job]:
        """The jobs that are behind others on this node and hold nothing of it, each after the one that it is behind."""
        found = [self.jobs[job_id] for job_id in sorted(self.index.follower.values())]
        return [job for job in found if job.allocation and job.allocation.node_names()[0] == name]
