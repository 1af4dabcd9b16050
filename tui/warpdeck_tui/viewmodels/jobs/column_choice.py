"""The choice of the columns of a list of jobs, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warpdeck_tui.viewmodels.cells import Cell, Line

from .job_columns import JOB_COLUMNS

CHECKED = "✓"
WORDS = {
    "job": "number of the job, and of the task of an array",
    "state": "state, as Slurm abbreviates it",
    "name": "name of the job",
    "user": "user",
    "account": "account that is charged",
    "partition": "partition",
    "qos": "quality of service",
    "nodes": "number of nodes",
    "cpus": "number of CPUs",
    "mem": "memory",
    "gpus": "number of GPUs",
    "prio": "priority of a pending job; needs 140 columns",
    "submit": "time between submission and start",
    "time": "elapsed time, or the time until the expected start",
    "left": "time until the time limit",
    "limit": "elapsed share of the time limit",
    "util": "utilization of the GPUs",
    "where": "nodes, the pending reason, or how the job ended",
}


class ColumnChoice(NamedTuple):
    """All columns of a list in their order, and the visible ones."""

    order: tuple[str, ...]
    chosen: frozenset[str]

    @classmethod
    def of(cls, names: Sequence[str], offered: Sequence[str] = tuple(JOB_COLUMNS)) -> ColumnChoice:
        """Return the choice of these columns, followed by the others that are offered."""
        return cls((*names, *(name for name in offered if name not in names)), frozenset(names))

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns that are shown, in their order."""
        return tuple(name for name in self.order if name in self.chosen)

    def toggled(self, name: str) -> ColumnChoice:
        """Return the choice with a column shown that was hidden, or the reverse."""
        return self._replace(chosen=self.chosen ^ {name})

    def moved(self, name: str, by: int) -> ColumnChoice:
        """Return the choice with a column moved by this number of places, as far as the list goes."""
        others = [each for each in self.order if each != name]
        at = max(0, min(len(others), self.order.index(name) + by))
        return self._replace(order=(*others[:at], name, *others[at:]))

    def rows(self) -> list[tuple[str, Line]]:
        """Return the rows of the list: the key and the cells of each column."""
        return [(name, self._row(name)) for name in self.order]

    def _row(self, name: str) -> Line:
        is_shown = name in self.chosen
        title = JOB_COLUMNS[name].column.title
        return (
            Cell(CHECKED if is_shown else " ", "accent"),
            Cell(title, "" if is_shown else "muted"),
            Cell(WORDS[name], "muted"),
        )
