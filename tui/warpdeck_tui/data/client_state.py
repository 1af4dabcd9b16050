"""The client's copy of the cluster state: jobs and nodes, and the state of the connection.

It is updated only by deltas from the controller, and read by the screens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.results import Delta
from warpdeck.protocol.site_rows import EngineRow
from warpdeck_tui.viewmodels.site.cluster_totals import ClusterNow
from warpdeck_tui.viewmodels.site.quota import Quota


class Site(NamedTuple):
    """Facts about the site that are not part of the updates: its name, and the user's quota."""

    name: str = ""
    quota: Quota | None = None


OWN = EngineRow().name
"""Name of our own scheduler."""
LOST = "down"
"""State of a node to which the server has no link. Its jobs may still run."""


class Scheduler(NamedTuple):
    """The scheduler behind the server, and the requests that it cannot perform: their tags with the reasons."""

    engine: EngineRow = EngineRow()
    impossible: Mapping[str, str] = {}
    is_admin: bool = False
    """Whether the user is an administrator."""

    @property
    def is_own(self) -> bool:
        """Whether this is our own scheduler, with data that are never old."""
        return self.engine.name == OWN

    def refusal(self, where: str, action: str, variant: str = "") -> str:
        """Return why the scheduler cannot do an action of the app, or "" if it can."""
        if not self.impossible:
            return ""
        # Only other schedulers need the table, so its import does not delay the first frame.
        from warpdeck_tui.table.actions.requests import requests_of

        return next(filter(None, map(self.reason, requests_of(where, action, variant))), "")

    def reason(self, tag: str) -> str:
        """Return a sentence that says why the scheduler cannot perform the requests with this tag, or "" if it can."""
        text = self.impossible.get(tag, "")
        return text[:1].upper() + text[1:]


class ClientState:
    """Jobs and nodes as last reported by the controller.

    After a reconnect the old rows stay visible until the new ones are complete. Then the rows that no longer
    exist are removed.
    """

    def __init__(self, *, user: str = "") -> None:
        self.user = user
        """The user, as the controller knows them once there was a connection."""
        self.away = ""
        """Text that says why there is no connection or no answer, and what the app does about it. Empty if
        all is well.
        """
        self.scheduler = Scheduler()
        self.site = Site()
        self.jobs: dict[int, JobRow] = {}
        self.nodes: dict[str, NodeRow] = {}
        self.cluster = ClusterNow()
        self.lost: dict[str, float | None] = {}
        """The unreachable nodes, with the time of their last reading (Unix seconds)."""
        self.ready = False
        """True once the controller has sent the complete state."""
        self.changes = 0
        """Number of deltas received so far, so that a screen can tell whether anything has changed."""
        self.awaited: set[int] = set()
        """The sessions that the user left waiting. The app tells when they are ready."""
        self._told_jobs: set[int] | None = None
        self._told_nodes: set[str] = set()

    def restart(self) -> None:
        """Begin a new subscription. Rows that it does not send before its `ready` delta are then removed."""
        self._told_jobs, self._told_nodes = set(), set()

    def use_limits(self, impossible: Mapping[str, str], *, is_admin: bool = False) -> None:
        """Replace the requests that the scheduler cannot perform, and the user's rights on the site."""
        self.scheduler = self.scheduler._replace(impossible=impossible, is_admin=is_admin)

    def use_engine(self, engine: EngineRow) -> None:
        """Replace the description of the scheduler, with the age of its data."""
        self.scheduler = self.scheduler._replace(engine=engine)

    def apply(self, delta: Delta) -> None:
        self.changes += 1
        self.use_engine(delta.engine)
        for job in delta.jobs:
            self.jobs[job.id] = job
            self.cluster.put_job(job)
        for number in delta.gone_jobs:
            self.jobs.pop(number, None)
            self.cluster.drop_job(number)
        for node in delta.nodes:
            self._put(node.name, node)
        for name in delta.gone_nodes:
            self._put(name, None)
        if self._told_jobs is not None:
            self._told_jobs.update(job.id for job in delta.jobs)
            self._told_nodes.update(node.name for node in delta.nodes)
            if delta.ready:
                self._complete(self._told_jobs)

    def _complete(self, told: set[int]) -> None:
        self.jobs = {number: job for number, job in self.jobs.items() if number in told}
        self.cluster.keep_jobs(told)
        for name in self.nodes.keys() - self._told_nodes:
            self._put(name, None)
        self._told_jobs, self.ready = None, True

    def _put(self, name: str, node: NodeRow | None) -> None:
        """Replace the row of the node, or remove it if `node` is None, and update the totals."""
        before = self.nodes.pop(name, None)
        self.cluster.put_node(name, before, node)
        self.lost.pop(name, None)
        if node is not None:
            self.nodes[name] = node
            if node.state == LOST:
                self.lost[name] = node.at

    @property
    def gpus(self) -> int:
        return self.cluster.totals.gpus

    @property
    def held_gpus(self) -> int:
        return self.cluster.totals.held_gpus

    def job(self, key: str) -> JobRow | None:
        """Return the job with the id `key`, or None."""
        return self.jobs.get(int(key)) if key.isdigit() else None

    def node_list(self) -> list[NodeRow]:
        """Return the nodes, sorted by name."""
        return [self.nodes[name] for name in sorted(self.nodes)]

    def has_gpus(self) -> bool:
        return self.gpus > 0
