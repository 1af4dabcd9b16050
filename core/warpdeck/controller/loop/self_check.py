"""Check of the state's invariants on a sample while the controller runs.

A violation is a bug in warpdeck. It is reported, and the controller continues. Each check covers a few jobs
and nodes, and the next check continues after them. The cost therefore does not grow with the site.
"""

from __future__ import annotations

from itertools import islice

from warpdeck.controller.state import bug_reports
from warpdeck.controller.state.invariants import sample_violations
from warpdeck.controller.state.state import State

JOBS_AT_ONCE, NODES_AT_ONCE = 100, 20
"""Sizes of one sample. It takes about one millisecond."""


class SelfCheck:
    """The self-check of one controller."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._jobs = iter(list(state.jobs))
        self._nodes = iter(list(state.nodes))

    def run_once(self) -> None:
        """Check the next jobs and nodes, and report each violation. After the last ones, begin again."""
        jobs = list(islice(self._jobs, JOBS_AT_ONCE))
        nodes = list(islice(self._nodes, NODES_AT_ONCE))
        if not jobs:
            self._jobs = iter(list(self._state.jobs))
        if not nodes:
            self._nodes = iter(list(self._state.nodes))
        for violation in sample_violations(self._state, jobs, nodes):
            bug_reports.report_violation(violation)
