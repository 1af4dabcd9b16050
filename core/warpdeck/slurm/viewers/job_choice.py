"""Select the jobs and steps that squeue's command line asks for.

The controller filters the jobs and sends only the columns that are printed. This module looks up users and
host names, which the controller does not know, and splits folded arrays into lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import existing_uid
from warpdeck.client.blocking_client import SyncClient
from warpdeck.notation.values.arrays import number_ranges, parse_array
from warpdeck.notation.values.durations import NO_TIME, UNLIMITED, read_seconds
from warpdeck.notation.values.hostlist import expand
from warpdeck.notation.values.job_ids import TaskRanges, is_job_id, parse_job_id
from warpdeck.notation.values.lists import words_of
from warpdeck.slurm.console.command_options import WordsError, split_list
from warpdeck.slurm.fields.job_states import CODES, ENDED, OURS, SPECIAL, STATE_FIELDS, shown_state
from warpdeck.slurm.format.format_strings import Row

MAX_JOBS = 100_000
"""Largest number of jobs in one response; the controller has the same limit."""
_LEADING = re.compile(r"\+?(\d{1,18})(?:(_)(\d{0,9}))?")
"""The part of a job ID that a C parser reads: a number, and an optional task number."""
_STEP = re.compile(r"(\.\w+|\+\d+)$")
"""Suffix of a job ID that names a step or a heterogeneous component.

As in Slurm, it selects the whole job.
"""
LISTED = (OURS - ENDED) | SPECIAL
"""Job states that are listed if none are named."""
LISTS = ("account", "licenses", "name", "partition", "qos", "reservation", "states", "user")
"""Options whose value is a list of allowed values. An empty list matches no job."""


class JobFilterOptions(NamedTuple):
    """A parsed command line with its environment variables filled in: option -> its last value."""

    values: dict[str, str]
    user: str
    host: str
    """User and host that run the command."""
    complain: Callable[[str], None]

    def has(self, *names: str) -> bool:
        return any(name in self.values for name in names)

    def names(self, name: str) -> list[str]:
        return split_list(self.values.get(name, ""))


def job_rows(asked: JobFilterOptions, client: SyncClient, *, needs: list[str]) -> list[Row]:
    """Return the selected jobs with the columns in `needs`. Raises WordsError.

    Arrays stay folded unless `--array` or task IDs were given.
    """
    states, ids = _states(asked), _ids(asked)
    filters = _filters(asked, client)
    if filters is None or not states or (asked.values.get("jobs") and not ids):
        return []
    if states != LISTED:  # The controller already selects the states in LISTED by default.
        needs = [*needs, *STATE_FIELDS.split()]
        if not ids:
            filters["states"] = sorted({"PENDING" if state in SPECIAL else state for state in states})
    filters |= {"ids": ids, "names_in_any_case": True}
    needs = [*needs, *(name for option, name in CHOOSING.items() if asked.has(option))]
    rows = _ask(client, "jobs", **filters, limit=MAX_JOBS, fields=needs)
    if len(ids) == 1 and not rows and not _exists(ids[0], client):
        raise WordsError("slurm_load_jobs error: Invalid job id specified")
    if ids and states == LISTED:
        rows = [row for row in rows if row["state"] in states]
    elif states != LISTED:
        rows = [row for row in rows if shown_state(row) in states]
    rows = [row for row in rows if _is_chosen(row, asked)]
    named = [parse_job_id(word) for word in ids]
    if not named and not asked.has("array"):
        return rows
    return [line for row in rows for line in _lines(row, asked, named)]


CHOOSING = {"notme": "user", "running-over": "used_s", "running-under": "used_s"}
"""Options by which this module chooses among the controller's jobs, and the columns that they need."""


def _is_chosen(row: Row, asked: JobFilterOptions) -> bool:
    """Return whether the options in `CHOOSING` select the job."""
    if asked.has("notme") and row["user"] == asked.user:
        return False
    over, under = (asked.values.get(f"running-{end}") for end in ("over", "under"))
    if over is None and under is None:
        return True
    used_s = row["used_s"]
    return (
        row["state"] == "RUNNING"
        and (over is None or used_s > read_seconds(over))
        and (under is None or used_s < read_seconds(under))
    )


def step_rows(asked: JobFilterOptions, client: SyncClient) -> list[Row]:
    """Return the running steps that the command line selects. Raises WordsError."""
    wanted = frozenset(_step_id(word) for word in asked.names("steps"))
    filters = _filters(asked, client)
    if filters is None or (asked.values.get("steps") and not wanted):
        return []
    kept = {name: filters[name] for name in ("users", "partitions", "nodes") if name in filters}
    ids = sorted({job for job, _ in wanted}) or _ids(asked)
    rows = [{**step, **step["row"]} for step in _ask(client, "steps", ids=ids, **kept)]
    return [row for row in rows if _is_wanted(row, wanted)]


def _exists(job: str, client: SyncClient) -> bool:
    return bool(_ask(client, "jobs", ids=[job.partition("_")[0]], limit=1, fields=["id"]))


def _ask(client: SyncClient, kind: str, **fields: Any) -> list[Row]:
    rows: list[Row] = client.call(kind, **fields)[kind]
    return rows


def _is_wanted(row: Row, wanted: frozenset[tuple[str, str]]) -> bool:
    job, _, step = str(row["id"]).rpartition(".")
    return not wanted or (job, step) in wanted or (str(row["job_id"]), step) in wanted


def _states(asked: JobFilterOptions) -> frozenset[str]:
    """Return the requested job states. Raises WordsError."""
    text = asked.values.get("states", "PENDING" if asked.has("start") else None)
    return LISTED if text is None else _states_of(text)


def _states_of(text: str) -> frozenset[str]:
    """Parse a list of state names or codes. Raises WordsError."""
    if text.lower() == "all":
        return OURS | SPECIAL
    wanted: set[str] = set()
    for word in split_list(text):
        named = [state for state, code in CODES.items() if word.upper() in (state, code)]
        if not named:
            raise WordsError(
                f"squeue: error: Invalid job state specified: {word}\n"
                f"squeue: error: Valid job states include: {','.join(CODES)}\n"
            )
        wanted |= set(named)
    return frozenset(wanted) & (OURS | SPECIAL)


def check(option: str, value: str, complain: Callable[[str], None]) -> None:
    """Validate an option's value as soon as it is parsed.

    As in squeue, a value is also validated if a later option overrides it. An unknown state raises
    WordsError; an unknown user is only reported.
    """
    if option == "states":
        _states_of(value)
    if option in ("running-over", "running-under") and read_seconds(value) in (NO_TIME, UNLIMITED):
        raise WordsError("squeue: fatal: Invalid time limit specification")
    for name in split_list(value) if option == "user" else ():
        if existing_uid(name) is None:
            complain(f"Invalid user: {name}\n")


def _ids(asked: JobFilterOptions) -> list[str]:
    """Return the job IDs of `--jobs`. Raises WordsError."""
    return [_id(word) for word in words_of(asked.values.get("jobs", ""))]


def _id(word: str) -> str:
    """Return the job or array task that `word` names. Text after the number is ignored. Raises WordsError."""
    if is_job_id(bare := _STEP.sub("", word)) and parse_job_id(bare)[0]:
        return bare
    found = _LEADING.match(word)
    if found is None or not int(found[1]):
        raise WordsError(f"squeue: error: Invalid job id: {word}")
    return f"{int(found[1])}_{int(found[3] or 0)}" if found[2] else found[1]


def _step_id(word: str) -> tuple[str, str]:
    """Split a step ID such as 12.0 or 12_3.batch into (job, step). Raises WordsError."""
    job, dot, step = word.rpartition(".")
    try:
        parse_job_id(job)
    except UserError:
        raise WordsError(f"squeue: error: Invalid job_step id: {word}{'' if dot else '.??'}") from None
    return job, step


def _filters(asked: JobFilterOptions, client: SyncClient) -> dict[str, Any] | None:
    """Return the filters to send to the controller, or None if they cannot match any job.

    Raises WordsError.
    """
    nodes = _nodes(asked, client)
    if any(option in asked.values and not asked.names(option) for option in LISTS):
        return None
    filters = {
        "accounts": asked.names("account"),
        "licenses": asked.names("licenses"),
        "names": asked.names("name"),
        "partitions": asked.names("partition"),
        "qos": asked.names("qos"),
        "reservations": asked.names("reservation"),
        "nodes": nodes,
        "users": [asked.user] if asked.has("me") else _users(asked),
    }
    if asked.has("user") and not filters["users"]:
        return None
    return {name: words for name, words in filters.items() if words}


def _users(asked: JobFilterOptions) -> list[str]:
    return [name for name in asked.names("user") if existing_uid(name) is not None]


def _nodes(asked: JobFilterOptions, client: SyncClient) -> list[str]:
    """Return the selected node names.

    A host name is replaced by the nodes on that host. Raises WordsError.
    """
    text = asked.values.get("nodelist", "")
    if not text:
        return []
    try:
        names = expand(text)
    except UserError:
        raise WordsError(f"squeue: error: '{text}' invalid entry for --nodelist") from None
    on_host: dict[str, list[str]] = {}
    for node in _ask(client, "nodes", facts=True):
        for name in {node["name"], node["hostname"]}:
            on_host.setdefault(name, []).append(node["name"])
    names = [asked.host if name == "localhost" else name for name in names]
    for name in names:
        if name not in on_host:
            raise WordsError(f"squeue: error: Invalid node name {name}")
    return [node for name in names for node in on_host[name]]


def _lines(row: Row, asked: JobFilterOptions, named: list[tuple[int, TaskRanges | None]]) -> Iterator[Row]:
    """Yield the lines of one job.

    A folded array is one line, one line per task, or only the selected tasks.
    """
    text = row["tasks_text"]
    if not row["tasks_folded"]:
        yield row
        return
    of_it = [ranges for number, ranges in named if number == row["array_job_id"]]
    some = bool(of_it) and None not in of_it
    if not some and not asked.has("array"):
        yield row
        return
    wanted = {task for ranges in of_it for task in _each(ranges or ())}
    waiting = _each(tuple(parse_array(text.partition("%")[0])[0]))
    tasks = [task for task in waiting if not some or task in wanted]
    together = len(tasks) > 1 and not asked.has("array")
    if together:
        yield {**row, "tasks_text": number_ranges(tasks)}
    for task in () if together else tasks:
        yield {**row, "array_task_id": task, "tasks_text": str(task), "tasks_folded": False}


def _each(ranges: TaskRanges) -> Iterator[int]:
    for first, last, step in ranges:
        yield from range(first, last + 1, step)
