"""The lines of a list of jobs, kept in order as jobs change: what has not changed is not looked at twice.

A job is told by identity: a row never changes, another one takes its place. So an update of a hundred thousand jobs of
which ten have changed filters and places ten.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import NamedTuple

from warpdeck.notation.filters.job_filter import Test, holds, parse_filter
from warpdeck.protocol.job_rows import JobRow

from .arrays import Fold, is_task
from .order import Order, Rank

Entry = JobRow | Fold
Place = tuple[Rank, int]
FEW = 200
"""Below one in so many, each change is put into its place; above, sorting all is cheaper."""


SLICE = 8_000
"""Rows that are looked at in one go, about 25 ms: of a hundred thousand the first screenful comes at once, and keys between."""


class Choice(NamedTuple):
    """Which jobs, in which order. `user` None: everybody's."""

    user: str | None = None
    text: str = ""
    order: Order = Order()
    me: str = ""
    """Who `user:me` is in the text."""


class Listing:
    """The chosen jobs as lines. An array of which there are several rows is one line until it is opened."""

    def __init__(self, *, folds: bool = True) -> None:
        self._folds = folds
        self._choice = Choice()
        self._open: set[int] = set()
        self.behind = False
        """There are rows that were not looked at yet: `follow` wants to be called again soon."""
        self.entries: list[Entry] = []
        """The lines. A job of an array that is one line stands below it."""
        self._begin()

    def _begin(self) -> None:
        self._holds: Test = holds(parse_filter(self._choice.text, me=self._choice.me))
        self._seen: dict[int, JobRow] = {}
        self._chosen: dict[int, JobRow] = {}
        self._arrays: dict[int, Fold] = {}
        self._places: dict[int, Place] = {}
        self._sorted: list[Place] = []
        self._later: set[int] = set()
        """What has changed and has no new place yet."""

    @property
    def jobs(self) -> Mapping[int, JobRow]:
        """All rows that the lines mean; what waits of an array is one."""
        return self._chosen

    def follow(self, jobs: Mapping[int, JobRow], choice: Choice) -> bool:
        """The lines as `jobs` are now, or a slice nearer to it (`behind`); False where nothing has changed."""
        again = choice != self._choice
        if again:
            self._choice = choice
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
            return again  # put into their places with the next slices, or each would go through all lines
        self._later = set()
        if touched or again:
            self._place(touched)
            self._lay_out()
        return bool(touched) or again

    def toggle(self, array_job_id: int) -> None:
        """Shows an array's tasks below its line, or folds them in again."""
        self._open ^= {array_job_id}
        self._lay_out()

    def is_open(self, array_job_id: int) -> bool:
        return array_job_id in self._open

    def stands_below(self, row: JobRow) -> bool:
        """Whether the job's line is one of those below its array's."""
        array = self._arrays.get(self._group(row))
        return array is not None and len(array) > 1

    def fold(self, key: str) -> Fold | None:
        """The array of that key."""
        number = key.removeprefix("array ")
        return self._arrays.get(int(number)) if number != key and number.isdigit() else None

    def _group(self, row: JobRow) -> int:
        """The array's number, or the job's own below 0."""
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
            else:  # its line may be painted once more before the screen follows: the fold keeps its last row
                del self._arrays[group]
        touched.add(group)

    def _entry(self, group: int) -> Entry | None:
        """None where none of it is left."""
        if group < 0:
            row = self._chosen.get(-group)
            return row if row is not None and self._group(row) == group else None
        array = self._arrays.get(group)
        return array if array is None or len(array) > 1 else next(array.rows())

    def _place(self, touched: set[int]) -> None:
        """New places for what has changed: a few are put in, many are sorted and merged with the others."""
        old = [place for group in touched if (place := self._places.pop(group, None)) is not None]
        if len(old) < len(self._sorted) // FEW:
            for place in old:
                del self._sorted[bisect_left(self._sorted, place)]
        elif old:
            gone = set(touched)
            self._sorted = [place for place in self._sorted if place[1] not in gone]
        order, new = self._choice.order, list[Place]()
        for group in touched:
            entry = self._entry(group)
            if entry is not None:
                place = (order.place(entry.head if isinstance(entry, Fold) else entry), group)
                self._places[group] = place
                new.append(place)
        if len(new) < len(self._sorted) // FEW:
            for place in new:
                insort(self._sorted, place)
        else:
            self._sorted += sorted(new)
            self._sorted.sort()  # two runs: they are merged

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
    """What waits stands behind all else, and is most of a long queue."""
    return row.state == "PENDING"


def key_of(entry: Entry) -> str:
    """A job's own id, or what an array is called."""
    return entry.key if isinstance(entry, Fold) else str(entry.id)
