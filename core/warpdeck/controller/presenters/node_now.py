"""A node at one point in time: the values that several rows, tables and metrics of nodes show. Pure
functions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from warpdeck.controller.state.state import State
from warpdeck.controller.state.view import excludes_other_users, runs_jobs, shares_on
from warpdeck.model import Link, Node, NodeHealth, NodeReading, Share


class NodeNow(NamedTuple):
    """A node with the parts of the state that are shown with it. `state` is sinfo's name for the state of the
    node.
    """

    node: Node
    state: str
    reason: str
    """Reason of the drain, or of the lost link."""
    reading: NodeReading | None
    health: NodeHealth | None
    shares: list[Share]
    """Shares of jobs that are held on the node."""
    cpus_used: int

    def gpus_used(self) -> int:
        """Return the number of GPUs that jobs hold. A shared GPU counts once."""
        return len({index for share in self.shares for index in share.gpus})


def node_now(state: State, node: Node) -> NodeNow:
    """Return the node as it is now."""
    status = state.node_status
    shares = [share for _, share in shares_on(state, node.name)]
    cpus_used = sum(share.cpus for share in shares)
    link = status.links.get(node.name, Link.CONNECTING)
    return NodeNow(
        node=node,
        state=state_name(node, link, cpus_used=cpus_used, busy=runs_jobs(state, node.name)),
        reason=node.reason if node.drained else status.link_reasons.get(node.name, ""),
        reading=status.readings.get(node.name),
        health=status.health.get(node.name),
        shares=shares,
        cpus_used=cpus_used,
    )


def state_name(node: Node, link: Link, *, cpus_used: int, busy: bool) -> str:
    """Return the node's state as sinfo names it.

    For a healthy node it depends on the CPUs in use, as in Slurm.
    """
    if node.drained:
        return "draining" if busy else "drained"
    if link is Link.LOST:
        return "down"
    if link is Link.CONNECTING:
        return "connecting"
    if not busy:
        return "idle"
    return "allocated" if cpus_used >= node.cpus else "mixed"


def common_fields(state: State, now: NodeNow) -> dict[str, Any]:
    """Return the fields that `NodeRow` and `NodeFacts` have in common, by name."""
    node, reading, jobs = now.node, now.reading, state.jobs_on(now.node.name)
    configured = state.site.nodes.get(node.name)
    topology = node.topology.or_flat(node.cpus)
    return {
        "name": node.name,
        "hostname": node.hostname,
        "reason": now.reason,
        "reason_at": node.reason_at_unix or None,
        "reason_user": node.reason_user if now.reason == node.reason else "",
        "cpus": node.cpus,
        "cpus_used": now.cpus_used,
        "cpu_pct": reading.cpu_pct if reading else None,
        "sockets": topology.sockets,
        "cores": topology.cores,
        "threads": topology.threads,
        "mem_bytes": node.mem_bytes,
        "tmp_disk_bytes": node.tmp_disk_bytes,
        "mem_alloc_bytes": sum(share.mem_bytes for share in now.shares),
        "mem_used_bytes": reading.mem_used_bytes if reading else None,
        "features": sorted(configured.features) if configured else [],
        "weight": configured.weight if configured else 1,
        "comment": configured.comment if configured else "",
        "extra": configured.extra if configured else "",
        "kernel": node.kernel,
        "arch": node.arch,
        "booted": node.booted_at_unix or None,
        "agent_start": node.agent_at_unix or None,
        "state": now.state,
        "owner": next((job.user for job in jobs if excludes_other_users(state, job, job.partition)), ""),
        "at": reading.at_unix if reading else None,
    }
