"""The requests that the actions send. An action is greyed out if the scheduler cannot perform one of its requests."""

from __future__ import annotations

from collections.abc import Mapping

REQUESTS: Mapping[str, tuple[str, ...]] = {
    # Jobs, on every screen
    "cancel": ("cancel",),
    "hold": ("hold",),
    "release": ("release",),
    "requeue": ("requeue",),
    "pause": ("pause",),
    "limit": ("job_update",),
    "priority": ("priorities", "job_update"),
    "attach": ("attach",),
    "watch": ("attach",),
    "again": ("rerun",),
    "new_job": ("submit",),
    "new_like": ("submit",),
    "shell": ("submit", "attach"),
    "log": ("log",),
    "job.stream": ("log",),
    "job.next_node": ("log",),
    "job.metrics": ("log",),
    "job.lay_over": ("past", "log"),
    "job.diff_job": ("past",),
    "job.what_changed": ("past",),
    # The history
    "show_history": ("past",),
    "history.export": ("past",),
    "history.usage": ("past_costs",),
    # Nodes
    "drain": ("node_drain",),
    "drain:resume": ("node_resume",),
    "nodes.add": ("node_add",),
    "nodes.remove": ("node_rm",),
    "nodes.earlier": ("nodes_at",),
    "nodes.bit_earlier": ("nodes_at",),
    "nodes.at": ("nodes_at",),
    "nodes.previous_event": ("nodes_at", "timeline"),
    "nodes.next_event": ("nodes_at", "timeline"),
    "nodes.timeline_range": ("timeline",),
    "node.span": ("curves",),
    # The site
    "admin.add": ("node_add",),
    "welcome.add": ("node_add",),
    "admin.config": ("config", "reload"),
    "admin.new:reservations": ("reservation_make",),
    "admin.change:reservations": ("reservation_make",),
    "admin.remove:reservations": ("reservation_rm",),
    **{
        f"admin.{action}:{table}": ("reload",)
        for table in ("partitions", "qos")
        for action in ("new", "change", "remove")
    },
    "admin.what_if": ("config",),
    "admin.map_then": ("nodes_at",),
}
"""Maps an action to the tags of the requests that it needs.

A key is the action's id for all of its contexts, or CONTEXT.ID for one. After a colon it names a variant: the table or
the state on which the action's request depends.
"""


def requests_of(where: str, action: str, variant: str = "") -> tuple[str, ...]:
    """Return the tags of the requests that an action needs. The most specific row of the table counts."""
    names = (f"{where}.{action}", action)
    keys = [f"{name}:{variant}" for name in names if variant] + list(names)
    return next((REQUESTS[key] for key in keys if key in REQUESTS), ())
