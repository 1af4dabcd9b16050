"""Filter for lists of jobs: words, fields and comparisons. A job must match all of them.

    llama            in the id, name, user, state, nodes, or the parameters of a sweep's task
    user:ann st:PD   in that field (id, name, user, state, node, part, account, qos, reason, sweep);
                     user:me is the calling user; name~llm is the same as name:llm
    gpu>4 gpu=0      compares a number (gpu, cpu, nodes)
    end>2h ago       compares the time of the end or of the submission (end, submit) with a past time;
                     the units are s, m, h, d and w, and "ago" can be left out
    lr=0.1           a parameter of a sweep and its whole value;
                     sweep:gpu=2 for a parameter with the name of a number field
    !vit  !user:bob  must not hold

Incomplete input never fails: `gpu>` does not restrict anything yet. Lists in memory are tested with `holds`.
The store applies the same clauses to finished jobs in SQL.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

from warpdeck.base.errors import UserError
from warpdeck.model import COMPACT, JobState
from warpdeck.model.finished_jobs import MAX_CLAUSES, Clause

MAX_CACHED_GRIDS = 64
"""Number of sweeps that may be in the queue at once."""
WORD = "word"
"""The field of a word that names no field."""
TEXT_FIELDS = ("id", "name", "user", "state", "node", "part", "account", "qos", "reason", "sweep")
NUMBER_FIELDS = ("gpu", "cpu", "nodes")
TIME_FIELDS = ("end", "submit")
"""The fields that are compared with a past time. The value of their clauses is its age in seconds."""
LONGEST_VALUE = 256
"""Maximum number of characters of one word that are used."""
MOST_DIGITS = 15
"""Maximum number of digits, so that an integer column of the store can hold the number."""
MOST_VALUES = 500
"""Maximum number of values per parameter that are searched for the folded pending tasks of a sweep.

The searchable text is kept for each folded job, and it is searched with every key press.
"""
_SHORT = {
    "st": "state",
    "s": "state",
    "u": "user",
    "n": "name",
    "partition": "part",
    "nodes": "node",
    "job": "id",
}
_COMPARED = re.compile(r"(gpu|cpu|nodes)s?(>=|<=|>|<|=)([0-9]*)")
_COMPARABLE = {*NUMBER_FIELDS, *(f"{field}s" for field in NUMBER_FIELDS)}
_TIMED = re.compile(r"(end|submit)(>=|<=|>|<)(?:([0-9]{1,6})([smhdw]))?")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGO = ("ago", "ag", "a")
"""The word after a past time, also while it is typed."""
_COMPARES = re.compile(r"([a-z]+)[<>=]")
_NAMED = re.compile(r"([a-z]+)[:~](.*)")
OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}


class Filtered(Protocol):
    """The attributes of a job that a filter uses."""

    @property
    def label(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def state_short(self) -> str: ...
    @property
    def node_list(self) -> str: ...
    @property
    def partition(self) -> str: ...
    @property
    def account(self) -> str: ...
    @property
    def qos(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def sweep(self) -> str: ...
    @property
    def gpus(self) -> int: ...
    @property
    def cpus(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def submit(self) -> float: ...
    @property
    def end(self) -> float | None: ...


Test = Callable[[Filtered], bool]
_TEXT: dict[str, Callable[[Filtered], str]] = {
    "id": lambda row: row.label,
    "name": lambda row: row.name,
    "user": lambda row: row.user,
    "node": lambda row: row.node_list,
    "part": lambda row: row.partition,
    "account": lambda row: row.account,
    "qos": lambda row: row.qos,
    "reason": lambda row: row.reason,
}
_NUMBERS: dict[str, Callable[[Filtered], int]] = {
    "gpu": lambda row: row.gpus,
    "cpu": lambda row: row.cpus,
    "nodes": lambda row: row.nodes,
}
_TIMES: dict[str, Callable[[Filtered], float | None]] = {
    "end": lambda row: row.end,
    "submit": lambda row: row.submit,
}


def parse_filter(text: str, *, me: str = "") -> tuple[Clause, ...]:
    """Return the clauses of a filter text. Of a very long text only the first ones are used. `me` is the user
    that `user:me` means.
    """
    return tuple(clause for word in _words(text) if (clause := _clause(word, me)) is not None)


def _words(text: str) -> list[str]:
    """Return the words of a filter, without the word "ago" after a time."""
    words = text.lower().split()[:MAX_CLAUSES]
    return [
        word
        for before, word in zip(["", *words], words, strict=False)
        if word not in _AGO or not has_times(before)
    ]


def has_times(text: str) -> bool:
    """Return whether the filter compares times, so that its result changes with time."""
    return any(_TIMED.fullmatch(word.lstrip("!")) for word in text.lower().split())


def holds(clauses: Sequence[Clause], *, now: float | None = None) -> Test:
    """Return a function that tests whether a job matches all clauses. Clauses about times need `now`."""
    tests = [_test(clause, now) for clause in clauses]
    return lambda row: all(test(row) for test in tests)


def matching_states(clause: Clause) -> list[JobState]:
    """Return the states that match a clause. The clause is about the state, or it is a word without a field.

    In a clause about the state, "r" is Slurm's short code R and does not match all names that contain an r.
    """
    wanted = clause.value
    if clause.field == WORD:
        return [each for each in JobState if wanted in each.lower() or wanted in COMPACT[each].lower()]
    return [each for each in JobState if _is_state(wanted, each, COMPACT[each])]


def number_of(clause: Clause) -> int:
    """Return the number of a comparison. Raises UserError if it is not a number."""
    if not (clause.value.isascii() and clause.value.isdecimal()):
        raise UserError(
            f"{clause.field}{clause.sign}{clause.value} does not compare with a number", "write such as gpu>4"
        )
    return int(clause.value[:MOST_DIGITS])


def probable_mistake(text: str) -> str:
    """Return a sentence about the probable mistake in a filter that matches nothing; "" if every word is
    valid.
    """
    for word in _words(text):
        bare = word.lstrip("!")
        clause, named, compared = _clause(bare, ""), _NAMED.fullmatch(bare), _COMPARES.match(bare)
        if clause is None:
            continue
        if clause.field == "state" and not matching_states(clause):
            return f"there is no state {clause.value}; write such as R, PD, CD, F, or the beginning of a name (canc)"
        if named and clause.field == WORD and named[1] in _COMPARABLE:
            return f"{named[1]} is a number; write such as {named[1]}>4 or {named[1]}=0"
        if named and clause.field == WORD:
            return f"there is no field {named[1]}; the fields are {', '.join(TEXT_FIELDS)}"
        if compared and clause.field == WORD:
            if compared[1] in TIME_FIELDS:
                return f"{bare} does not compare with a past time; write such as {compared[1]}>2h ago"
            if compared[1] in _COMPARABLE:
                return f"{bare} does not compare with a whole number; write such as gpu>4"
            if compared[0].endswith("="):
                return f"no sweep here has {bare}, and only {', '.join(NUMBER_FIELDS)} can be compared"
            return f"{compared[1]} cannot be compared; only {', '.join(NUMBER_FIELDS)} can"
    return ""


def plain_words(text: str) -> str:
    """Return the words that are searched for literally, so that a table can highlight them."""
    return " ".join(
        word
        for word in _words(text)
        if not any(sign in word for sign in ":!~")
        and not _COMPARED.fullmatch(word)
        and not _TIMED.fullmatch(word)
    )


def _clause(word: str, me: str) -> Clause | None:
    """Return the clause of a word; None if it does not restrict anything yet."""
    absent = word.startswith("!")
    word = word.lstrip("!") if absent else word
    compared = _COMPARED.fullmatch(word)
    if compared:
        field, sign, digits = compared.groups()
        if not digits:
            return None
        return Clause(field=field, sign=sign, value=digits[:MOST_DIGITS], absent=absent)
    timed = _TIMED.fullmatch(word)
    if timed:
        field, sign, count, unit = timed.groups()
        if not count:
            return None
        return Clause(field=field, sign=sign, value=str(int(count) * _UNITS_S[unit]), absent=absent)
    named = _NAMED.fullmatch(word)
    field = _SHORT.get(named[1], named[1]) if named else WORD
    value = named[2] if named and field in TEXT_FIELDS else word
    field = field if field in TEXT_FIELDS else WORD
    if not value:
        return None
    if field == "user" and value == "me" and me:
        return Clause(field="user", sign="is", value=me, absent=absent)
    return Clause(field=field, sign="has", value=value[:LONGEST_VALUE], absent=absent)


def _test(clause: Clause, now: float | None) -> Test:
    is_time = clause.field in TIME_FIELDS and clause.sign in OPERATORS
    inner = _time_test(clause, now) if is_time else _positive_test(clause)
    return (lambda row: not inner(row)) if clause.absent else inner


def _time_test(clause: Clause, now: float | None) -> Test:
    read, compare = _TIMES[clause.field], OPERATORS[clause.sign]
    if now is None:
        raise UserError(f"{clause.field} cannot be compared with a time here", "Remove it from the filter")
    moment = now - number_of(clause)
    return lambda row: (at := read(row)) is not None and compare(at, moment)


def _positive_test(clause: Clause) -> Test:
    field, value = clause.field, clause.value
    if field in _NUMBERS and clause.sign in OPERATORS:
        number, compare, wanted = _NUMBERS[field], OPERATORS[clause.sign], number_of(clause)
        return lambda row: compare(number(row), wanted)
    if field == "state":
        return lambda row: _is_state(value, row.state, row.state_short)
    if field == "sweep":
        return lambda row: in_sweep(value, row.sweep)
    if field in _TEXT:
        read = _TEXT[field]
        if clause.sign == "is":
            return lambda row: read(row) == value
        return lambda row: value in read(row).lower()
    return lambda row: value in _searched_text(row) or in_sweep(value, row.sweep)


def _is_state(wanted: str, state: str, short: str) -> bool:
    return not wanted or wanted == short.lower() or state.lower().startswith(wanted)


def _searched_text(row: Filtered) -> str:
    return f"{row.label} {row.name} {row.user} {row.state} {row.state_short} {row.node_list}".lower()


def sweep_pattern(wanted: str) -> str:
    """Return the text to look for in `padded_sweep`: for `lr=0.1` the whole value, else any part of a
    value.
    """
    if "=" not in wanted:
        return wanted
    return f" {wanted}" if wanted.endswith("=") else f" {wanted} "


def padded_sweep(sweep: str) -> str:
    """Return the searchable text of a sweep's task. For pending tasks that are still folded, it also lists
    each value separately.
    """
    if not sweep:
        return ""
    text = sweep.lower()
    return f" {text} {_each_pair(text)} " if "," in text or ".." in text else f" {text} "


def in_sweep(wanted: str, sweep: str) -> bool:
    """Return whether the parameters of a task match the text. For folded pending tasks, one matching task is
    enough.
    """
    return bool(sweep) and sweep_pattern(wanted) in padded_sweep(sweep)


@lru_cache(maxsize=MAX_CACHED_GRIDS)
def _each_pair(grid: str) -> str:
    """Return "lr=0.1 lr=0.01 seed=1 ..."; "" for a text that was cut off inside quotes."""
    # Imported here because the app filters jobs in its first frame, and needs the parser of scripts only for sweeps.
    from warpdeck.notation.request.sweep import parse_grid

    try:
        found = [f"{each.name}={value}" for each in parse_grid(grid) for value in each.values[:MOST_VALUES]]
    except UserError:
        return ""
    return " ".join(found)
