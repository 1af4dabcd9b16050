"""Counts of what the loop does, for whoever watches the controller."""

from __future__ import annotations


class LoopCounters:
    """Since the controller began."""

    def __init__(self) -> None:
        self.events = 0
        self.commits = 0
        self.failed_commits = 0
        self.passes = 0
        self.passes_s = 0.0
        self.last_pass_s = 0.0

    def count_pass(self, took_s: float) -> None:
        """One planning pass."""
        self.passes += 1
        self.passes_s += took_s
        self.last_pass_s = took_s
