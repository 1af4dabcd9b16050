"""Which jobs scancel's filters choose, and what it asks and says about them first. Words are those of scancel(1)."""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from warpdeck.api.sync import SyncClient
from warpdeck.errors import UserError
from warpdeck.notation.arrays import parse_array
from warpdeck.notation.hostlist import expand

from .console import CommandError, Console
from .jobstates import OURS
from .people import name_of, uid_of, user_there
from .prompting import MAX_LINE
from .refusals import WORDS
from .words import listed

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


def complaint(name: str, words: str) -> str:
    """The line that tells what is wrong with one job or step."""
    return f"scancel: error: Kill job error on job {'step ' if '.' in name else ''}id {name}: {words}\n"


def told_options(given: Options, number: int, ids: list[str]) -> str:
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
    words = [word for each in ids for word in each_task(each)]
    for place, word in enumerate(words):
        what = "job_step_id" if "." in word else "job_id"
        lines.append(f"{f'{what}[{place}]':<15}: {word}")
    return "".join(f"scancel: {line}\n" for line in lines)


def each_task(word: str) -> Iterator[str]:
    """12_[1-2] as 12_1 and 12_2; any other word as it is."""
    job, bracket, tasks = word.partition("_[")
    if not bracket:
        yield word
        return
    numbers = (range(first, last + 1, step) for first, last, step in parse_array(tasks[:-1])[0])
    for task in islice(chain.from_iterable(numbers), MAX_SELECTED):
        yield f"{job}_{task}"


def miss(client: SyncClient, ids: list[str], given: Options, console: Console) -> int:
    """Says which of the ids stand for nothing that could be chosen; the exit code."""
    unknown = [each for each in ids if not _matching(client, [each], {}, whose="")]
    missing = [word for each in unknown for word in each_task(each)]
    for word in missing if int(given.get("verbose", "0")) >= 0 else ():
        console.err.write(complaint(word, WORDS["not_found"]))
    return 1 if missing else 0


def select(
    client: SyncClient, ids: list[str], filters: Options, given: Options, console: Console
) -> list[str]:
    """The jobs that all filters let through, as they are named; asks about each with --interactive."""
    whose = "" if client.welcome["admin"] else client.welcome["user"]
    if "nodelist" in filters:
        filters = {**filters, "nodelist": _node_names(filters["nodelist"], console)}
    rows = _matching(client, ids, filters, whose=whose)
    loud = int(given.get("verbose", "0")) > 0
    if not rows and loud and not _matching(client, [], filters, whose=whose):
        told = " ".join(f"{FILTERS[name]}={filters[name]}" for name in FILTERS if name in filters)
        console.err.write(f"scancel: error: No active jobs match ALL job filters, including: {told} \n")
    steps = {word.partition(".")[0]: word for word in ids if "." in word}
    chosen = []
    for row in rows:
        name = next(
            (steps[label] for label in (row["label"], str(row["array_job_id"])) if label in steps),
            str(row["id"]) if "+" in row["label"] else row["label"],
        )
        if "." in name and row["state"] == "PENDING":
            continue
        if "interactive" not in given or _agreed(name, row, console):
            chosen.append(name)
    return chosen


def _matching(client: SyncClient, ids: list[str], filters: Options, *, whose: str) -> list[dict[str, Any]]:
    """`whose` jobs are looked at where no user is named, "" everybody's. A filter that is empty lets nothing through."""
    if not all(filters.values()) or "wckey" in filters or filters.get("state", "PENDING") not in OURS:
        return []  # jobs have no wckey here
    asked: dict[str, Any] = {field: [filters[name]] for name, field in ASKED.items() if name in filters}
    partition = filters.get("partition", "")
    asked["partitions"] = listed(partition)
    if "nodelist" in filters:
        try:
            asked["nodes"] = expand(filters["nodelist"])
        except UserError:
            return []  # to Slurm such a list names no node
    if "state" in filters:
        asked["states"] = list(STATES.get(filters["state"], (filters["state"],)))
    if "user" in filters:
        asked["users"] = [user_named(filters["user"])]
    elif whose:
        asked["users"] = [whose]
    jobs = [word.partition(".")[0] for word in ids]
    fields = ["id", "label", "array_job_id", "name", "partition", "end", "state"]
    answer = client.call("jobs", ids=jobs, limit=MAX_SELECTED, fields=fields, **asked)
    found = [row for row in answer["jobs"] if row["end"] is None]
    return [row for row in found if not partition or row["partition"] == partition]


def _node_names(text: str, console: Console) -> str:
    """A hostlist as it stands; those of a file of names, which has a slash in its name. Raises CommandError."""
    if "/" not in text:
        return text
    try:
        data = console.read_file(os.path.join(console.folder, text), MAX_FILE_BYTES)
    except OSError as error:
        raise CommandError(f"Unable to open file {text}: {error.strerror}") from error
    return ",".join(data.decode("utf-8", "replace").split())


def _agreed(name: str, row: dict[str, Any], console: Console) -> bool:
    what = "step_id" if "." in name else "job_id"
    while True:
        console.out.write(f"Cancel {what}={name} name={row['name']} partition={row['partition']} [y/n]? ")
        console.out.flush()
        answer = console.stdin.readline(MAX_LINE)
        if not answer or answer[0] in "yYnN":  # Slurm's asks for ever once nobody can answer
            return answer[:1] in ("y", "Y")
