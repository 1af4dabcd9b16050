"""A job array shown as one row, such as `1234_[0-99]  87 R 3 F 10 PD`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from warpdeck.protocol.job_rows import JobRow

from .order import rank

_NUMBER = re.compile(r"\d+")
_FIRST = ("R", "CG", "CF", "S")
_LAST = "PD"
_RUNS = frozenset(("RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING"))

_NO_FAILURES = frozenset(("COMPLETED", "CANCELLED"))


def fold_key(array_job_id: int) -> str:
    """Return the key of an array's row in a table. No job has this key."""
    return f"array {array_job_id}"


class Fold:
    """The tasks of an array that the queue shows."""

    def __init__(self, array_job_id: int) -> None:
        self.array_job_id = array_job_id
        self._tasks: dict[tuple[str, bool], dict[int, JobRow]] = {}
        self._kinds: dict[int, tuple[str, bool]] = {}

    @property
    def key(self) -> str:
        return fold_key(self.array_job_id)

    def __len__(self) -> int:
        """Return the number of job rows. All waiting tasks of the array share one row."""
        return len(self._kinds)

    def put(self, row: JobRow) -> None:
        """Add or replace the row of a task or of the waiting tasks."""
        self.drop(row.id)
        kind = (row.state_short, row.held)
        self._tasks.setdefault(kind, {})[row.id] = row
        self._kinds[row.id] = kind

    def drop(self, number: int) -> None:
        kind = self._kinds.pop(number, None)
        if kind is not None:
            del self._tasks[kind][number]
            if not self._tasks[kind]:
                del self._tasks[kind]

    def rows(self) -> Iterator[JobRow]:
        """Return all job rows, in no particular order."""
        for tasks in self._tasks.values():
            yield from tasks.values()

    def running(self) -> Iterator[JobRow]:
        for tasks in self._tasks.values():
            if next(iter(tasks.values())).state in _RUNS:
                yield from tasks.values()

    def kinds(self) -> list[JobRow]:
        """Return one row for each state. An action on jobs applies either to all tasks of a state or to
        none.
        """
        return [next(iter(tasks.values())) for tasks in self._tasks.values()]

    @property
    def head(self) -> JobRow:
        """The row that determines the array's position in the queue.

        It is a running one, else a waiting one, else an ended one.
        """
        first = min(rank(row)[0] for row in self.kinds())
        tasks = (each for each in self._tasks.values() if rank(next(iter(each.values())))[0] == first)
        return min((row for each in tasks for row in each.values()), key=rank)

    @property
    def verdict(self) -> JobRow:
        """The row whose state is shown for the array.

        For an ended array this is the last failed task, even if others ended later.
        """
        if any(row.end is None for row in self.kinds()):
            return self.head
        failed = [row for row in self.kinds() if row.state not in _NO_FAILURES]
        return max(failed, key=lambda row: row.end or 0.0, default=self.head)

    @property
    def waiting(self) -> JobRow | None:
        """The row that says why the remaining tasks wait, or None."""
        return next((row for row in self.kinds() if row.state == "PENDING"), None)

    def counts(self) -> list[tuple[int, str]]:
        """Return pairs (number of tasks, Slurm's short state). Running states come first, waiting ones
        last.
        """
        found: dict[str, int] = {}
        for (short, _), tasks in self._tasks.items():
            count = sum(max(1, row.tasks_pending) for row in tasks.values())
            found[short] = found.get(short, 0) + count
        return [(found[short], short) for short in sorted(found, key=_place)]

    @property
    def label(self) -> str:
        """The number of the array with its first and last task, such as 1234_[0-99]."""
        first, last = 1 << 62, -1
        for row in self.rows():
            numbers = _task_numbers(row)
            if numbers:
                first, last = min(first, *numbers), max(last, *numbers)
        return f"{self.array_job_id}_[{first}-{last}]" if last >= 0 else str(self.array_job_id)


def is_task(row: JobRow) -> bool:
    """Return whether the row belongs to an array."""
    return row.array_task_id is not None or row.tasks_pending > 0


def _task_numbers(row: JobRow) -> tuple[int, ...]:
    if row.array_task_id is not None:
        return (row.array_task_id,)
    ranges = row.label.partition("_")[2].partition("%")[0]
    return tuple(int(number) for piece in ranges.split(",") for number in _NUMBER.findall(piece)[:2])


def _place(short: str) -> tuple[int, str]:
    if short in _FIRST:
        return _FIRST.index(short), ""
    return (len(_FIRST) + 1, "") if short == _LAST else (len(_FIRST), short)
