"""Detect nodes on which many launches in a row fail at once.

A suspect node is drained until an administrator has checked it. A node can have a fault that no health check
finds. It then empties the queue, because each job fails at once and the next job is started there. On the
other hand, the faulty script of one user must not drain nodes. Therefore each submission counts once,
whatever its number of tasks, and the failures must come from several users. One start that runs for longer or
succeeds clears the node. A node on which all jobs belong to one user never becomes suspect.
"""

from __future__ import annotations

import msgspec

from warpdeck.model import ExitStatus, Job, JobId, NodeName

SUSPECT_AFTER = 6
"""Number of consecutive submissions that must fail at once before a node is suspect."""
SUSPECT_USERS = 3
"""Minimum number of different users among these submissions."""
AT_ONCE_S = 2.0
"""Run time in seconds up to which a failure counts as immediate."""

HELD_AFTER_NODES = 3
"""Number of different nodes that may fail to start a job before the job is held.

The hold keeps the job from draining more nodes.
"""


class SuspectNodes(msgspec.Struct):
    """Immediate failures on each node since the last success there. They are kept in memory only."""

    failed: dict[NodeName, dict[JobId, int]] = {}
    """Node -> submission -> uid of its user."""

    def record_success(self, name: NodeName) -> None:
        """Record a success on the node."""
        self.failed.pop(name, None)

    def record_failure(self, name: NodeName, job: Job) -> str:
        """Record that the job failed at once on the node.

        Returns the reason why the node is now suspect, or "" if it is not.
        """
        found = self.failed.setdefault(name, {})
        found[job.array_job_id] = job.uid
        users = len(set(found.values()))
        if len(found) < SUSPECT_AFTER or users < SUSPECT_USERS:
            if len(found) > SUSPECT_AFTER:  # The jobs belong to a few users only, so drop the oldest one.
                oldest = next(iter(found))
                del found[oldest]
            return ""
        self.record_success(name)
        return f"{len(found)} jobs of {users} users in a row failed immediately on {name}; check the node, then resume it"

    def record_end(
        self, name: NodeName, job: Job, ended: ExitStatus, *, began_unix: float, ended_unix: float
    ) -> str:
        """Record the end of a job's share on the node.

        Returns the reason why the node is now suspect, or "" if it is not.
        """
        if ended.cause not in ("", "launch_failed"):
            return ""  # A user or a limit ended the share.
        failed = ended.cause == "launch_failed" or ended.code or ended.signal
        if failed and ended_unix - began_unix < AT_ONCE_S:
            return self.record_failure(name, job)
        self.record_success(name)
        return ""
