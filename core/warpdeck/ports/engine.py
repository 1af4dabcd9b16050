"""The interface between the API server and a scheduler.

An engine is a scheduler as the API server uses it. The native engine is the controller of this program. An
`Engine` is a record of small interfaces, one for each subject. Every engine passes the same contract suite
(tests/integration/engines/contract.py).

The methods follow a few rules:

- A method takes the client's identity and a request of `warpdeck.protocol`. The engine decides what this client
  may see and do. The API server only keeps requests for admins from other users.
- It returns a result of `warpdeck.protocol` or raises UserError. RemoteError and StoreError mean that a node or
  the database failed.
- A long list is returned as `Rows`: rows are built when the server reads a slice of them, so that the server can
  answer short requests between two slices. A list that may not fit into memory is an async iterator of pages.
- A request that creates something carries a nonce. The engine keeps the nonce in the transaction that creates the
  object, so that a repeated request creates nothing. `protocol.nonces` computes its key.
- A method that may wait for a long time reports its progress in lines.

The API server does the rest: the socket, the greeting, access, quotas, pages, flow control and the list of
forwarded ports.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from warpdeck.base.chunking import Rows
from warpdeck.model import JobId, NodeName
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.job_rows import JobDetail, JobRow, JobVariables, LiveStep, PastJobs, UsageCurves
from warpdeck.protocol.node_rows import NodeFacts, NodeRow, PastNodeRow
from warpdeck.protocol.site_rows import EngineRow, ForecastRow, QuotaRow, StandbyRow

from .caller import Caller, Principal
from .engine_streams import ByteSource, CommandText, EndedStep, HeldAllocation, RunningStep

Progress = Callable[[str], Awaitable[None]]
"""Reports a line of progress to the client."""


class Action(StrEnum):
    """The actions that a scheduler may be unable to perform. Each value is the tag of a request."""

    SUBMIT = "submit"
    RERUN = "rerun"
    DRY_RUN = "dry_run"
    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    REQUEUE = "requeue"
    PAUSE = "pause"
    SUSPEND = "suspend"
    RESUME = "resume"
    UPDATE = "job_update"
    TELL = "tell"
    ANNOTATE = "job_annotate"
    RECORD_CODE = "code_recorded"
    FORECAST = "forecast"
    PRIORITIES = "priorities"
    SHARES = "shares"
    LIMIT_USE = "limit_use"
    RECORDS = "records"
    PAST = "past"
    PAST_COSTS = "past_costs"
    EVENTS = "events"
    CURVES = "curves"
    NODES_AT = "nodes_at"
    TIMELINE = "timeline"
    NODE_CHECK = "node_check"
    NODE_ADD = "node_add"
    NODE_DRAIN = "node_drain"
    NODE_RESUME = "node_resume"
    NODE_REMOVE = "node_rm"
    RESERVE = "reservation_make"
    UNRESERVE = "reservation_rm"
    LOG = "log"
    ATTACH = "attach"
    TUNNEL = "tunnel"
    FORWARD = "forward"
    RUN = "run"
    SESSION = "session"
    STEP = "srun"
    ALLOCATE = "salloc"
    CONFIG = "config"
    RELOAD = "reload"
    AMEND = "amend"
    STANDBY = "standby"
    STANDBY_SET = "standby_set"
    STANDBY_REMOVE = "standby_rm"
    TAKEOVER = "takeover"
    RECOVER = "recover"


CHANGES = frozenset(
    {
        *(
            Action.SUBMIT,
            Action.RERUN,
            Action.CANCEL,
            Action.HOLD,
            Action.RELEASE,
            Action.REQUEUE,
            Action.PAUSE,
            Action.SUSPEND,
        ),
        *(Action.RESUME, Action.UPDATE, Action.TELL, Action.ANNOTATE, Action.RECORD_CODE, Action.NODE_ADD),
        *(
            Action.NODE_DRAIN,
            Action.NODE_RESUME,
            Action.NODE_REMOVE,
            Action.RESERVE,
            Action.UNRESERVE,
            Action.RUN,
        ),
        *(Action.SESSION, Action.STEP, Action.ALLOCATE, Action.RELOAD, Action.AMEND, Action.STANDBY_SET),
        Action.RECOVER,
    }
)
"""The actions that change jobs, nodes or the configuration."""
UNSUPPORTED = "unsupported"
"""Code of the error for an action that the scheduler cannot perform."""


class SiteSummary(NamedTuple):
    """The numbers of jobs by state and of nodes, the unreadable database rows, the epoch, and the standby."""

    jobs: dict[str, int]
    nodes: int
    unreadable: list[str]
    standby: StandbyRow | None = None
    epoch: int = 0
    fenced: bool = False
    recovery: bool = False


class EngineSite(Protocol):
    """The scheduler as a whole, and its configuration."""

    @property
    def identity(self) -> str:
        """An identifier that stays the same as long as the database does."""
        ...

    def capabilities(self) -> Mapping[Action, str]:
        """Return each action with the reason why it is impossible, or with "" if it is possible.

        The server refuses impossible actions with this reason.
        """
        ...

    def with_rights(self, who: Principal) -> Principal:
        """Return the user with the rights that the configuration gives this user now."""
        ...

    def about(self) -> EngineRow:
        """Return the scheduler's name and version, and the age of its data."""
        ...

    def quota(self, who: Principal) -> QuotaRow | None:
        """Return the caller's use of the quotas and their limits, or None if the scheduler has no quotas."""
        ...

    def summary(self) -> SiteSummary: ...
    def count_request(self, kind: str, user: str, took_s: float) -> None:
        """Count an answered request, for `diagnosis`."""
        ...

    async def diagnosis(self, caller: Caller, message: ask.Diagnosis) -> results.SchedulerDiagnosis:
        """Return the scheduler's statistics. With `reset` they begin again at 0, which only admins may do."""
        ...

    async def partitions(self, caller: Caller, message: ask.Partitions) -> results.PartitionList: ...
    async def reservations(self, caller: Caller, message: ask.Reservations) -> results.ReservationList: ...
    async def licenses(self, caller: Caller, message: ask.Licenses) -> results.LicenseList: ...
    async def settings(self, caller: Caller, message: ask.Settings) -> results.SlurmParameters: ...
    async def plugin_options(
        self, caller: Caller, message: ask.PluginOptions
    ) -> results.PluginOptionList: ...
    async def config(self, caller: Caller, message: ask.ConfigInForce) -> results.ConfigText: ...
    async def reload(self, caller: Caller, message: ask.Reload) -> results.Reloaded:
        """Put the configuration file into force. If it has an error, nothing changes."""
        ...

    async def amend(self, caller: Caller, message: ask.Amend) -> results.Reloaded:
        """Change the configuration file and put it into force. If that fails, the file is unchanged."""
        ...

    async def recover(self, caller: Caller, message: ask.Recover) -> results.Recovery:
        """Adopt or discard the launches of the nodes that the database does not explain."""
        ...

    async def take_over(self, caller: Caller, message: ask.Takeover) -> results.TakenOver:
        """Make the nodes obey this controller instead of another one with the same identity."""
        ...


class EngineStandby(Protocol):
    """The copy of the scheduler's state on a second machine."""

    async def look(self, caller: Caller, message: ask.Standby) -> results.StandbyInfo: ...
    async def set_up(
        self, caller: Caller, message: ask.StandbySet, progress: Progress
    ) -> results.StandbyInfo: ...
    async def remove(self, caller: Caller, message: ask.StandbyRemove) -> results.Result: ...


class EngineAccounting(Protocol):
    """Priorities, shares and limits."""

    async def priorities(self, caller: Caller, message: ask.Priorities) -> results.PriorityList: ...
    async def shares(self, caller: Caller, message: ask.Shares) -> results.ShareTree: ...
    async def limit_use(self, caller: Caller, message: ask.LimitUse) -> results.LimitUseList: ...
    async def qos(self, caller: Caller, message: ask.QosList) -> results.QosLevels: ...


DeltaPage = Callable[[], Awaitable[results.Delta]]
"""Builds a page of changes. A page that was not built yet has the changes until then."""


class EndsOfJobs(Protocol):
    """A client's wait for the starts and ends of submissions."""

    def __len__(self) -> int:
        """Return the number of submissions that are still waited for."""
        ...

    def add(self, numbers: Iterable[int]) -> None:
        """Wait for these submissions, too."""
        ...

    def messages(self) -> AsyncGenerator[results.Ends, None]:
        """Yield each start and end once, and forever: first the ends that have happened already."""
        ...

    def close(self) -> None:
        """Stop waiting."""
        ...


class EngineJobs(Protocol):
    """The jobs in the queue."""

    def owner(self, job_id: JobId, *, restarts: int, node: NodeName) -> Principal | None:
        """Return the user of a start of a job, or None if it does not run on the node."""
        ...

    async def rows(self, caller: Caller, message: ask.Jobs) -> Rows[JobRow | dict[str, Any]]:
        """Return the newest jobs that match, oldest first. Selected fields are rows of their own."""
        ...

    async def steps(self, caller: Caller, message: ask.Steps) -> Rows[LiveStep]: ...
    async def detail(self, caller: Caller, message: ask.JobInfo) -> JobDetail: ...
    async def environment(self, caller: Caller, message: ask.JobEnvironment) -> JobVariables:
        """Return the environment of a job to its owner, and to no other user."""
        ...

    async def forecast(self, caller: Caller, message: ask.Forecast) -> ForecastRow:
        """Return why a job waits, its expected start, and the changes that would start it now."""
        ...

    def changes(self, caller: Caller, message: ask.Subscribe) -> AsyncGenerator[DeltaPage, None]:
        """Yield all rows, then changes as they happen.

        Changes that the reader has not taken yet are merged, so that a slow reader costs little memory.
        """
        ...

    def ends(self, caller: Caller, message: ask.AwaitEnds) -> EndsOfJobs: ...


class TreeUpload(Protocol):
    """An upload of a packed code snapshot. The methods raise UserError."""

    def write(self, data: bytes) -> None: ...
    def finish(self) -> None:
        """Verify the upload and store it."""
        ...

    def abandon(self) -> None:
        """Discard the upload if it is not finished."""
        ...


class EngineSubmissions(Protocol):
    """New jobs and their code."""

    async def submit(self, caller: Caller, message: ask.Submit) -> results.SubmittedJob:
        """Submit a job. It is on disk when the result is returned."""
        ...

    async def rerun(self, caller: Caller, message: ask.Rerun) -> results.SubmittedJob:
        """Submit a recorded job of this client again, with all components of a heterogeneous job."""
        ...

    async def dry_run(self, caller: Caller, message: ask.DryRun) -> ForecastRow:
        """Return the expected outcome of a submission now. A refusal is a forecast too."""
        ...

    async def find_tree(self, caller: Caller, message: ask.HaveTree) -> results.StoredTree: ...
    async def receive_tree(self, caller: Caller, message: ask.PutTree) -> TreeUpload: ...


JobOrder = (
    ask.Hold | ask.Release | ask.Requeue | ask.Pause | ask.Tell | ask.Suspend | ask.Resume | ask.JobUpdate
)
"""Orders that change jobs and have the same form of result."""


class EngineOrders(Protocol):
    """The orders that change jobs.

    An order for several jobs is carried out for those that allow it, and the result names the others with the
    reasons. If no job allows it, this is an error.
    """

    async def cancel(self, caller: Caller, message: ask.Cancel) -> results.Canceled:
        """Cancel or signal jobs and steps.

        It is an error only if a single job is named and refused.
        """
        ...

    async def change(self, caller: Caller, message: JobOrder) -> results.Changed: ...
    async def record_code(self, caller: Caller, message: ask.CodeRecorded) -> results.Changed: ...
    async def annotate(self, caller: Caller, message: ask.JobAnnotate) -> results.Result:
        """Change the comments in the records of all these jobs, or of none."""
        ...


class EngineNodes(Protocol):
    """Nodes and their reservations."""

    async def rows(self, caller: Caller, message: ask.Nodes) -> Rows[NodeRow | NodeFacts]: ...
    async def past(self, caller: Caller, message: ask.NodesAt) -> Rows[PastNodeRow]:
        """Return the nodes at a past time. Facts that are not known are named, and never invented."""
        ...

    async def timeline(self, caller: Caller, message: ask.NodeTimeline) -> results.Timeline:
        """Return the events of nodes and the use of the GPUs in a range of time. Raises UserError."""
        ...

    async def health(self, caller: Caller, message: ask.NodeCheck) -> results.NodeHealth:
        """Return the health of nodes. For an admin all nodes check again."""
        ...

    async def add(self, caller: Caller, message: ask.NodeAdd, progress: Progress) -> NodeRow: ...
    async def drain(self, caller: Caller, message: ask.NodeDrain) -> NodeRow: ...
    async def resume(self, caller: Caller, message: ask.NodeResume) -> NodeRow: ...
    async def remove(self, caller: Caller, message: ask.NodeRemove) -> results.Result: ...
    async def reserve(self, caller: Caller, message: ask.ReservationMake) -> results.Result: ...
    async def unreserve(self, caller: Caller, message: ask.ReservationRemove) -> results.Result: ...


class ForwardedJob(NamedTuple):
    """A running job to which a port is forwarded."""

    label: str
    user: str
    node: str
    ended: Callable[[], Coroutine[Any, Any, None]]
    """Returns when this start of the job has ended."""


class EngineOutput(Protocol):
    """The bytes of jobs. The methods wait for the start of the job, and report its pending reasons meanwhile."""

    async def log(self, caller: Caller, message: ask.Log, progress: Progress) -> ByteSource: ...
    async def terminal(self, caller: Caller, message: ask.Attach, progress: Progress) -> ByteSource: ...
    async def tunnel(self, caller: Caller, message: ask.Tunnel, progress: Progress) -> ByteSource: ...
    async def forward(self, caller: Caller, message: ask.Forward, progress: Progress) -> ForwardedJob: ...
    async def settle(self, caller: Caller, message: ask.Settle) -> results.Result:
        """Wait a moment until all output of an ended job has arrived on the submit host."""
        ...


class StartedRun(NamedTuple):
    """The job of a command. `opened` is the answer to its client."""

    opened: results.OpenedJob
    outputs: Callable[[Progress], Awaitable[tuple[ByteSource, ByteSource]]]
    """Waits for the start and returns the sources of standard output and of standard error."""


class EngineSessions(Protocol):
    """Jobs of one command or one terminal. Their arguments are parsed by the engine."""

    async def run(self, caller: Caller, message: ask.Run) -> StartedRun: ...
    async def open(self, caller: Caller, message: ask.Session) -> results.OpenedJob:
        """Make a job with a terminal. The error code "steps" means that a step is needed."""
        ...


class EngineSteps(Protocol):
    """Steps of srun and allocations of salloc. Their arguments are parsed by the engine.

    A step or an allocation ends if its client disconnects. If the client was cut off, it may come back.
    """

    async def srun(
        self, caller: Caller, message: ask.Srun, progress: Progress
    ) -> RunningStep | CommandText | EndedStep:
        """Start a step, in a new allocation if the caller has none. It waits for resources."""
        ...

    async def srun_attach(self, caller: Caller, message: ask.SrunAttach) -> RunningStep: ...
    async def salloc(self, caller: Caller, message: ask.Salloc, progress: Progress) -> HeldAllocation:
        """Make an allocation and wait until it runs."""
        ...

    async def salloc_attach(self, caller: Caller, message: ask.SallocAttach) -> HeldAllocation: ...
    def start(self) -> None:
        """Note that clients can connect from now on. Steps and allocations end if their clients do not reconnect in time."""
        ...

    def stop(self) -> None:
        """Note that the server closes its connections. From now on nothing ends because its client leaves."""
        ...


class RecordPage(NamedTuple):
    """Rows of records. `is_last` is set if it is certain that no page follows."""

    rows: list[dict[str, Any]]
    is_last: bool


class EngineHistory(Protocol):
    """Jobs of any age, and measurements over time."""

    def records(self, caller: Caller, message: ask.Records) -> AsyncGenerator[RecordPage, None]:
        """Yield the records that match, ordered by id. A page is built when it is read."""
        ...

    async def past(self, caller: Caller, message: ask.Past) -> PastJobs: ...
    async def costs(self, caller: Caller, message: ask.PastCosts) -> results.CostGroups: ...
    async def events(self, caller: Caller, message: ask.Events) -> results.EventList: ...
    async def curves(self, caller: Caller, message: ask.Curves) -> UsageCurves: ...


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A scheduler: one interface for each subject."""

    site: EngineSite
    accounting: EngineAccounting
    jobs: EngineJobs
    submissions: EngineSubmissions
    orders: EngineOrders
    nodes: EngineNodes
    history: EngineHistory
    output: EngineOutput
    sessions: EngineSessions
    steps: EngineSteps
    standby: EngineStandby
