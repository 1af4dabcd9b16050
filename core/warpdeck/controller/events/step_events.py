"""Events and effects about job steps. Like all events and effects, they are plain data."""

from __future__ import annotations

import msgspec

from warpdeck.model import JobId, NodeName
from warpdeck.model.step import StepOptions
from warpdeck.ports.caller import Principal
from warpdeck_agent.wire import steps as wire


class World(msgspec.Struct, frozen=True, kw_only=True):
    """All tasks that one srun starts on several components of a heterogeneous job.

    `nodes` are the nodes of these tasks in the order of ranks, and `tasks` is the number of tasks on each
    node.
    """

    nodes: tuple[NodeName, ...]
    tasks: tuple[int, ...]
    at: int = 0
    """Index in `nodes` of the first node of a step."""


class StepRequested(msgspec.Struct, frozen=True, kw_only=True):
    """A request of srun for a step.

    `first` is the node on which `port` was reserved; the layout must begin there.
    """

    principal: Principal = msgspec.field(name="who")
    job_id: JobId
    options: StepOptions = msgspec.field(name="ask")
    cwd: str
    mpi: str = "none"
    """Method by which the ranks find each other: none or pmi2."""
    caller: NodeName | None = None
    """The node on which srun runs; None if it is not a node of this cluster."""
    first: NodeName
    port: int = 0
    """Value of MASTER_PORT. It is 0 if the only node of the step chooses the port or the user has set it."""
    nonce: str = ""
    """Nonce of the request. A repeated request is answered with the step that it created before."""
    own_master: bool = False
    """If set, the user's MASTER_ADDR and MASTER_PORT are kept."""
    others: tuple[StepRequested, ...] = ()
    """Requests for the other components of a heterogeneous job.

    Either all components start or none. The ranks of each component continue the ranks of the component
    before it.
    """
    world: World | None = None
    """All tasks over all components, for a request with `others`."""


class StepEndRequested(msgspec.Struct, frozen=True, kw_only=True):
    """End a step or, with `signal`, send a signal to it."""

    principal: Principal
    job_id: JobId
    number: int
    cause: str = "cancelled"
    signal: int = 0


class HolderSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Report whether the client of an allocation, or the srun of a step, is connected."""

    job_id: JobId
    step: int | None = None
    is_connected: bool


class HolderLeft(msgspec.Struct, frozen=True, kw_only=True):
    """The client of an allocation (srun, salloc) has ended with this exit code, or has disappeared."""

    principal: Principal
    job_id: JobId
    code: int = 0
    signal: int = 0


class StepReported(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's report on the part of a step that runs on its node."""

    name: NodeName
    report: wire.StepReport


class LaunchStep(msgspec.Struct, frozen=True, kw_only=True):
    """Send a step's tasks to this node. Repeating it is harmless."""

    node: NodeName
    job_id: JobId
    number: int
    request: StepRequested


class KillStep(msgspec.Struct, frozen=True, kw_only=True):
    """End a step on this node or, with `signal`, only send that signal."""

    node: NodeName
    job_id: JobId
    restarts: int
    number: int
    signal: int = 0
    at_once: bool = False


class ForgetStep(msgspec.Struct, frozen=True, kw_only=True):
    """The node may drop the record of an outdated step."""

    node: NodeName
    job_id: JobId
    restarts: int
    number: int


class BroadcastFence(msgspec.Struct, frozen=True, kw_only=True):
    """Send a node the values that the ranks of all nodes have put before a PMI fence."""

    node: NodeName
    message: wire.StepFenced


StepEvent = StepRequested | StepEndRequested | StepReported | HolderLeft | HolderSeen
StepEffect = LaunchStep | KillStep | ForgetStep | BroadcastFence
