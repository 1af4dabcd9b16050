"""What the controller knows, and the transaction through which alone it changes.

Durable: jobs, nodes, use, the next job id. Volatile: links, readings, whys, priorities; they are learnt again after a
restart. The site's rules are read from its configuration and put here for all who decide.
A Transaction records how to undo each durable change, so that an event that is refused, or a commit that fails, leaves
no trace in memory either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

import msgspec

from warpdeck.config import Site
from warpdeck.errors import InvalidTransition
from warpdeck.model import (
    BY_ITSELF,
    Job,
    JobCurve,
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
    may_become,
)
from warpdeck.model.step import Step
from warpdeck.policy import NO_BACKLOG
from warpdeck.policy.predict import Predictor

from .accounting import Accounting, charge, key_of
from .admission import Admission
from .moments import minds_the_clock, rests
from .picture import Picture
from .ports import Changes, JournalEntry, Loaded, UsageRow, Waits

_T = TypeVar("_T", bound=msgspec.Struct)
MAX_ENDED_STEPS = 64
"""Ended steps of a job that stay in memory, for those who wait for their ends; the store has them all."""


class State:
    """Jobs that are unfinished or ended lately, and all nodes. Read by anyone; changed through a Transaction."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.nodes: dict[NodeName, Node] = {}
        self.next_job_id = 1
        self.links: dict[NodeName, Link] = {}
        self.link_reasons: dict[NodeName, str] = {}
        self.readings: dict[NodeName, Reading] = {}
        self.health: dict[NodeName, NodeHealth] = {}
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
        self.active: dict[JobId, None] = {}
        self.follower: dict[JobId, JobId] = {}
        """Of a job the one that takes its place when it ends; see following.py."""
        self.in_state: dict[JobState, int] = {}
        """How many jobs in memory are in each state."""
        self._members: dict[JobId, dict[JobId, None]] = {}
        """Of arrays: another job is all of its submission."""
        self._on_node: dict[NodeName, dict[JobId, None]] = {}

    @classmethod
    def from_store(cls, loaded: Loaded) -> State:
        """The state a starting controller begins with: everything as committed, no link up."""
        state = cls()
        state.next_job_id = loaded.next_job_id
        for job in loaded.jobs:
            state.place_job(job)
        for node in loaded.nodes:
            state.nodes[node.name] = node
            state.links[node.name] = Link.CONNECTING
        state.used = {row.key: row for row in loaded.usage}
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
        self.jobs[job.id] = job
        self.in_state[job.state] = self.in_state.get(job.state, 0) + 1
        _count(self.submitted, job, times=1)
        if job.request.array is not None:
            self._members.setdefault(job.array_job_id, {})[job.id] = None
        _keep(self.pending, job.id, wanted=job.state is JobState.PENDING)
        _keep(self.timed, job.id, wanted=job.id in self.pending and minds_the_clock(job.request))
        _keep(self.resting, job.id, wanted=job.id in self.pending and rests(job))
        _keep(self.untold, job.id, wanted=job.state is JobState.PENDING)
        _keep(self.active, job.id, wanted=job.holds_resources)
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

    def drop_job(self, job_id: JobId) -> None:
        """Takes a job out of memory; the store keeps it."""
        self.steps.pop(job_id, None)
        self._take_out(job_id)
        job = self.jobs.pop(job_id)
        self.pending.pop(job_id, None)
        self.timed.pop(job_id, None)
        self.resting.pop(job_id, None)
        self.untold.pop(job_id, None)
        self.active.pop(job_id, None)
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

    def _take_out(self, job_id: JobId) -> None:
        """Takes out of counts and indices what the job was."""
        self.picture.forget_job(job_id)
        job = self.jobs.get(job_id)
        if job is None:
            return
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
    submitted[key] = submitted.get(key, 0) + times * max(1, count_tasks(job.pending_tasks))
    if not submitted[key]:
        del submitted[key]


def _keep(index: dict[JobId, None], job_id: JobId, *, wanted: bool) -> None:
    if wanted:
        index[job_id] = None
    else:
        index.pop(job_id, None)


class Transaction:
    """Changes to a State that can be undone until they are committed."""

    def __init__(self, state: State, now: float) -> None:
        self.state = state
        self.now = now
        self._undo: list[Callable[[], object]] = []
        self._requests: dict[JobId, Request] = {}
        self._jobs: dict[JobId, None] = {}
        self._gone_jobs: dict[JobId, None] = {}
        self._states: dict[JobId, JobState | None] = {}
        self._nodes: dict[NodeName, None] = {}
        self._steps: dict[tuple[JobId, int, int], Step] = {}
        self._journal: list[JournalEntry] = []
        self._curves: list[JobCurve] = []
        self._runs: list[Job] = []
        self._usage: dict[tuple[str, str, str], None] = {}
        self._reservations: dict[str, None] = {}
        self.heirs: dict[JobId, JobId] = {}
        """Of jobs that have ended those that took their places."""
        self._ids_taken = False
        self._waits_changed = False

    def new_job_id(self) -> JobId:
        """The next free id; given back if the transaction is undone."""
        before = self.state.next_job_id
        self._undo.append(lambda: setattr(self.state, "next_job_id", before))
        self.state.next_job_id = before + 1
        self._ids_taken = True
        return JobId(before)

    def add_request(self, array_job_id: JobId, request: Request) -> None:
        """A new submission's request, or what takes its place."""
        before = self._requests.get(array_job_id)
        self._requests[array_job_id] = request
        self._undo.append(lambda: self._restore_request(array_job_id, before))

    def _restore_request(self, key: JobId, before: Request | None) -> None:
        if before is None:
            del self._requests[key]
        else:
            self._requests[key] = before

    def put_job(self, job: Job) -> Job:
        """Adds or replaces a job. Raises InvalidTransition where the state table does not lead."""
        before = self.state.jobs.get(job.id)
        self._states.setdefault(job.id, before.state if before is not None else None)
        if before is not None and before.state is not job.state and not may_become(before.state, job.state):
            raise InvalidTransition(f"job {before.label()}: {before.state} -> {job.state}")
        why = self.state.whys.get(job.id)
        self.state.place_job(job)
        self._jobs[job.id] = None
        self._undo.append(lambda: self._restore_job(job.id, before, why))
        if before is not None and before.holds_resources and not job.holds_resources:
            ran = (
                before if before.start_at_unix is not None else amend(before, start_at_unix=job.start_at_unix)
            )
            self._put_usage(charge(self.state, ran, ended_unix=min(job.end_at_unix or self.now, self.now)))
            self._learn(job)
        if job.state is JobState.CONFIGURING and (before is None or before.state is JobState.PENDING):
            self._put_wait(max(0.0, self.now - job.eligible_at_unix))
        return job

    def drop_job(self, job: Job) -> None:
        """Takes a waiting task's own record away: its array's holds it again."""
        self.state.drop_job(job.id)
        self._jobs.pop(job.id, None)
        self._gone_jobs[job.id] = None
        self._undo.append(lambda: self._undrop_job(job))

    def _undrop_job(self, job: Job) -> None:
        del self._gone_jobs[job.id]
        self._jobs[job.id] = None
        self.state.place_job(job)

    def put_step(self, step: Step) -> None:
        """Adds or replaces a step."""
        key = (step.job_id, step.restarts, step.number)
        before, change = dict(self.state.steps.get(step.job_id, {})), self._steps.get(key)
        self.state.place_step(step)
        self._steps[key] = step
        self._undo.append(lambda: self._restore_steps(key, before, change))

    def _restore_steps(
        self, key: tuple[JobId, int, int], before: dict[int, Step], change: Step | None
    ) -> None:
        self.state.steps[key[0]] = before
        if change is None:
            del self._steps[key]
        else:
            self._steps[key] = change

    def _learn(self, job: Job) -> None:
        """How long the user's jobs run."""
        predictor, user = self.state.predictor, job.user
        known = predictor.known(user)
        self.state.learn(job)
        self._undo.append(lambda: predictor.restore(user, known))

    def _put_wait(self, waited_s: float) -> None:
        """How long a job had waited that starts now."""
        state, before = self.state, self.state.waits
        after = before.after(waited_s, self.now)
        if after is not before:
            state.waits, self._waits_changed = after, True
            self._undo.append(lambda: setattr(state, "waits", before))

    def _put_usage(self, row: UsageRow | None) -> None:
        """What a job has used is known for good in the transaction with which it lets go of its resources."""
        if row is None:
            return
        used, before = self.state.used, self.state.used.get(row.key)
        used[row.key] = row
        self._usage[row.key] = None
        self._undo.append(lambda: used.pop(row.key) if before is None else used.update({row.key: before}))

    def put_node(self, node: Node) -> None:
        """Adds or replaces a node."""
        before = self.state.nodes.get(node.name)
        self.state.nodes[node.name] = node
        self.state.links.setdefault(node.name, Link.CONNECTING)
        self._nodes[node.name] = None
        self._undo.append(lambda: self._restore_node(node.name, before))

    def drop_node(self, name: NodeName) -> None:
        """Removes a node."""
        before = self.state.nodes[name]
        self.state.drop_node(name)
        self._nodes[name] = None
        self._undo.append(lambda: self._restore_node(name, before))

    def put_reservation(self, made: Reservation) -> None:
        """Adds a reservation."""
        self.state.reserved[made.name] = made
        self._reservations[made.name] = None
        self._undo.append(lambda: self.state.reserved.pop(made.name))

    def drop_reservation(self, name: str) -> None:
        """Removes a reservation that was made at run time."""
        before = self.state.reserved.pop(name)
        self._reservations[name] = None
        self._undo.append(lambda: self.state.reserved.update({name: before}))

    def put_curve(self, curve: JobCurve) -> None:
        """Keeps how a share's life went. The store alone has it: nobody here asks for it again."""
        self._curves.append(curve)
        self._undo.append(self._curves.pop)

    def put_run(self, job: Job) -> None:
        """Keeps how a start ended, of a job that goes back to the queue. The store alone has it."""
        self._runs.append(job)
        self._undo.append(self._runs.pop)

    def log(self, job_id: JobId, text: str) -> None:
        """Appends a line to the job's history."""
        self._journal.append(JournalEntry(at_unix=self.now, job_id=job_id, text=text))
        self._undo.append(self._journal.pop)

    def mark(self) -> int:
        """A savepoint for `undo`."""
        return len(self._undo)

    def undo(self, mark: int = 0) -> None:
        """Takes back everything since the savepoint."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def changes(self) -> Changes:
        """What is to be committed."""
        nodes = self.state.nodes
        return Changes(
            requests=tuple(self._requests.items()),
            jobs=tuple(self.state.jobs[job_id] for job_id in self._jobs if job_id in self.state.jobs),
            gone_jobs=tuple(self._gone_jobs),
            nodes=tuple(nodes[name] for name in self._nodes if name in nodes),
            gone_nodes=tuple(name for name in self._nodes if name not in nodes),
            journal=tuple(self._journal),
            curves=tuple(self._curves),
            next_job_id=self.state.next_job_id if self._ids_taken else None,
            reservations=tuple(
                self.state.reserved[name] for name in self._reservations if name in self.state.reserved
            ),
            gone_reservations=tuple(name for name in self._reservations if name not in self.state.reserved),
            waits=self.state.waits if self._waits_changed else None,
            usage=tuple(self.state.used[key] for key in self._usage if key in self.state.used),
            steps=tuple(self._steps.values()),
            runs=tuple(self._runs),
        )

    def touched_jobs(self) -> Iterable[JobId]:
        return self._jobs | self._gone_jobs | {key[0]: None for key in self._steps}

    def states_before(self) -> Mapping[JobId, JobState | None]:
        """Of the jobs that it has changed the states in which it found them; None: it has made them."""
        return self._states

    def touched_nodes(self) -> Iterable[NodeName]:
        return self._nodes

    def _restore_job(self, job_id: JobId, before: Job | None, why: Why | None) -> None:
        if before is None:
            self.state.drop_job(job_id)
            return
        self.state.place_job(before)
        if why is not None:
            self.state.whys[job_id] = why

    def _restore_node(self, name: NodeName, before: Node | None) -> None:
        if before is None:
            self.state.drop_node(name)
        else:
            self.state.nodes[name] = before
            self.state.links.setdefault(name, Link.CONNECTING)


def amend(thing: _T, **changes: object) -> _T:
    """A copy of a job, share or node with these fields changed."""
    return msgspec.structs.replace(thing, **changes)
