"""The changes to the controller's state: everything that is to be committed at once, and how each of it is undone.

So an event that is refused, or a commit that fails, leaves no trace in memory either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from warpdeck.base.errors import InvalidTransition
from warpdeck.model import (
    Job,
    JobCurve,
    JobId,
    JobState,
    Link,
    Node,
    NodeName,
    PendingReason,
    Request,
    Reservation,
    may_become,
)
from warpdeck.model.created_by_nonce import Made, Mark, place_made
from warpdeck.model.step import Step
from warpdeck.ports.ports import Changes, JournalEntry, UsageRow

from .accounting import charge
from .node_conditions import next_condition
from .state import State, amend

_K = TypeVar("_K")
_V = TypeVar("_V")


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
        self._conditions: dict[NodeName, None] = {}
        self._steps: dict[tuple[JobId, int, int], Step] = {}
        self._journal: list[JournalEntry] = []
        self._curves: list[JobCurve] = []
        self._runs: list[Job] = []
        self._usage: dict[tuple[str, str, str], None] = {}
        self._reservations: dict[str, None] = {}
        self.heirs: dict[JobId, JobId] = {}
        """Of jobs that have ended those that took their places."""
        self._made: list[Made] = []
        self._gone_made: list[Made] = []
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
        self._undo.append(lambda: _put_back(self._requests, array_job_id, before))

    def put_job(self, job: Job) -> Job:
        """Adds or replaces a job. Raises InvalidTransition where the state table does not lead."""
        before = self.state.jobs.get(job.id)
        self._states.setdefault(job.id, before.state if before is not None else None)
        if before is not None and before.state is not job.state and not may_become(before.state, job.state):
            raise InvalidTransition(f"job {before.label()}: {before.state} -> {job.state}")
        why = self.state.planned.whys.get(job.id)
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
        predictor, user = self.state.planned.predictor, job.user
        known = predictor.known(user)
        self.state.learn(job)
        self._undo.append(lambda: predictor.restore(user, known))

    def _put_wait(self, waited_s: float) -> None:
        """How long a job had waited that starts now."""
        state, before = self.state, self.state.planned.waits
        after = before.after(waited_s, self.now)
        if after is not before:
            state.planned.waits, self._waits_changed = after, True
            self._undo.append(lambda: setattr(state, "waits", before))

    def _put_usage(self, row: UsageRow | None) -> None:
        """What a job has used is known for good in the transaction with which it lets go of its resources."""
        if row is None:
            return
        used, before = self.state.used, self.state.used.get(row.key)
        used[row.key] = row
        self._usage[row.key] = None
        self._undo.append(lambda: _put_back(used, row.key, before))

    def put_node(self, node: Node) -> None:
        """Adds or replaces a node."""
        before = self.state.nodes.get(node.name)
        self.state.nodes[node.name] = node
        self.state.node_status.links.setdefault(node.name, Link.CONNECTING)
        self._nodes[node.name] = None
        self._undo.append(lambda: self._restore_node(node.name, before))
        self.note_condition(node.name)

    def note_condition(self, name: NodeName) -> None:
        """Writes down what the node is from now on, if that is another than it was: its drains, or its link, have changed."""
        state, before = self.state, self.state.node_status.conditions.get(name)
        link, reason = state.node_status.links[name], state.node_status.link_reasons.get(name, "")
        after = next_condition(state.nodes[name], link=link, link_reason=reason, before=before, now=self.now)
        if after is not None:
            state.node_status.conditions[name] = after
            self._conditions[name] = None
            self._undo.append(lambda: _put_back(state.node_status.conditions, name, before))

    def drop_node(self, name: NodeName) -> None:
        """Removes a node."""
        before, condition = self.state.nodes[name], self.state.node_status.conditions.get(name)
        self.state.drop_node(name)
        self._nodes[name] = None
        self._undo.append(lambda: _put_back(self.state.node_status.conditions, name, condition))
        self._undo.append(lambda: self._restore_node(name, before))

    def put_reservation(self, made: Reservation) -> None:
        """Adds a reservation, or puts it in the place of the one of its name."""
        before = self.state.reserved.get(made.name)
        self.state.place_reservation(made.name, made)
        self._reservations[made.name] = None
        self._undo.append(lambda: self.state.place_reservation(made.name, before))

    def drop_reservation(self, name: str) -> None:
        """Removes a reservation that was made at run time."""
        before = self.state.reserved[name]
        self.state.place_reservation(name, None)
        self._reservations[name] = None
        self._undo.append(lambda: self.state.place_reservation(name, before))

    def put_made(self, made: Made) -> None:
        """Keeps what a request has made. Entries that are too old or too many are gone, whatever becomes of this one."""
        table = self.state.made
        self._gone_made += place_made(table, made)
        self._made.append(made)
        self._undo.append(self._made.pop)
        self._undo.append(lambda: table[made.uid].pop(made.mark.nonce, None))

    def put_made_by_name(self, name: str, *, uid: int, mark: Mark | None) -> None:
        """The same of a node or a reservation, where the request for it may come again."""
        if mark is not None:
            self.put_made(Made(uid=uid, mark=mark, at_unix=self.now, job_id=0, label=name))

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
        nodes, conditions = self.state.nodes, self.state.node_status.conditions
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
            waits=self.state.planned.waits if self._waits_changed else None,
            usage=tuple(self.state.used[key] for key in self._usage if key in self.state.used),
            steps=tuple(self._steps.values()),
            runs=tuple(self._runs),
            made=tuple(self._made),
            gone_made=tuple(self._gone_made),
            conditions=tuple(conditions[name] for name in self._conditions if name in conditions),
        )

    def touched_jobs(self) -> Iterable[JobId]:
        return self._jobs | self._gone_jobs | {key[0]: None for key in self._steps}

    def states_before(self) -> Mapping[JobId, JobState | None]:
        """Of the jobs that it has changed the states in which it found them; None: it has made them."""
        return self._states

    def touched_nodes(self) -> Iterable[NodeName]:
        return self._nodes

    def _restore_job(self, job_id: JobId, before: Job | None, why: PendingReason | None) -> None:
        if before is None:
            self.state.drop_job(job_id)
            return
        self.state.place_job(before)
        if why is not None:
            self.state.planned.whys[job_id] = why

    def _restore_node(self, name: NodeName, before: Node | None) -> None:
        if before is None:
            self.state.drop_node(name)
        else:
            self.state.nodes[name] = before
            self.state.node_status.links.setdefault(name, Link.CONNECTING)


def _put_back(table: dict[_K, _V], key: _K, before: _V | None) -> None:
    """What a table held before it was changed; None is nothing."""
    if before is None:
        table.pop(key, None)
    else:
        table[key] = before
