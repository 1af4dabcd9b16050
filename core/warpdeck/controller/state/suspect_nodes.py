"""Nodes on which one launch after the other ends at once, of several users: such a node takes no more jobs until an admin has looked.

A node can be broken in ways that no check sees, and then it empties the queue: each job fails in a moment, and the next one comes.
A user's own broken script must not drain nodes. So a submission counts once, however many tasks it has; it takes submissions of
several users; and one start that goes on for longer, or ends well, clears the node. Where all jobs are one user's, no node is ever
suspect.
"""

from __future__ import annotations

import msgspec

from warpdeck.model import ExitStatus, Job, JobId, NodeName

SUSPECT_AFTER = 6
"""Submissions in a row that failed at once."""
SUSPECT_USERS = 3
"""Of so many different users at least."""
AT_ONCE_S = 2.0
"""What runs for longer has not failed at once."""

HELD_AFTER_NODES = 3
"""A job that so many different nodes could not start waits held: else it might drain one node after the other."""


class SuspectNodes(msgspec.Struct):
    """What has failed at once on each node since something last went well there. In memory only: a new controller begins anew."""

    failed: dict[NodeName, dict[JobId, int]] = {}
    """Node -> submission -> user."""

    def well(self, name: NodeName) -> None:
        """Something went well there."""
        self.failed.pop(name, None)

    def bad(self, name: NodeName, job: Job) -> str:
        """The job failed at once there. Why the node is suspect from now on, "" if it is not."""
        found = self.failed.setdefault(name, {})
        found[job.array_job_id] = job.uid
        users = len(set(found.values()))
        if len(found) < SUSPECT_AFTER or users < SUSPECT_USERS:
            if len(found) > SUSPECT_AFTER:  # all of a few users: the oldest makes place
                oldest = next(iter(found))
                del found[oldest]
            return ""
        self.well(name)
        return f"{len(found)} jobs of {users} users in a row failed at once on {name}: look at it, then resume it"

    def take_end(
        self, name: NodeName, job: Job, ended: ExitStatus, *, began_unix: float, ended_unix: float
    ) -> str:
        """A share of the job has ended there. Why the node is suspect from now on, "" if it is not."""
        if ended.cause not in ("", "launch_failed"):
            return ""  # somebody, or a limit, ended it
        failed = ended.cause == "launch_failed" or ended.code or ended.signal
        if failed and ended_unix - began_unix < AT_ONCE_S:
            return self.bad(name, job)
        self.well(name)
        return ""
