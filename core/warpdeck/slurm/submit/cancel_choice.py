"""Which jobs scancel's filters choose, and what it asks and says about them first. Words are those of scancel(1)."""

from __future__ import annotations

import os.path
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import name_of, uid_of, user_there
from warpdeck.client.blocking_client import SyncClient
from warpdeck.notation.values.hostlist import expand
from warpdeck.protocol.refusals import WORDS
from warpdeck.slurm.console.arguments import listed
from warpdeck.slurm.console.console import CommandError, Console
from warpdeck.slurm.console.repl import MAX_LINE
from warpdeck.slurm.format.job_states import OURS

from .cancel_ids import GivenId, Row, Rows

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
"""Option -> its name where nothing matches, in the order in which they are told."""
ASKED = {
    "account": "accounts",
    "name": "names",
    "qos": "qos",
    "reservation": "reservations",
}
"""Option -> how the controller is asked for it. Each means one name, which may have a comma in it."""
STATES = {"RUNNING": ("RUNNING", "CONFIGURING")}
"""State -> those of ours, where it is not the same."""
MAX_SELECTED = 100_000
"""Jobs that filters may stand for: as many as one request may name."""
MAX_FILE_BYTES = 1024 * 1024
"""Of a file of node names."""
SETTINGS = (
    ("account", "account"), ("batch", ""), ("ctld", ""), ("full", ""), ("hurry", ""), ("interactive", ""), ("job_name", "name"),
    ("nodelist", "nodelist"), ("partition", "partition"), ("qos", "qos"), ("reservation", "reservation"), ("sibling", "sibling"),
    ("signal", "signal"), ("state", "state"), ("user_id", "user"), ("user_name", "user"), ("verbose", "verbose"),
    ("wckey", "wckey"),
)  # fmt: skip
"""What -vvv tells, in this order: its name there, and the option with its value, "" for a switch."""
Options = dict[str, str]


def user_named(name: str) -> str:
    """The user's name, which may be given as a number. Raises CommandError for one that this machine does not know."""
    uid = user_there(name)
    if uid is None:
        raise CommandError(f"Invalid user name: {name}")
    return name_of(uid)


class Target(NamedTuple):
    """What is cancelled: `sent` as the controller knows it, "" for nothing that there is; `told` as scancel names it, with no step."""

    sent: str
    told: str
    step: int | None = None


def complaint(name: str, words: str, *, of_step: bool = False) -> str:
    """The line that tells what is wrong with one job or step."""
    return f"scancel: error: Kill job error on job {'step ' if of_step else ''}id {name}: {words}\n"


def told_options(given: Options, number: int, ids: list[GivenId]) -> str:
    """What the command line comes to, for -vvv."""
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
        lines.append(f"{f'{what}[{place}]':<15}: {each.told}")
    return "".join(f"scancel: {line}\n" for line in lines)


class Choice:
    """What ids and filters come to among the jobs that have not ended."""

    def __init__(self, client: SyncClient, given: Options, console: Console) -> None:
        self._client = client
        self._given = given
        self._console = console
        self._loud = int(given.get("verbose", "0"))
        self.missing = False
        """Whether an id has stood for nothing."""

    def targets(self, ids: list[GivenId]) -> list[Target]:
        """In the order of the ids, without ids what waits first. Tells what ids stand for nothing, asks about each with
        --interactive."""
        words: list[GivenId] = []
        rows: list[Row] = []
        if ids:
            rows, words = self._named(ids)
        filters = {name: self._given[name] for name in FILTERS if name in self._given}
        if filters:
            rows = self._filtered(rows, filters, alone=not ids)
        index, passed = Rows(rows), {row.id for row in rows}
        found: dict[Target, None] = {}
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

    def _named(self, ids: list[GivenId]) -> tuple[list[Row], list[GivenId]]:
        """Rows that ids mean, and the ids that mean one; the others are told."""
        index = Rows(self._rows({}, ids=ids))
        known: list[GivenId] = []
        rows: dict[int, Row] = {}
        for word in (one for each in ids for one in each.each_task()):
            meant = index.meant(word)
            rows |= {row.id: row for row in meant}
            if meant:
                known.append(word)
                continue
            self.missing = True
            if self._loud >= 0:
                line = complaint(word.told, WORDS["not_found"], of_step=word.step is not None)
                self._console.err.write(line)
        return sorted(rows.values(), key=lambda row: row.id), known

    def _filtered(self, rows: list[Row], filters: Options, *, alone: bool) -> list[Row]:
        """Those of the rows, or of all where no id was given. That nothing is left is told, but for Slurm what came after the jobs
        that were named is left, too."""
        whose = "" if self._client.welcome["admin"] else str(self._client.welcome["uid"])
        if "nodelist" in filters:
            filters = {**filters, "nodelist": _node_names(filters["nodelist"], self._console)}
        passed = self._rows(filters, whose=whose)
        first = 0 if alone else rows[0].id if rows else sys.maxsize
        if self._loud > 0 and not any(row.id >= first for row in passed):
            told = " ".join(f"{FILTERS[name]}={filters[name]}" for name in FILTERS if name in filters)
            self._console.err.write(
                f"scancel: error: No active jobs match ALL job filters, including: {told} \n"
            )
        numbers = {row.id for row in rows}
        return passed if alone else [row for row in passed if row.id in numbers]

    def _rows(self, filters: Options, *, ids: Sequence[GivenId] = (), whose: str = "") -> list[Row]:
        """`whose` jobs are looked at where no user is named, "" everybody's. A filter that is empty lets nothing through."""
        if not all(filters.values()) or "wckey" in filters or filters.get("state", "PENDING") not in OURS:
            return []  # jobs have no wckey here
        try:
            asked = _asked(filters, whose)
        except UserError:
            return []  # to Slurm such a list names no node
        jobs = list(dict.fromkeys(str(each.job) for each in ids))
        fields = ["id", "label", "name", "partition", "end", "state", "tasks_text"]
        answer = self._client.call("jobs", ids=jobs, limit=MAX_SELECTED, fields=fields, **asked)
        partition = filters.get("partition", "")
        found = (Row.of(row) for row in answer["jobs"] if row["end"] is None)
        return [row for row in found if not partition or row.partition == partition]


def _target(row: Row, step: int | None) -> Target | None:
    """A job that waits has no steps."""
    if step is not None:
        return None if row.waits else Target(f"{row.id}.{step}", str(row.id), step)
    name = str(row.id) if "+" in row.label else row.label
    return Target(name, row.told if name == row.label else name)


def _asked(filters: Options, whose: str) -> dict[str, Any]:
    """What the controller is asked for. Raises UserError."""
    asked: dict[str, Any] = {field: [filters[name]] for name, field in ASKED.items() if name in filters}
    asked["partitions"] = listed(filters.get("partition", ""))
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
    """A hostlist as it stands; those of a file of names, which has a slash in its name. Raises CommandError."""
    if "/" not in text:
        return text
    try:
        data = console.read_file(os.path.join(console.folder, text), MAX_FILE_BYTES)
    except OSError as error:
        raise CommandError(f"Unable to open file {text}: {error.strerror}") from error
    return ",".join(data.decode("utf-8", "replace").split())


def _agreed(row: Row, step: int | None, console: Console) -> bool:
    what = f"job_id={row.told}" if step is None else f"step_id={row.told}.{step}"
    while True:
        console.print_lines([f"Cancel {what} name={row.name} partition={row.partition} [y/n]? "], end="")
        console.out.flush()
        answer = console.stdin.readline(MAX_LINE)
        if not answer or answer[0] in "yYnN":  # Slurm's asks for ever once nobody can answer
            return answer[:1] in ("y", "Y")
