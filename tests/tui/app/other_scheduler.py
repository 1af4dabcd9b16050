"""The native engine with the site part of another scheduler: other limits, another name, and data that have an age."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from warpdeck.engines.native.site import NativeSite
from warpdeck.engines.shared.jobs import StateJobs
from warpdeck.engines.shared.subscriptions import StateNodes
from warpdeck.model import NodeName
from warpdeck.ports.engine import Action, Engine
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.site_rows import EngineRow

READ_AT = 1_700_000_000.0
IMPOSSIBLE = {
    Action.NODE_ADD: "Slurm's administrators add nodes in slurm.conf",
    Action.NODE_REMOVE: "Slurm's administrators remove nodes from slurm.conf",
    Action.NODE_CHECK: "Slurm has no health checks that warpdeck can read",
    Action.NODES_AT: "Slurm keeps no past states of nodes",
    Action.TIMELINE: "Slurm keeps no past states of nodes",
    Action.CURVES: "Slurm has no curves of nodes",
    Action.RESERVE: "Slurm's administrators make reservations with scontrol",
    Action.UNRESERVE: "Slurm's administrators remove reservations with scontrol",
    Action.CONFIG: "Slurm's configuration is slurm.conf",
    Action.RELOAD: "Slurm's administrators change slurm.conf",
    Action.AMEND: "Slurm's administrators change slurm.conf",
    Action.SHARES: "Slurm's accounting is off on this cluster",
    Action.HOLD: "Only Slurm's administrators hold jobs on this cluster",
    Action.DRY_RUN: "This version of Slurm cannot test a submission",
}
"""Actions of the other scheduler that are impossible, each with the reason."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OtherSite(NativeSite):
    """The site of another scheduler. The attributes of `state_of` may change while the engine serves."""

    row: list[EngineRow]
    """The present description of the scheduler, which a test replaces."""
    limits: Mapping[Action, str]

    def capabilities(self) -> Mapping[Action, str]:
        return self.limits

    def about(self) -> EngineRow:
        return self.row[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class UnmeasuredNodes(StateNodes):
    """The nodes without readings of their GPUs, as slurmctld knows them."""

    def row(self, name: NodeName) -> NodeRow | None:
        row = super().row(name)
        return None if row is None else unmeasured(row)


def unmeasured(row: NodeRow) -> NodeRow:
    """Return the node as a scheduler without agents describes it."""
    gpus = [
        msgspec.structs.replace(
            gpu,
            uuid="",
            mem_bytes=0,
            util_pct=None,
            mem_used_bytes=None,
            power_w=None,
            temp_c=None,
            processes=[],
            island=-1,
            numa_node=-1,
            links=type(gpu.links)(),
        )
        for gpu in row.gpus
    ]
    return msgspec.structs.replace(
        row, gpus=gpus, health=[], containment="", facilities=[], driver="", target="", address="10.0.0.7"
    )


class OtherScheduler:
    """Makes the engine of another scheduler. `about` may be replaced while the engine serves."""

    def __init__(
        self,
        about: EngineRow | None = None,
        *,
        impossible: Mapping[Action, str] = IMPOSSIBLE,
        is_measured: bool = False,
    ) -> None:
        self._row = [about or EngineRow(name="slurm", version="24.11.5", cluster="hpc1")]
        self._limits = dict.fromkeys(Action, "") | dict(impossible)
        self._is_measured = is_measured

    def about(self, **fields: Any) -> None:
        """Change fields of the scheduler's description."""
        self._row[0] = msgspec.structs.replace(self._row[0], **fields)

    def __call__(self, engine: Engine) -> Engine:
        """Return the engine with the other site."""
        native = cast(NativeSite, engine.site)
        site = OtherSite(**_fields(native), row=self._row, limits=self._limits)
        jobs = cast(StateJobs, engine.jobs)
        nodes = jobs.change_feed.nodes
        if not self._is_measured:
            nodes = UnmeasuredNodes(state=jobs.state)
        feed = dataclasses.replace(jobs.change_feed, about=site.about, nodes=nodes)
        return dataclasses.replace(engine, site=site, jobs=dataclasses.replace(jobs, change_feed=feed))


def _fields(site: NativeSite) -> dict[str, Any]:
    return {field.name: getattr(site, field.name) for field in dataclasses.fields(site)}


Adapt = Callable[[Engine], Engine]
