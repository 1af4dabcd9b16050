"""Counters of the controller's main loop, for monitoring."""

from __future__ import annotations


class LoopCounters:
    """Counts since the controller started."""

    def __init__(self) -> None:
        self.events = 0
        self.commits = 0
        self.failed_commits = 0
        self.passes = 0
        self.passes_s = 0.0
        self.last_pass_s = 0.0

    def count_pass(self, took_s: float) -> None:
        """Count one planning pass and its duration in seconds."""
        self.passes += 1
        self.passes_s += took_s
        self.last_pass_s = took_s
