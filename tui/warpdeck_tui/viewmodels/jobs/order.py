"""The order of jobs in a list: the default order of the queue, or by a column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from warpdeck.protocol.job_rows import JobRow

_ORDER = {"RUNNING": 0, "COMPLETING": 0, "SUSPENDED": 0, "CONFIGURING": 1, "PENDING": 2}
_ENDED = 3
Rank = tuple[Any, ...]


def rank(row: JobRow) -> Rank:
    """Return the sort key of the default order: running jobs, waiting jobs, ended jobs.

    Among ended jobs the latest comes first. Waiting jobs are ordered by priority. The tasks of an array stay
    together, in their order.
    """
    if row.end is not None:
        return _ENDED, -row.end, -row.id, 0
    return _ORDER.get(row.state, _ENDED), -float(row.priority or 0), row.array_job_id, row.array_task_id or 0


class Order(NamedTuple):
    """An order by the column with this key, or the default order of the queue if it is ""."""

    column: str = ""
    descending: bool = False

    def place(self, row: JobRow) -> Rank:
        """Return the ascending sort key: (0, value, ...), or (1, ...) if the column has no value for the
        job.
        """
        read = SORTED_BY.get(self.column)
        value = None if read is None else read(row)
        return (1, *rank(row)) if value is None else (0, value, *rank(row))


def _ends(row: JobRow) -> float | None:
    return (
        None
        if row.start is None or row.end is not None or not row.time_limit_s
        else row.start + row.time_limit_s
    )


def _time(row: JobRow) -> float | None:
    """Return the start time, so that ascending order puts the longest-running job first.

    For a waiting job, the expected start.
    """
    if row.start is not None:
        return row.start
    return row.why.expected_start if row.why is not None else None


SORTED_BY: dict[str, Callable[[JobRow], Any]] = {
    "job": lambda row: row.array_job_id,
    "state": lambda row: row.state_short,
    "name": lambda row: row.name.lower(),
    "user": lambda row: row.user,
    "account": lambda row: row.account,
    "partition": lambda row: row.partition,
    "qos": lambda row: row.qos,
    "nodes": lambda row: row.nodes,
    "cpus": lambda row: row.cpus,
    "mem": lambda row: row.mem_bytes,
    "gpus": lambda row: row.gpus,
    "prio": lambda row: row.priority,
    "time": _time,
    "left": _ends,
    "limit": _ends,
    "util": lambda row: row.gpu_util_pct if row.gpus else None,
    "submit": lambda row: row.submit,
    "where": lambda row: row.node_list or None,
}
"""Maps the keys of sortable columns to functions that return the value to sort by."""
