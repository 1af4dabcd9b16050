"""Periodic work, every half minute.

Finished jobs are evicted from memory. The rows of pending jobs are sent to clients again if their priority
has changed enough. Nodes are asked for health reports. A sample of the state is checked for violated
invariants.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from warpdeck.controller.state.state import State
from warpdeck.model import JobId

from .change_listeners import ChangeListeners
from .node_monitor import NodeMonitor
from .planner import REPLAN_S
from .self_check import SelfCheck
from .site_rules import SiteRules

PRIORITY_STEP = 0.05
"""Relative change of a pending job's priority above which its row is sent again."""


class Housekeeping:
    """Periodic work of one controller. `clock` returns Unix seconds."""

    def __init__(
        self,
        state: State,
        *,
        rules: SiteRules,
        nodes: NodeMonitor,
        hub: ChangeListeners,
        clock: Callable[[], float],
    ) -> None:
        self._state = state
        self._rules = rules
        self._nodes = nodes
        self._hub = hub
        self._clock = clock
        self._priorities = SentPriorities()
        self._check = SelfCheck(state)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(REPLAN_S)
            before_unix = self._clock() - self._rules.config.keep_finished_s
            self._hub.touch(jobs=evict_finished(self._state, ended_before_unix=before_unix))
            self._hub.touch(jobs=self._priorities.changed(self._state.planned.priorities))
            self._nodes.poll()
            self._rules.update_usage()
            self._check.run_once()


def evict_finished(state: State, *, ended_before_unix: float) -> list[JobId]:
    """Remove jobs that ended before this time from memory, unless other jobs need them. The store keeps them.

    Returns the ids of the removed jobs.
    """
    needed = needed_by_others(state)
    gone = [
        job.id
        for job in state.jobs.values()
        if job.is_finished
        and (job.end_at_unix or 0.0) < ended_before_unix
        and needed.isdisjoint((job.id, job.array_job_id))
    ]
    for job_id in gone:
        state.evict_job(job_id)
    return gone


def needed_by_others(state: State) -> frozenset[JobId]:
    """Return the ids of the jobs that must stay in memory because other jobs need them.

    These are the jobs on which pending jobs depend, and the components of heterogeneous jobs with an
    unfinished component. The unfinished component may have to start again, and then all other components
    start again too.
    """
    needed: set[JobId] = set()
    for job_id in state.index.pending:
        dependencies = state.jobs[job_id].request.dependencies
        needed.update(clause.job_id for clause in (dependencies.clauses if dependencies else ()))
    needed.update(
        job.array_job_id for job in state.jobs.values() if job.component is not None and not job.is_finished
    )
    return frozenset(needed)


class SentPriorities:
    """The priorities that were last sent to clients. Aging continuously changes all priorities by small
    amounts.
    """

    def __init__(self) -> None:
        self._sent: dict[JobId, int] = {}

    def changed(self, now: dict[JobId, int]) -> list[JobId]:
        """Return the jobs with a priority that differs much from the value sent last.

        Their new priorities are recorded as sent.
        """
        before = self._sent
        changed = [
            job_id
            for job_id, priority in now.items()
            if abs(priority - before.get(job_id, priority))
            > PRIORITY_STEP * abs(before.get(job_id, priority))
        ]
        self._sent = before = {job_id: before.get(job_id, now[job_id]) for job_id in now}
        before.update({job_id: now[job_id] for job_id in changed})
        return changed
