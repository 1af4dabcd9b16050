"""Events and effects about steps. Data, as all events and effects are."""

from __future__ import annotations

import msgspec

from warpdeck.model import JobId, NodeName
from warpdeck.model.step import StepAsk
from warpdeck.ports.caller import Principal
from warpdeck_agent.wire import steps as wire


class World(msgspec.Struct, frozen=True, kw_only=True):
    """All tasks that one srun starts over several components: their nodes in the order of ranks, and how many each has."""

    nodes: tuple[NodeName, ...]
    tasks: tuple[int, ...]
    at: int = 0
    """The place of a step's first node among them."""


class StepAsked(msgspec.Struct, frozen=True, kw_only=True):
    """srun asks for a step. `first` is the node on which `port` was reserved: the layout must begin there."""

    who: Principal
    job_id: JobId
    ask: StepAsk
    cwd: str
    mpi: str = "none"
    """How its ranks find each other: none, pmi2."""
    caller: NodeName | None = None
    """The node on which srun runs; None: none of ours."""
    first: NodeName
    port: int = 0
    """MASTER_PORT; 0: the step's only node chooses it, or the user has."""
    nonce: str = ""
    """Of the request: the step that it has made before is its answer."""
    own_master: bool = False
    """The user's MASTER_ADDR and MASTER_PORT stay as they are."""
    others: tuple[StepAsked, ...] = ()
    """Of a heterogeneous job: what is asked of further components. All begin or none, and their ranks go on."""
    world: World | None = None
    """Then: what its tasks are told of all of them."""


class StepEndAsked(msgspec.Struct, frozen=True, kw_only=True):
    """A step is to end, or with `signal` to be sent one."""

    who: Principal
    job_id: JobId
    number: int
    cause: str = "cancelled"
    signal: int = 0


class HolderSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The client for which an allocation is held, or the srun of a step, is there, or was not there when it was looked for."""

    job_id: JobId
    step: int | None = None
    there: bool


class HolderLeft(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever an allocation is held for (srun, salloc) has ended, with this code, or is gone."""

    who: Principal
    job_id: JobId
    code: int = 0
    signal: int = 0


class StepReported(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's word on its share of a step."""

    name: NodeName
    report: wire.StepReport


class LaunchStep(msgspec.Struct, frozen=True, kw_only=True):
    """Send a step's tasks to this node. Repeating it is harmless."""

    node: NodeName
    job_id: JobId
    number: int
    asked: StepAsked


class KillStep(msgspec.Struct, frozen=True, kw_only=True):
    """End (or, with `signal`, only signal) a step on this node."""

    node: NodeName
    job_id: JobId
    restarts: int
    number: int
    signal: int = 0
    at_once: bool = False


class ForgetStep(msgspec.Struct, frozen=True, kw_only=True):
    """The node may drop a step that does not count any more."""

    node: NodeName
    job_id: JobId
    restarts: int
    number: int


class SpreadFence(msgspec.Struct, frozen=True, kw_only=True):
    """Tell a node what the ranks of all nodes have put before a fence."""

    node: NodeName
    said: wire.StepFenced


StepEvent = StepAsked | StepEndAsked | StepReported | HolderLeft | HolderSeen
StepEffect = LaunchStep | KillStep | ForgetStep | SpreadFence
