"""Selects the jobs that scancel's IDs and filters match, and asks for confirmation with --interactive.

The messages are those of scancel(1).
"""

from __future__ import annotations

import os.path
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import existing_uid, name_of, uid_of
from warpdeck.client.blocking_client import SyncClient
from warpdeck.notation.values.hostlist import expand
from warpdeck.protocol.refusals import WORDS
from warpdeck.slurm.console.command_options import split_list
from warpdeck.slurm.console.console import CommandError, Console
from warpdeck.slurm.console.repl import MAX_LINE
from warpdeck.slurm.fields.job_states import OURS

from .cancel_ids import CancelRow, CancelRows, GivenId

FILTERS = {
    "account": "account",
    "name": "job_name",
    "nodelist": "nodelist",
    "partition": "partition",
    "qos": "qos",
    "reservation": "reservation",
    "state": "state",
    "user": "user_name",
    "wckey": "wckey",
}
"""Option -> its name in the message that no job matches, in the order of that message."""
ASKED = {
    "account": "accounts",
    "name": "names",
    "qos": "qos",
    "reservation": "reservations",
}
"""Option -> filter of the controller's request. Each takes exactly one name, which may contain a comma."""
STATES = {"RUNNING": ("RUNNING", "CONFIGURING")}
"""State -> the states of ours that it stands for, if they are not the same."""
MAX_SELECTED = 100_000
"""Largest number of jobs that filters may select. It equals the number that one request may name."""
MAX_FILE_BYTES = 1024 * 1024
"""Largest size of a file with node names."""
SETTINGS = (
    ("account", "account"), ("batch", ""), ("ctld", ""), ("full", ""), ("hurry", ""), ("interactive", ""), ("job_name", "name"),
    ("nodelist", "nodelist"), ("partition", "partition"), ("qos", "qos"), ("reservation", "reservation"), ("sibling", "sibling"),
    ("signal", "signal"), ("state", "state"), ("user_id", "user"), ("user_name", "user"), ("verbose", "verbose"),
    ("wckey", "wckey"),
)  # fmt: skip
"""Settings that -vvv prints, in this order: printed name -> option with the value ("" for a switch)."""
Options = dict[str, str]


def user_named(name: str) -> str:
    """Return the user's name; `name` may also be a numeric ID.

    Raises CommandError for a user unknown to this machine.
    """
    uid = existing_uid(name)
    if uid is None:
        raise CommandError(f"Invalid user name: {name}")
    return name_of(uid)


class CancelTarget(NamedTuple):
    """A job or step to cancel.

    `sent` is its ID in the request, or "" if the job does not exist. `shown` is the job ID in scancel's
    messages, without a step.
    """

    sent: str
    shown: str
    step: int | None = None


def complaint(name: str, words: str, *, of_step: bool = False) -> str:
    """Return the error line for one job or step."""
    return f"scancel: error: Kill job error on job {'step ' if of_step else ''}id {name}: {words}\n"


def options_text(given: Options, number: int, ids: list[GivenId]) -> str:
    """Return the settings of the command line as -vvv prints them."""
    unset = {"state": "?", "user_id": "0"}
    lines = []
    for name, option in SETTINGS:
        value = given.get(option, unset.get(name, "(null)")) if option else str(name in given).lower()
        if name == "user_id" and option in given:
            value = str(uid_of(user_named(value)))
        if name == "signal":
            value = str(number)
        if name != "signal" or number:
            lines.append(f"{name:<15}: {value}")
    for place, each in enumerate(one for word in ids for one in word.each_task()):
        what = "job_id" if each.step is None else "job_step_id"
        lines.append(f"{f'{what}[{place}]':<15}: {each.shown}")
    return "".join(f"scancel: {line}\n" for line in lines)


class CancelChoice:
    """Finds the unfinished jobs that the IDs and filters match."""

    def __init__(self, client: SyncClient, given: Options, console: Console) -> None:
        self._client = client
        self._given = given
        self._console = console
        self._loud = int(given.get("verbose", "0"))
        self.missing = False
        """True if an ID matched no job."""

    def targets(self, ids: list[GivenId]) -> list[CancelTarget]:
        """Return the jobs and steps to cancel.

        They are in the order of the IDs. Without IDs, pending jobs come first. IDs that match no job are
        reported. With --interactive, the user is asked about each target.
        """
        words: list[GivenId] = []
        rows: list[CancelRow] = []
        if ids:
            rows, words = self._named(ids)
        filters = {name: self._given[name] for name in FILTERS if name in self._given}
        if filters:
            rows = self._filtered(rows, filters, alone=not ids)
        index, passed = CancelRows(rows), {row.id for row in rows}
        found: dict[CancelTarget, None] = {}
        named = ((row, word.step) for word in words for row in index.meant(word))
        alone = ((row, None) for row in sorted(rows, key=lambda row: not row.waits))
        for row, step in named if ids else alone:
            target = _target(row, step)
            if target is None or target in found or row.id not in passed:
                continue
            if "interactive" in self._given and not _agreed(row, step, self._console):
                passed.discard(row.id)
            else:
                found[target] = None
        return list(found)

    def _named(self, ids: list[GivenId]) -> tuple[list[CancelRow], list[GivenId]]:
        """Return the rows that the IDs match, and the IDs that match a row. The other IDs are reported."""
        index = CancelRows(self._rows({}, ids=ids))
        known: list[GivenId] = []
        rows: dict[int, CancelRow] = {}
        for word in (one for each in ids for one in each.each_task()):
            meant = index.meant(word)
            rows |= {row.id: row for row in meant}
            if meant:
                known.append(word)
                continue
            self.missing = True
            if self._loud >= 0:
                line = complaint(word.shown, WORDS["not_found"], of_step=word.step is not None)
                self._console.streams.err.write(line)
        return sorted(rows.values(), key=lambda row: row.id), known

    def _filtered(self, rows: list[CancelRow], filters: Options, *, alone: bool) -> list[CancelRow]:
        """Return the rows that pass the filters.

        They are taken from the given rows, or from all jobs if no ID was given (`alone`). With -v, an error
        says that no job passes. As in Slurm, a passing job that comes after the first named job prevents the
        message even if it was not named.
        """
        whose = "" if self._client.welcome["admin"] else str(self._client.welcome["uid"])
        if "nodelist" in filters:
            filters = {**filters, "nodelist": _node_names(filters["nodelist"], self._console)}
        passed = self._rows(filters, whose=whose)
        first = 0 if alone else rows[0].id if rows else sys.maxsize
        if self._loud > 0 and not any(row.id >= first for row in passed):
            given = " ".join(f"{FILTERS[name]}={filters[name]}" for name in FILTERS if name in filters)
            self._console.streams.err.write(
                f"scancel: error: No active jobs match ALL job filters, including: {given} \n"
            )
        numbers = {row.id for row in rows}
        return passed if alone else [row for row in passed if row.id in numbers]

    def _rows(self, filters: Options, *, ids: Sequence[GivenId] = (), whose: str = "") -> list[CancelRow]:
        """Return the unfinished jobs that match the filters and IDs.

        If no user is named, only jobs of the user `whose` match ("" for jobs of all users). An empty filter
        matches no job.
        """
        if not all(filters.values()) or "wckey" in filters or filters.get("state", "PENDING") not in OURS:
            return []  # Jobs have no wckey here.
        try:
            asked = _request_filters(filters, whose)
        except UserError:
            return []  # Slurm treats an invalid node list as a list that names no node.
        jobs = list(dict.fromkeys(str(each.job) for each in ids))
        fields = ["id", "label", "name", "partition", "end", "state", "tasks_text"]
        answer = self._client.call("jobs", ids=jobs, limit=MAX_SELECTED, fields=fields, **asked)
        partition = filters.get("partition", "")
        found = (CancelRow.of(row) for row in answer["jobs"] if row["end"] is None)
        return [row for row in found if not partition or row.partition == partition]


def _target(row: CancelRow, step: int | None) -> CancelTarget | None:
    """Return the target for a row, or None for a step of a pending job, which has no steps."""
    if step is not None:
        return None if row.waits else CancelTarget(f"{row.id}.{step}", str(row.id), step)
    name = str(row.id) if "+" in row.label else row.label
    return CancelTarget(name, row.shown if name == row.label else name)


def _request_filters(filters: Options, whose: str) -> dict[str, Any]:
    """Return the filters of the request. Raises UserError for an invalid node list."""
    asked: dict[str, Any] = {field: [filters[name]] for name, field in ASKED.items() if name in filters}
    asked["partitions"] = split_list(filters.get("partition", ""))
    if "nodelist" in filters:
        asked["nodes"] = expand(filters["nodelist"])
    if "state" in filters:
        asked["states"] = list(STATES.get(filters["state"], (filters["state"],)))
    if "user" in filters:
        asked["users"] = [user_named(filters["user"])]
    elif whose:
        asked["users"] = [whose]
    return asked


def _node_names(text: str, console: Console) -> str:
    """Return the node list.

    A text with a slash is the path of a file with node names. Raises CommandError.
    """
    if "/" not in text:
        return text
    try:
        data = console.read_file(os.path.join(console.folder, text), MAX_FILE_BYTES)
    except OSError as error:
        raise CommandError(f"Unable to open file {text}: {error.strerror}") from error
    return ",".join(data.decode("utf-8", "replace").split())


def _agreed(row: CancelRow, step: int | None, console: Console) -> bool:
    what = f"job_id={row.shown}" if step is None else f"step_id={row.shown}.{step}"
    while True:
        console.print_lines([f"Cancel {what} name={row.name} partition={row.partition} [y/n]? "], end="")
        console.streams.out.flush()
        answer = console.streams.stdin.readline(MAX_LINE)
        # Slurm's scancel repeats the question forever at the end of input. We treat it as no.
        if not answer or answer[0] in "yYnN":
            return answer[:1] in ("y", "Y")
