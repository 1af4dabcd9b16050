"""The rows of a list of jobs, kept in order while jobs change. Unchanged jobs are not processed again.

Changes are found by object identity, because a job's row is immutable and is replaced by another one. So an
update of a hundred thousand jobs, ten of which have changed, filters and sorts only ten.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import NamedTuple

from warpdeck.notation.filters.job_filter import Test, holds, parse_filter
from warpdeck.protocol.job_rows import JobRow

from .arrays import Fold, is_task
from .order import Order, Rank
from .text_widths import TextWidths

Entry = JobRow | Fold
Place = tuple[Rank, int]
FEW = 200
"""If less than one row in FEW has changed, each change is inserted separately. Otherwise sorting all rows is
cheaper.
"""


SLICE = 8_000
"""Number of changed rows processed at once, which takes about 25 ms. So the first screenful of a hundred
thousand jobs appears immediately, and keys are handled in between.
"""


class Choice(NamedTuple):
    """The chosen jobs and their order. `user` is None for everybody's jobs."""

    user: str | None = None
    text: str = ""
    order: Order = Order()
    me: str = ""
    """The user that `user:me` means in the filter."""
    now: float = 0.0
    """The time that the past times of the filter are relative to. It is set only if the filter has past times."""


class Listing:
    """The chosen jobs as rows. An array with several job rows is one row until the user opens it."""

    def __init__(self, *, folds: bool = True) -> None:
        self._folds = folds
        self._choice = Choice()
        self._open: set[int] = set()
        self.widths = TextWidths()
        self.behind = False
        """Whether some rows were not processed yet, so that `follow` must be called again soon."""
        self.entries: list[Entry] = []
        """The displayed rows. The tasks of an opened array follow the array's row."""
        self._begin()

    def _begin(self) -> None:
        self._holds: Test = holds(parse_filter(self._choice.text, me=self._choice.me), now=self._choice.now)
        self._seen: dict[int, JobRow] = {}
        self._chosen: dict[int, JobRow] = {}
        self._arrays: dict[int, Fold] = {}
        self._places: dict[int, Place] = {}
        self._sorted: list[Place] = []
        self._later: set[int] = set()
        """Groups that have changed but were not sorted yet."""

    @property
    def jobs(self) -> Mapping[int, JobRow]:
        """All chosen job rows by id. The waiting tasks of an array share one row."""
        return self._chosen

    def follow(self, jobs: Mapping[int, JobRow], choice: Choice) -> bool:
        """Update the rows to `jobs`, at least by one slice (see `behind`).

        Return False if nothing has changed.
        """
        again = choice != self._choice
        if again:
            self._choice = choice
            if (
                not choice.text
            ):  # a filter leaves the columns as they are, so that they do not move while it is typed
                self.widths.clear()
            self._begin()
        seen, touched = self._seen, self._later
        changed = [row for number, row in jobs.items() if seen.get(number) is not row]
        new = sum(row.id not in seen for row in changed)
        gone = seen.keys() - jobs.keys() if len(seen) + new != len(jobs) else set()
        self.behind = len(changed) > SLICE
        if self.behind:
            if not seen:
                changed.sort(key=_waits)
            del changed[SLICE:]
        for number in (*gone, *(row.id for row in changed)):
            self._forget(number, touched)
        for row in changed:
            self._note(row, touched)
            seen[row.id] = row
        for number in gone:
            del seen[number]
        if self.behind and len(touched) < len(self._sorted) // 2:
            # They are sorted with one of the next slices, because sorting each slice would go through all
            # rows.
            return again
        self._later = set()
        if touched or again:
            self._place(touched)
            self._lay_out()
        return bool(touched) or again

    def toggle(self, array_job_id: int) -> None:
        """Show or hide the tasks of an array below its row."""
        self._open ^= {array_job_id}
        array = self._arrays.get(array_job_id)
        if array is not None:
            self.widths.add_array(array, is_open=self.is_open(array_job_id))
        self._lay_out()

    def is_open(self, array_job_id: int) -> bool:
        return array_job_id in self._open

    def stands_below(self, row: JobRow) -> bool:
        """Return whether the job's row is shown below the row of its array."""
        array = self._arrays.get(self._group(row))
        return array is not None and len(array) > 1

    def fold(self, key: str) -> Fold | None:
        """Return the array with this key, or None."""
        number = key.removeprefix("array ")
        return self._arrays.get(int(number)) if number != key and number.isdigit() else None

    def _group(self, row: JobRow) -> int:
        """Return the number of the row's array or, for other jobs, the negative job id."""
        return row.array_job_id if self._folds and is_task(row) else -row.id

    def _note(self, row: JobRow, touched: set[int]) -> None:
        if self._choice.user not in (None, row.user) or not self._holds(row):
            return
        group = self._group(row)
        self._chosen[row.id] = row
        if group >= 0:
            self._arrays.setdefault(group, Fold(group)).put(row)
        touched.add(group)

    def _forget(self, number: int, touched: set[int]) -> None:
        row = self._chosen.pop(number, None)
        if row is None:
            return
        group = self._group(row)
        if group >= 0:
            if len(self._arrays[group]) > 1:
                self._arrays[group].drop(number)
            # the array keeps its last row, because it may be painted again before the screen is updated
            else:
                del self._arrays[group]
        touched.add(group)

    def _entry(self, group: int) -> Entry | None:
        """Return the row of a group, or None if the group is empty."""
        if group < 0:
            row = self._chosen.get(-group)
            return row if row is not None and self._group(row) == group else None
        array = self._arrays.get(group)
        return array if array is None or len(array) > 1 else next(array.rows())

    def _place(self, touched: set[int]) -> None:
        """Sort the changed groups again.

        A few are inserted one by one; many are sorted and merged with the others.
        """
        old = [place for group in touched if (place := self._places.pop(group, None)) is not None]
        if len(old) < len(self._sorted) // FEW:
            for place in old:
                del self._sorted[bisect_left(self._sorted, place)]
        elif old:
            gone = set(touched)
            self._sorted = [place for place in self._sorted if place[1] not in gone]
        order, new, jobs = self._choice.order, list[Place](), list[JobRow]()
        for group in touched:
            entry = self._entry(group)
            if entry is not None:
                place = (order.place(entry.head if isinstance(entry, Fold) else entry), group)
                self._places[group] = place
                new.append(place)
                if isinstance(entry, Fold):
                    self.widths.add_array(entry, is_open=group in self._open)
                else:
                    jobs.append(entry)
        self.widths.add_jobs(jobs)
        if len(new) < len(self._sorted) // FEW:
            for place in new:
                insort(self._sorted, place)
        else:
            self._sorted += sorted(new)
            self._sorted.sort()  # these are two sorted runs, so sorting only merges them

    def _lay_out(self) -> None:
        places = self._sorted
        if self._choice.order.descending:
            said = bisect_left(places, ((1,), 0))
            places = [*reversed(places[:said]), *places[said:]]
        chosen = self._chosen
        if not self._arrays:
            self.entries = [chosen[-group] for _, group in places]
            return
        entries = list[Entry]()
        for _, group in places:
            entry = chosen[-group] if group < 0 else self._entry(group)
            assert entry is not None
            entries.append(entry)
            if group in self._open and isinstance(entry, Fold):
                order = self._choice.order
                tasks: list[JobRow] = sorted(entry.rows(), key=order.place)
                entries += tasks
        self.entries = entries


def _waits(row: JobRow) -> bool:
    """Return whether the job waits. Waiting jobs are sorted after all others, and are most of a long
    queue.
    """
    return row.state == "PENDING"


def key_of(entry: Entry) -> str:
    """Return the key of a row: the job's own id, or the key of the array."""
    return entry.key if isinstance(entry, Fold) else str(entry.id)
