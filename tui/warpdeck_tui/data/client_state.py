"""What the controller has told so far: jobs and nodes, kept by deltas. The screens read it; only deltas change it."""

from __future__ import annotations

from warpdeck.client.client import Delta
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow


class Board:
    """After a reconnect the old rows stay on the screen until the new ones are complete, then what is gone goes."""

    def __init__(self) -> None:
        self.jobs: dict[int, JobRow] = {}
        self.nodes: dict[str, NodeRow] = {}
        self.gpus = self.held_gpus = 0
        """Of all nodes: counted as they change, for there may be thousands."""
        self.ready = False
        """Everything there is has been told once."""
        self.changes = 0
        """Counts the deltas, so that a screen knows whether there is something new."""
        self._told_jobs: set[int] | None = None
        self._told_nodes: set[str] = set()

    def restart(self) -> None:
        """A new subscription begins: what it does not tell before its `ready` is gone."""
        self._told_jobs, self._told_nodes = set(), set()

    def apply(self, delta: Delta) -> None:
        self.changes += 1
        for job in delta.jobs:
            self.jobs[job.id] = job
        for number in delta.gone_jobs:
            self.jobs.pop(number, None)
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
        for name in self.nodes.keys() - self._told_nodes:
            self._put(name, None)
        self._told_jobs, self.ready = None, True

    def _put(self, name: str, node: NodeRow | None) -> None:
        """The node as it is now; None if it is gone."""
        before = self.nodes.pop(name, None)
        for row, sign in ((before, -1), (node, 1)):
            if row is not None:
                self.gpus += sign * len(row.gpus)
                self.held_gpus += sign * sum(bool(gpu.job) for gpu in row.gpus)
        if node is not None:
            self.nodes[name] = node

    def job(self, key: str) -> JobRow | None:
        """The row of that key: a job's own id."""
        return self.jobs.get(int(key)) if key.isdigit() else None

    def node_list(self) -> list[NodeRow]:
        """By name."""
        return [self.nodes[name] for name in sorted(self.nodes)]

    def has_gpus(self) -> bool:
        return self.gpus > 0
