"""What the controller knows; it changes through a Transaction alone (transaction.py).

Durable: jobs, nodes, use, the next job id. Volatile: links, readings, whys, priorities; they are learnt again after a
restart. The site's rules are read from its configuration and put here for all who decide.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import msgspec

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
    count_tasks,
)
from warpdeck.model.step import Step
from warpdeck.policy import NO_BACKLOG
from warpdeck.policy.predict import Predictor

from .accounting import Accounting, key_of
from .admission import Admission
from .made import MadeTable, place_made
from .moments import minds_the_clock, rests
from .picture import Picture
from .ports import Loaded, UnreadableRow, UsageRow, Waits
from .suspects import Suspects

_T = TypeVar("_T", bound=msgspec.Struct)
MAX_ENDED_STEPS = 64
"""Ended steps of a job that stay in memory, for those who wait for their ends; the store has them all."""


class State:
    """Jobs that are unfinished or ended lately, and all nodes. Read by anyone; changed through a Transaction."""

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
        self.admission = Admission()
        self.used: dict[tuple[str, str, str], UsageRow] = {}
        """What ended jobs have used, by account, user and QoS."""
        self.accounting = Accounting()
        self.submitted: dict[tuple[str, str, str], int] = {}
        """Jobs and array tasks that have not ended, by account, user and QoS."""
        self.picture = Picture()
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

    @classmethod
    def from_store(cls, loaded: Loaded) -> State:
        """The state a starting controller begins with: everything as committed, no link up."""
        state = cls()
        state.next_job_id = loaded.next_job_id
        state.unreadable = loaded.unreadable
        for job in loaded.jobs:
            state.place_job(job)
        for node in loaded.nodes:
            state.nodes[node.name] = node
            state.links[node.name] = Link.CONNECTING
        state.conditions = {each.node: each for each in loaded.conditions}
        state.used = {row.key: row for row in loaded.usage}
        for made in loaded.made:
            place_made(state.made, made)
        state.waits = loaded.waits
        state.reserved = {each.name: each for each in loaded.reservations}
        for step in loaded.steps:
            state.place_step(step)
        for job in loaded.last_runs:
            state.learn(job)
        return state

    def promise(self, job_id: JobId, at_unix: float) -> None:
        """A waiting job has a start reserved."""
        if job_id in self.pending and self.promised.get(job_id) != at_unix:
            self.promised[job_id] = at_unix
            self.picture.forget_job(job_id)

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

    def place_job(self, job: Job) -> None:
        """Puts a job into the tables and indices."""
        self._take_out(job.id)
        self.picture.note_moved(job)
        self.jobs[job.id] = job
        self.in_state[job.state] = self.in_state.get(job.state, 0) + 1
        _count(self.submitted, job, times=1)
        if job.request.array is not None or job.component is not None:
            self._members.setdefault(job.array_job_id, {})[job.id] = None
        _keep(self.pending, job.id, wanted=job.state is JobState.PENDING)
        _keep(self.timed, job.id, wanted=job.id in self.pending and minds_the_clock(job.request))
        _keep(self.resting, job.id, wanted=job.id in self.pending and rests(job))
        _keep(self.untold, job.id, wanted=job.state is JobState.PENDING)
        if job.component is not None:
            kept = self.led if job.is_led else self.leaders
            _keep(kept, job.id, wanted=job.state is JobState.PENDING)
        _keep(self.active, job.id, wanted=job.holds_resources)
        _keep(self.in_reservations, job.id, wanted=bool(job.reservation) and not job.is_finished)
        if job.behind is not None:
            self.follower[job.behind] = job.id
        for name in _held_nodes(job):
            self._on_node.setdefault(name, {})[job.id] = None
            self.picture.forget_holders(name)
        if job.state is not JobState.PENDING:
            self.whys.pop(job.id, None)
            self.promised.pop(job.id, None)

    def place_step(self, step: Step) -> None:
        """Puts a step into the table; of ended ones the latest stay."""
        steps = self.steps.setdefault(step.job_id, {})
        steps[step.number] = step
        ended = [number for number, each in steps.items() if each.is_finished]
        for number in ended[:-MAX_ENDED_STEPS]:
            del steps[number]

    def place_reservation(self, name: str, made: Reservation | None) -> None:
        """Puts a reservation into the table; None takes it out. When it is over tells when jobs in it end."""
        if made is None:
            self.reserved.pop(name, None)
        else:
            self.reserved[name] = made
        for job_id in self.in_reservations:
            if self.jobs[job_id].reservation == name:
                self.picture.forget_job(job_id)

    def drop_job(self, job_id: JobId) -> None:
        """Takes a job out of memory; the store keeps it."""
        self.steps.pop(job_id, None)
        self._take_out(job_id)
        job = self.jobs.pop(job_id)
        self.pending.pop(job_id, None)
        self.timed.pop(job_id, None)
        self.resting.pop(job_id, None)
        self.untold.pop(job_id, None)
        self.leaders.pop(job_id, None)
        self.led.pop(job_id, None)
        self.active.pop(job_id, None)
        self.in_reservations.pop(job_id, None)
        self.whys.pop(job_id, None)
        self.promised.pop(job_id, None)
        members = self._members.get(job.array_job_id, {})
        members.pop(job_id, None)
        if not members:
            self._members.pop(job.array_job_id, None)

    def drop_node(self, name: NodeName) -> None:
        """Takes a node out, with what was learnt of it: one that comes under its name later begins anew."""
        self.nodes.pop(name, None)
        self.links.pop(name, None)
        self.link_reasons.pop(name, None)
        self.readings.pop(name, None)
        self.health.pop(name, None)
        self.conditions.pop(name, None)

    def _take_out(self, job_id: JobId) -> None:
        """Takes out of counts and indices what the job was."""
        self.picture.forget_job(job_id)
        job = self.jobs.get(job_id)
        if job is None:
            return
        self.picture.note_moved(job)
        self.in_state[job.state] -= 1
        if job.behind is not None and self.follower.get(job.behind) == job_id:
            del self.follower[job.behind]
        _count(self.submitted, job, times=-1)
        for name in _held_nodes(job):
            self.picture.forget_holders(name)
            there = self._on_node[name]
            del there[job_id]
            if not there:
                del self._on_node[name]


def _held_nodes(job: Job) -> tuple[NodeName, ...]:
    return job.allocation.node_names() if job.allocation is not None and job.holds_resources else ()


def _count(submitted: dict[tuple[str, str, str], int], job: Job, *, times: int) -> None:
    if job.is_finished:
        return
    key = key_of(job)
    submitted[key] = submitted.get(key, 0) + times * (
        count_tasks(job.pending_tasks) if job.pending_tasks else 1
    )
    if not submitted[key]:
        del submitted[key]


def _keep(index: dict[JobId, None], job_id: JobId, *, wanted: bool) -> None:
    if wanted:
        index[job_id] = None
    else:
        index.pop(job_id, None)


def amend(thing: _T, **changes: object) -> _T:
    """A copy of a job, share or node with these fields changed."""
    return msgspec.structs.replace(thing, **changes)
