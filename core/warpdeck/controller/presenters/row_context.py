"""The state at a moment, as columns of jobs look at it: what several of them need is worked out once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cached_property
from typing import Any

from warpdeck.controller.state.state import State
from warpdeck.controller.state.view import Namesakes
from warpdeck.model import Job

from . import node_counts, unavailable_nodes


class RowContext:
    """The state at a moment, for columns of many jobs."""

    def __init__(self, state: State, now: float) -> None:
        self.state = state
        self.now = now
        self.namesakes = Namesakes(state)
        self.largest = functools.cache(functools.partial(node_counts.largest, state))
        self.unavailable = functools.cache(functools.partial(unavailable_nodes.reason, state))

    @cached_property
    def whole_partitions(self) -> dict[str, str]:
        """Slurm's word for how jobs of a partition share their nodes, where it is the partition that says so."""
        parts = self.state.site.partitions
        users = {part.name: "USER" for part in parts if part.exclusive_user}
        return users | {part.name: "NO" for part in parts if part.exclusive}


Column = Callable[[RowContext, Job], Any]
"""What a job has in it."""
