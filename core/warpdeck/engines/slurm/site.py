"""The cluster as a whole: Slurm's version, the age of the data, partitions, and the load that we cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warpdeck.ports.engine import Action, SiteSummary
from warpdeck.protocol.site_rows import EngineRow

from .capabilities import capabilities
from .cluster.cluster import Cluster
from .cluster.poller import Poller
from .versions import Version

MAX_UNREADABLE = 20
"""Maximum number of unreadable database rows that a summary lists."""


@dataclass(frozen=True, kw_only=True)
class SlurmSite:
    """The `EngineSite` of a gateway."""

    cluster: Cluster
    poller: Poller
    version: Version

    @property
    def identity(self) -> str:
        return self.cluster.state.controller_id

    def capabilities(self) -> Mapping[Action, str]:
        return capabilities()

    def about(self) -> EngineRow:
        return EngineRow(
            name="slurm",
            version=str(self.version),
            cluster=self.cluster.config.get("ClusterName", ""),
            read_at=self.cluster.read_at,
            problem=self.cluster.problem,
            requests_a_minute=round(self.poller.rate, 1),
        )

    def summary(self) -> SiteSummary:
        state = self.cluster.state
        return SiteSummary(
            jobs={job_state.value: count for job_state, count in state.index.in_state.items() if count},
            nodes=len(self.cluster.nodes.rows),
            unreadable=[row.description for row in state.unreadable[:MAX_UNREADABLE]],
        )
