"""Parser for the job IDs on scancel's command line. Pure functions.

The forms are 12, 12_3, 12_[3-5,9], 12_* and 12+1, most of them with an optional step (12_3.0). As in Slurm,
an omitted number is 0 (12. means 12.0). The component of a heterogeneous job (12+1) is only honored if the
IDs are sent to the controller unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.model import Ranges, has_task
from warpdeck.notation.values.arrays import parse_array
from warpdeck.slurm.console.console import CommandError

MAX_TASKS = 100_000
"""Largest number of tasks of one ID. It equals the number that one request may name."""
_NUMBER = r"(?:[ \t]*\+?\d{1,18})?"
_ID = re.compile(
    rf"[ \t]*\+?0*(?P<job>[1-9]\d{{0,17}})"
    rf"(?:_\[(?P<list>[^\]]*)\]|(?:(?P<all>_\*)|(?P<under>_)(?P<task>{_NUMBER})|\+(?P<part>{_NUMBER}))?"
    rf"(?P<dot>\.(?P<step>{_NUMBER}))?)(?P<more>,|$)"
)
_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


class GivenId(NamedTuple):
    """One ID of the command line.

    `text` is the ID as it was written. `sent` is the ID in the request, or "" if no job can have it. `tasks`
    is None if no array tasks are named.
    """

    text: str
    sent: str
    job: int
    tasks: Ranges | None
    is_all: bool
    step: int | None

    def each_task(self) -> Iterator[GivenId]:
        """Split an ID of several tasks, such as 12_[1-2], into IDs of one task.

        Any other ID is returned unchanged.
        """
        if self.tasks is None or self.is_all:
            yield self
            return
        numbers = chain.from_iterable(range(first, last + 1, step) for first, last, step in self.tasks)
        for task in islice(numbers, MAX_TASKS):
            yield self._replace(tasks=((task, task, 1),))

    @property
    def shown(self) -> str:
        """The ID in the message that no job matches it."""
        task = "_*" if self.is_all else f"_{self.tasks[0][0]}" if self.tasks is not None else ""
        return f"{self.job}{task}" + (f".{self.step}" if self.step is not None else "")


class CancelRow(NamedTuple):
    """An unfinished job, or the pending tasks of an array. `array` is 0 if the job is no array task."""

    id: int
    label: str
    shown: str
    """The label, with the limit of concurrent tasks."""
    name: str
    partition: str
    waits: bool
    array: int
    tasks: Ranges

    @classmethod
    def of(cls, row: dict[str, Any]) -> CancelRow:
        array, under, tasks = row["label"].partition("_")
        ranges = tuple(parse_array(tasks)[0]) if under else ()
        waits = row["state"] == "PENDING"
        limit = row["tasks_text"].partition("%")[2] if "[" in tasks else ""
        shown = f"{row['label'][:-1]}%{limit}]" if limit else row["label"]
        return cls(
            row["id"],
            row["label"],
            shown,
            row["name"],
            row["partition"],
            waits,
            int(array) if under else 0,
            ranges,
        )


class CancelRows:
    """Lookup of rows by the IDs that name them."""

    def __init__(self, rows: Iterable[CancelRow]) -> None:
        self._by_id: dict[int, CancelRow] = {}
        self._by_label: dict[str, CancelRow] = {}
        self._of_array: dict[int, list[CancelRow]] = {}
        for row in rows:
            self._by_id[row.id] = self._by_label[row.label] = row
            if row.array:
                self._of_array.setdefault(row.array, []).append(row)

    def meant(self, word: GivenId) -> list[CancelRow]:
        """Return the rows that an ID matches. The ID must not name more than one task.

        A component of a heterogeneous job is only found by its own job number.
        """
        array = self._of_array.get(word.job, [])
        if word.tasks is not None:
            task = word.tasks[0][0]
            alone = self._by_label.get(f"{word.job}_{task}")
            return [alone] if alone else [row for row in array if _has(row, task)]
        own = self._by_id.get(word.job)
        members = array if word.is_all or word.step is None else []
        return [*([own] if own and own not in members and not word.is_all else []), *members]


def _has(row: CancelRow, task: int) -> bool:
    return "[" in row.label and has_task(row.tasks, task)


def given_ids(words: list[str]) -> list[GivenId]:
    """Parse the IDs on the command line; a word may hold several IDs separated by commas.

    Raises CommandError.
    """
    found = []
    for word in words:
        rest, more = word, True
        while more:
            match = _ID.match(rest)
            if match is None:
                raise CommandError(f"Invalid job id {rest}")
            found.append(_given(match))
            rest, more = rest[match.end() :], match["more"] == ","
    return found


def _given(match: re.Match[str]) -> GivenId:
    text = match[0].removesuffix(",")
    job = int(match["job"])
    tasks: Ranges | None = None
    sent = f"{job}"
    if match["list"] is not None:
        tasks = _tasks(match["list"], text)
        sent += f"_[{match['list']}]"
    elif match["under"]:
        task = _number(match["task"])
        tasks = ((task, task, 1),)
        sent = f"{job}_{task}" if match["task"] else ""
    elif match["part"] is not None:
        sent += f"+{_number(match['part'])}"
    step = _number(match["step"]) if match["dot"] else None
    return GivenId(text, sent, job, tasks, match["all"] is not None, step)


def _number(text: str) -> int:
    return int(text or 0)


def _tasks(text: str, word: str) -> Ranges:
    """Parse the task list of an ID. Raises CommandError."""
    for span in text.split(","):
        ends = _SPAN.fullmatch(span)
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise CommandError(f"_parse_single_range: Invalid range: `{span}'\nInvalid job id {word}")
    try:
        return tuple(parse_array(text)[0])
    except UserError as error:
        raise CommandError(f"Invalid job id {word}") from error
