"""The store of jobs, nodes and their history, as the controller uses it.

The real one is store.sqlite.SqliteStore; store.memory.MemoryStore keeps all data in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from warpdeck.model import Condition, Job, JobCurve, JobId, Node, NodeName, Request, Reservation
from warpdeck.model.created_by_nonce import CreatedObject
from warpdeck.model.finished_jobs import FinishedQuery, GroupCost
from warpdeck.model.recovery import Recovery
from warpdeck.model.step import Step
from warpdeck_agent.wire import messages as wire

WAITS_PERIOD_S = 28 * 86_400.0
"""Length in seconds of a period for the longest wait.

It is long compared with any usual wait. After two periods an unusual wait, such as one for a machine under
repair, is forgotten.
"""
LAST_RUNS = 8
"""Number of ended jobs per user from which a starting controller predicts run times.

This number usually includes two jobs that ended by themselves.
"""
MAX_CONDITIONS = 2_000
"""Maximum number of stored conditions of one node.

A bad link may break each minute, so this covers more than a day.
"""


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a job's history. It is kept as long as the job."""

    at_unix: float
    job_id: JobId
    text: str


class UsageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of the ended jobs of a user in an account under a QoS, in TRES-seconds decayed to `at_unix`.

    Jobs that hold resources are not included, because their usage is computed from their start.
    """

    account: str
    user: str
    qos: str
    at_unix: float
    tres: dict[str, float]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.account, self.user, self.qos


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """The longest wait of any job that started in this period or the previous one."""

    since_unix: float = 0.0
    """Start of this period."""
    longest_this_s: float = 0.0
    longest_before_s: float = 0.0

    def longest_s(self, now: float) -> float:
        """Return the longest wait of both periods. Periods that are too old are ignored."""
        elapsed_s = now - self.since_unix
        if elapsed_s >= 2 * WAITS_PERIOD_S:
            return 0.0
        if elapsed_s >= WAITS_PERIOD_S:
            return self.longest_this_s
        return max(self.longest_this_s, self.longest_before_s)

    def after(self, waited_s: float, now: float) -> Waits:
        """Return the waits with one more start."""
        if now - self.since_unix < WAITS_PERIOD_S:
            if waited_s <= self.longest_this_s:
                return self
            return msgspec.structs.replace(self, longest_this_s=waited_s)
        return Waits(since_unix=now, longest_this_s=waited_s, longest_before_s=self.longest_s(now))


class PartsBlob(msgspec.Struct, frozen=True, kw_only=True):
    """Large parts of a request of this user, encoded, and their digest (see `notation.request.large_parts`)."""

    uid: int
    sha256: str
    content: bytes


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction: rows to write, rows to delete, lines of history to append, and the next free id.

    `requests` are new submissions by array_job_id, and changed requests by a negative key (Job.request_key).
    `jobs` refer to these requests and are written without them.
    """

    requests: tuple[tuple[JobId, Request], ...] = ()
    parts: tuple[PartsBlob, ...] = ()
    """Large parts of these requests."""
    jobs: tuple[Job, ...] = ()
    gone_jobs: tuple[JobId, ...] = ()
    """Records of tasks that were split off, never started, and were merged into their array's record again.
    """
    nodes: tuple[Node, ...] = ()
    gone_nodes: tuple[NodeName, ...] = ()
    journal: tuple[JournalEntry, ...] = ()
    curves: tuple[JobCurve, ...] = ()
    next_job_id: int | None = None
    usage: tuple[UsageRecord, ...] = ()
    waits: Waits | None = None
    reservations: tuple[Reservation, ...] = ()
    gone_reservations: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    runs: tuple[Job, ...] = ()
    """Ended starts of jobs that were requeued."""
    conditions: tuple[Condition, ...] = ()
    """New conditions of nodes. All conditions of a removed node are deleted with it."""
    created: tuple[CreatedObject, ...] = ()
    gone_created: tuple[CreatedObject, ...] = ()
    """Records of requests that are no longer needed."""
    start: wire.ControllerStart | None = None
    """A new start of the controller. It ends a fence."""
    fenced_by: wire.ControllerStart | None = None
    """The start that the agents obey instead of this controller."""
    recovery: Recovery | None = None

    def is_empty(self) -> bool:
        """Return whether there is nothing to commit."""
        return self == Changes()


class UnreadableRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the database that could not be decoded and was set aside.

    `key` holds the columns of its key, separated by spaces.
    """

    table: str
    key: str
    reason: str = ""

    @property
    def description(self) -> str:
        """The row as text: "job 12", "node gpu1", "step 12 0 3"."""
        return f"{self.table.removesuffix('s')} {self.key}"


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Data that a starting controller loads from the store. The jobs are unfinished or ended recently."""

    controller_id: str
    next_job_id: int
    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...]
    usage: tuple[UsageRecord, ...] = ()
    waits: Waits = Waits()
    reservations: tuple[Reservation, ...] = ()
    last_runs: tuple[Job, ...] = ()
    """The last few ended jobs of each user, oldest first, without their requests."""
    steps: tuple[Step, ...] = ()
    """Unfinished steps."""
    conditions: tuple[Condition, ...] = ()
    """The last condition of each node."""
    unreadable: tuple[UnreadableRow, ...] = ()
    """Rows that were set aside now or earlier."""
    created: tuple[CreatedObject, ...] = ()
    """Objects that requests have created, oldest first."""
    start: wire.ControllerStart = wire.ControllerStart()
    """The last committed start of the controller."""
    fenced_by: wire.ControllerStart | None = None
    """The start that the agents obey instead; None if the controller is not fenced."""
    recovery: Recovery = Recovery()


class FinishedPage(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of ended jobs in the requested order.

    `total` is the number of all matching jobs, if it was requested.
    """

    ids: tuple[JobId, ...]
    total: int | None = None


class Store(Protocol):
    """The database of jobs, nodes and their history.

    `commit` returns when the transaction is on disk, or raises StoreError and has stored nothing.
    """

    async def load(self, *, finished_since_unix: float) -> Loaded: ...
    async def commit(self, changes: Changes) -> None: ...
    async def job(self, job_id: JobId) -> Job | None: ...
    async def named(self, number: JobId) -> list[Job]:
        """Return the jobs of any age that a plain job number names.

        The number names a whole submission by its id, or the array task with that id.
        """
        ...

    async def parts(self, uid: int, sha256: str) -> bytes | None:
        """Return large parts of a request of this user, or None if they are not stored any more."""
        ...

    async def jobs(self, numbers: Sequence[JobId]) -> list[Job]:
        """Return the existing jobs with these ids, ordered by id."""
        ...

    async def ended_ids(self, *, users: Sequence[str], since_unix: float, until_unix: float) -> list[JobId]:
        """Return the ids of ended jobs of these users; () means all users.

        The jobs were submitted by `until_unix` and ended at `since_unix` or later.
        """
        ...

    async def run_ids(self, *, users: Sequence[str], since_unix: float, until_unix: float) -> list[JobId]:
        """Return the ids of jobs with earlier starts that ended in that time.

        The present state of the jobs does not matter. See `ended_ids`.
        """
        ...

    async def runs_of(self, numbers: Sequence[JobId]) -> list[Job]:
        """Return the earlier starts of these jobs, each in its final state (Changes.runs), job by job."""
        ...

    async def steps_of(self, numbers: Sequence[JobId]) -> list[Step]:
        """Return the steps of these jobs, job by job, ordered by start and number."""
        ...

    async def search_finished(self, query: FinishedQuery, *, counted: bool) -> FinishedPage:
        """Return a page of the ended jobs that match the query. Raises UserError."""
        ...

    async def finished_costs(self, query: FinishedQuery) -> list[GroupCost]:
        """Return the costs of the jobs that match the query, in unordered groups. Raises UserError."""
        ...

    async def finished_jobs(self, *, user: str | None, limit: int) -> list[Job]: ...
    async def journal(self, job_id: JobId) -> list[JournalEntry]: ...
    async def last_entries(self, limit: int) -> list[JournalEntry]:
        """Return the latest history lines of any job, the newest first."""
        ...

    async def steps(self, job_id: JobId) -> list[Step]:
        """Return all steps of a job, ordered by start and number."""
        ...

    async def conditions(self, at_unix: float) -> list[Condition]:
        """Return the condition of each node at that time, as far as it is known."""
        ...

    async def conditions_between(self, since_unix: float, until_unix: float) -> list[Condition]:
        """Return the conditions that began in this range, and for each node the one at its begin, in order of time."""
        ...

    async def curves(self, job_id: JobId, *, step: int | None = None) -> list[JobCurve]:
        """Return the measurement curves of a job, or of one of its steps, by node."""
        ...

    async def close(self) -> None: ...
