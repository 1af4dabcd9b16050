"""The state at one moment, as the columns of jobs read it.

Values that several columns need are computed once.
"""

from __future__ import annotations

import functools
from functools import cached_property

from warpdeck.controller.state.state import State
from warpdeck.controller.state.view import Namesakes

from . import node_counts, unavailable_nodes


class RowContext:
    """The state at one moment, for the columns of many jobs."""

    def __init__(self, state: State, now: float) -> None:
        self.state = state
        self.now = now
        self.namesakes = Namesakes(state)
        self.largest = functools.cache(functools.partial(node_counts.largest, state))
        self.unavailable = functools.cache(functools.partial(unavailable_nodes.reason, state))

    @cached_property
    def whole_partitions(self) -> dict[str, str]:
        """Map each exclusive partition to Slurm's value for how its jobs share nodes: USER or NO."""
        parts = self.state.site.partitions
        users = {part.name: "USER" for part in parts if part.exclusive_user}
        return users | {part.name: "NO" for part in parts if part.exclusive}
