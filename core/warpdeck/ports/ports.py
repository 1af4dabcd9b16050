"""What the controller needs of the world, as protocols: a store and a fleet. Clock and ids are arguments too.

Real ones: store.sqlite.SqliteStore, fleet.ssh fleet; in memory: store.memory.MemoryStore, sim's fleet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from warpdeck.model import Condition, Job, JobCurve, JobId, Node, NodeName, Request, Reservation
from warpdeck.model.created_by_nonce import Made
from warpdeck.model.past import GroupCost, PastQuery
from warpdeck.model.step import Step
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire

WAITS_PERIOD_S = 28 * 86_400.0
"""Long against any usual wait; and after two of them a wait such as that for a repaired machine is forgotten."""
LAST_RUNS = 8
"""Ended jobs of each user from which a starting controller learns how long the user's jobs run: enough to find two that
ended by themselves."""


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a job's history, kept for ever."""

    at_unix: float
    job_id: JobId
    text: str


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the ended jobs of a user in an account under a QoS have used, in TRES-seconds that have decayed to `at_unix`.

    Jobs that hold resources are not in it: what they have used follows from their start.
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
    """The longest that any job had waited when it started, lately: in this period and the one before it."""

    since_unix: float = 0.0
    """When this period began."""
    longest_this_s: float = 0.0
    longest_before_s: float = 0.0

    def longest_s(self, now: float) -> float:
        """The longest of both, as far as they are not over."""
        past = now - self.since_unix
        if past >= 2 * WAITS_PERIOD_S:
            return 0.0
        if past >= WAITS_PERIOD_S:
            return self.longest_this_s
        return max(self.longest_this_s, self.longest_before_s)

    def after(self, waited_s: float, now: float) -> Waits:
        """With one start more."""
        if now - self.since_unix < WAITS_PERIOD_S:
            if waited_s <= self.longest_this_s:
                return self
            return msgspec.structs.replace(self, longest_this_s=waited_s)
        return Waits(since_unix=now, longest_this_s=waited_s, longest_before_s=self.longest_s(now))


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction: rows to write whole, rows to drop, history to append, the next free id.

    `requests` are new submissions by array_job_id, and changed ones by a key below 0 (Job.request_key); `jobs` refer to them
    and are written without them.
    """

    requests: tuple[tuple[JobId, Request], ...] = ()
    jobs: tuple[Job, ...] = ()
    gone_jobs: tuple[JobId, ...] = ()
    """Records of tasks that were split off and never began, and wait in their array's record again."""
    nodes: tuple[Node, ...] = ()
    gone_nodes: tuple[NodeName, ...] = ()
    journal: tuple[JournalEntry, ...] = ()
    curves: tuple[JobCurve, ...] = ()
    next_job_id: int | None = None
    usage: tuple[UsageRow, ...] = ()
    waits: Waits | None = None
    reservations: tuple[Reservation, ...] = ()
    gone_reservations: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    runs: tuple[Job, ...] = ()
    """Starts of jobs that are in the queue again, as they ended."""
    conditions: tuple[Condition, ...] = ()
    """Of nodes, from a moment on; those of a node that is gone go with it."""
    made: tuple[Made, ...] = ()
    gone_made: tuple[Made, ...] = ()
    """What need not be known any more."""

    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return self == Changes()


class UnreadableRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the database that could not be decoded and was set aside. `key` is its key's columns, separated by spaces."""

    table: str
    key: str
    reason: str = ""

    @property
    def words(self) -> str:
        """The row as people name it: "job 12", "node gpu1", "step 12 0 3"."""
        return f"{self.table.removesuffix('s')} {self.key}"


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What a store holds for a starting controller: unfinished jobs, and those that ended after `since`."""

    controller_id: str
    next_job_id: int
    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...]
    usage: tuple[UsageRow, ...] = ()
    waits: Waits = Waits()
    reservations: tuple[Reservation, ...] = ()
    last_runs: tuple[Job, ...] = ()
    """Of each user the last few jobs that ended, oldest first; without their requests."""
    steps: tuple[Step, ...] = ()
    """Those that have not ended."""
    conditions: tuple[Condition, ...] = ()
    """The last of each node."""
    unreadable: tuple[UnreadableRow, ...] = ()
    """Rows that were set aside, now or before."""
    made: tuple[Made, ...] = ()
    """What requests have made, the oldest first."""


class PastPage(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of ended jobs in the order that was asked for; `total`: of how many, where that was asked."""

    ids: tuple[JobId, ...]
    total: int | None = None


class Store(Protocol):
    """Durable state. `commit` returns when the transaction is on disk, or raises StoreError and has kept nothing."""

    async def load(self, *, finished_since_unix: float) -> Loaded: ...
    async def commit(self, changes: Changes) -> None: ...
    async def job(self, job_id: JobId) -> Job | None: ...
    async def named(self, number: JobId) -> list[Job]:
        """The jobs of any age that a plain number means: a whole submission by id, or the array task with that id."""
        ...

    async def jobs(self, numbers: Sequence[JobId]) -> list[Job]:
        """Those of these ids that there are, by id."""
        ...

    async def ended_ids(self, *, users: Sequence[str], since_unix: float, until_unix: float) -> list[JobId]:
        """Ended jobs of these users (() is all) that were submitted by `until_unix` and ended at `since_unix` or later."""
        ...

    async def run_ids(self, *, users: Sequence[str], since_unix: float, until_unix: float) -> list[JobId]:
        """As `ended_ids`, of jobs whose earlier starts ended then; whatever became of them since."""
        ...

    async def runs_of(self, numbers: Sequence[JobId]) -> list[Job]:
        """The earlier starts of these jobs, job by job, as each ended (Changes.runs)."""
        ...

    async def steps_of(self, numbers: Sequence[JobId]) -> list[Step]:
        """The steps of these jobs, job by job, in the order of their starts and numbers."""
        ...

    async def past(self, query: PastQuery, *, counted: bool) -> PastPage:
        """A page of the ended jobs that a question means. Raises UserError."""
        ...

    async def past_costs(self, query: PastQuery) -> list[GroupCost]:
        """What they have cost, in groups, in no order. Raises UserError."""
        ...

    async def finished_jobs(self, *, user: str | None, limit: int) -> list[Job]: ...
    async def journal(self, job_id: JobId) -> list[JournalEntry]: ...
    async def last_entries(self, limit: int) -> list[JournalEntry]:
        """What happened last to any job, the latest first."""
        ...

    async def steps(self, job_id: JobId) -> list[Step]:
        """All steps of a job, in the order of its starts and of their numbers."""
        ...

    async def conditions(self, at_unix: float) -> list[Condition]:
        """Of each node the one that it was in at that moment, as far as it is known."""
        ...

    async def curves(self, job_id: JobId, *, step: int | None = None) -> list[JobCurve]:
        """How a job's life went, by node."""
        ...

    async def close(self) -> None: ...


class PackedTree(msgspec.Struct, frozen=True, kw_only=True):
    """A packed snapshot in the controller's cache; `path` is its tar.gz."""

    tree: str
    sha256: str
    size_bytes: int
    path: str


MOST_CONDITIONS = 2_000
"""Of one node: the link of a bad one may break each minute, and a day of that is enough."""
NEXT_ATTEMPT = "; next attempt in"
"""What stands in a lost link's reason behind the reason itself."""
LINK_BROKE = "the link to the node broke"
"""With what the streams of a link end that was lost; what they led to goes on."""
NodeAsk = wire.OpenLog | wire.OpenPty | wire.OpenTunnel
"""What opens a stream from a node."""


class StreamSink(Protocol):
    """Where a node stream's bytes go. `data` may wait (flow control); of a tunnel an empty chunk says that no more follow.
    `ended` comes once."""

    async def opened(self, offset: int, size_bytes: int, path: str) -> None: ...
    async def data(self, chunk: bytes) -> None: ...
    async def ended(self, error: str) -> None: ...


class NodeStream(Protocol):
    """A running stream from a node. An empty chunk written into a tunnel says that no more follow."""

    async def write(self, data: bytes) -> None: ...
    async def resize(self, rows: int, cols: int) -> None: ...
    async def close(self) -> None: ...


class StepPipe(Protocol):
    """The way to the tasks of a step on one node; `on_taken` tells of each piece that they have taken."""

    def write_piece(self, piece: bytes) -> None:
        """Input with its header, no larger than a chunk, in one frame."""
        ...

    async def close(self) -> None: ...


FleetEvent = tuple[
    NodeName,
    wire.Welcome
    | wire.JobReport
    | wire.LaunchFailed
    | wire.GivenBack
    | wire.Remark
    | wire.Sample
    | wire.Health
    | stepwire.StepReport
    | stepwire.StepFence
    | str,
]
"""What comes from a node: a message, or "lost" when the link breaks (it reconnects by itself)."""
SAMPLE_S = 1.0
"""Between two samples of a node that was not told otherwise."""
Order = (
    wire.Kill
    | wire.TakeBack
    | wire.SetLimit
    | wire.Forget
    | wire.AskHealth
    | wire.SampleEvery
    | wire.Notice
    | stepwire.StepLaunch
    | stepwire.StepKill
    | stepwire.ForgetStep
    | stepwire.StepFenced
)
"""What a node is told in passing: nobody waits for an answer."""


class Fleet(Protocol):
    """The nodes' agents. Sending to a node without a link is silent: its next Welcome settles what is owed."""

    def start(self, on_event: Callable[[FleetEvent], None], heard: Callable[[], Awaitable[None]]) -> None:
        """`heard` returns when all events up to then were dealt with: who waits for it reads a node no further than that."""
        ...

    async def add(
        self, node: Node, *, accept_host_key: str, progress: Callable[[str], Awaitable[None]]
    ) -> tuple[Node, wire.Welcome]:
        """Probe, deploy, connect and keep the link. Returns the node with its accepted host key. Raises UserError."""
        ...

    def connect(self, node: Node) -> None:
        """Keep a link to a node that was added before, for ever, with capped back-off."""
        ...

    async def remove(self, name: NodeName) -> None: ...
    def is_up(self, name: NodeName) -> bool: ...
    async def launch(self, name: NodeName, launch: wire.Launch, tree: PackedTree | None) -> None: ...
    async def send(self, name: NodeName, message: Order) -> None: ...
    async def reserve_port(self, name: NodeName, *, job_id: JobId, restarts: int) -> int:
        """A port that is free on the node, kept for the launch. Raises RemoteError."""
        ...

    async def check_health(self, name: NodeName, asked: wire.AskHealth) -> wire.Health:
        """Has the node look at everything anew. Raises RemoteError where there is no link, or no answer in time."""
        ...

    async def curves(self, name: NodeName, asked: wire.AskCurves) -> wire.Curves:
        """What the node has measured over time. Raises RemoteError."""
        ...

    async def moment(self, name: NodeName, *, at_unix: float) -> wire.Moment:
        """What the node and its GPUs were like then. Raises RemoteError, soon: somebody is looking on."""
        ...

    async def open_stream(self, name: NodeName, message: NodeAsk, sink: StreamSink) -> NodeStream:
        """`message.stream` is filled in by the fleet. Raises RemoteError where there is no link."""
        ...

    async def open_step(
        self,
        name: NodeName,
        message: stepwire.OpenStep,
        sink: StreamSink,
        *,
        on_taken: Callable[[int], None],
    ) -> StepPipe:
        """The streams of a step's tasks on a node, both ways. Raises RemoteError where there is no link."""
        ...

    async def close(self) -> None: ...


class TreeCache(Protocol):
    """Packed snapshots that users uploaded, kept apart by user."""

    def find(self, uid: int, tree: str) -> PackedTree | None: ...


class OutputFile(Protocol):
    """A user's file on the submit host, opened as that user. `length`: in bytes, when it was opened. Raises OSError."""

    @property
    def length(self) -> int: ...

    async def piece(self, at: int) -> bytes:
        """What lies there, as much as one answer holds; nothing at the file's end."""
        ...

    async def close(self) -> None: ...


class OutputCollector(Protocol):
    """Brings output that was written on a node to the submit host's files."""

    def start(self, on_note: Callable[[JobId, str], None]) -> None:
        """What a job's user should know of it goes to `on_note`."""
        ...

    def begin(
        self,
        job_id: JobId,
        restarts: int,
        node: NodeName,
        *,
        files: dict[str, str],
        append: bool,
        uid: int,
        umask: int,
    ) -> None:
        """Starts following; repeating it is harmless. `files`: channel (out, err) -> path on the submit host, made as that user
        with that umask."""
        ...

    async def finished(self, job_id: JobId, restarts: int, node: NodeName) -> None:
        """Returns when everything of this launch was brought here (at once, if nothing was begun)."""
        ...

    async def read(self, path: str, *, uid: int) -> OutputFile:
        """Opens a plain file with that user's rights. Raises OSError, TimeoutError where its file system does not answer."""
        ...
