"""scancel: ends jobs, tasks of arrays and steps, or sends them a signal. Options, messages and exit codes are those of scancel(1).

A signal without --batch and --full goes to the steps, and to what the batch script runs besides if that waits for the signal.
Without --user an ordinary user's filters choose among their own jobs; Slurm tries everybody's and is refused.
"""

from __future__ import annotations

import os.path
import pwd
import re
from typing import Any

from warpdeck.api.sync import SyncClient
from warpdeck.errors import UserError
from warpdeck.notation.getopt import parse_anywhere
from warpdeck.notation.hostlist import expand
from warpdeck.notation.lists import words_of
from warpdeck.notation.options import NONE, REQUIRED, table
from warpdeck.notation.signals import parse_signal

from .console import CommandError, Console
from .jobstates import CODES, OURS
from .people import uid_of
from .refusals import WORDS
from .version import VERSION
from .words import listed, only_ours

OPTIONS = table(
    "scancel",
    {
        "account": ("A", REQUIRED),
        "batch": ("b", NONE),
        "clusters": ("M", REQUIRED),
        "ctld": ("", NONE),
        "full": ("f", NONE),
        "help": ("", NONE),
        "hurry": ("H", NONE),
        "interactive": ("i", NONE),
        "jobname": ("", REQUIRED),
        "me": ("", NONE),
        "name": ("n", REQUIRED),
        "nodelist": ("w", REQUIRED),
        "partition": ("p", REQUIRED),
        "qos": ("q", REQUIRED),
        "quiet": ("Q", NONE),
        "reservation": ("R", REQUIRED),
        "sibling": ("", REQUIRED),
        "signal": ("s", REQUIRED),
        "state": ("t", REQUIRED),
        "usage": ("", NONE),
        "user": ("u", REQUIRED),
        "verbose": ("v", NONE),
        "version": ("V", NONE),
        "wckey": ("", REQUIRED),
    },
)
SWITCHES = ("batch", "full", "interactive", "verbose")
"""Options that a variable sets to true or false."""
VALUES = ("account", "name", "partition", "qos", "state", "user", "wckey")
"""Options that a variable gives a value; SCANCEL_ACCOUNT is --account."""
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
SILENT = ("already_done", "not_found")
"""What is no error of a job that was to end."""
EXITS = {"component": 60, "denied": 210, "not_owner": 210, "not_found": 1}
STEP_EXITS = {"denied": 218, "no_step": 225}
"""Code -> how scancel ends where it is no 1: Slurm's error number, cut to a byte."""
STEP_WORDS = {"denied": "Invalid user id", "already_done": WORDS["not_found"], "no_step": WORDS["not_found"]}
"""Where they are others than for a job."""
NOT_FEDERATED = ("Not a valid federated job", 191)
KILL = 9
MAX_FILE_BYTES = 1024 * 1024
"""Of a file of node names."""
HELP = """Usage: scancel [OPTIONS] [job_id[_array_id][.step_id]]
  -A, --account=account           act only on jobs charging this account
  -b, --batch                     signal the batch shell alone
  -f, --full                      signal the batch shell and all that it runs
  -i, --interactive               ask before each job
  -n, --name=job_name             act only on jobs with this name
      --me                        act only on my jobs
  -p, --partition=partition       act only on jobs in this partition
  -Q, --quiet                     report nothing of ended jobs
  -q, --qos=qos                   act only on jobs with this quality of service
  -R, --reservation=reservation   act only on jobs with this reservation
  -s, --signal=name | integer     send this signal; without it jobs end
  -t, --state=state               act only on jobs that are PENDING, RUNNING or SUSPENDED
  -u, --user=user_name            act only on jobs of this user
  -v, --verbose                   say what is done
  -V, --version                   print the version
  -w, --nodelist=hosts            act only on jobs on these nodes
      --wckey=wckey               act only on jobs with this workload characterization key
"""
_ID = re.compile(r"([1-9]\d{0,17})(?:(?:_(\d{1,9})|\+\d{1,3})?(?:\.(\d{1,9}))?|_\[([^\[\].]*)\])")
_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
Options = dict[str, str]


def main(words: list[str], console: Console) -> int:
    """Cancels; 1 if something was refused."""
    given = _from_variables(console)
    try:
        found, rest = parse_anywhere(words, "scancel", OPTIONS)
    except UserError as error:
        console.err.write(f'{error.message}\nTry "scancel --help" for more information\n')
        return 1
    _take(given, found, console)
    if given.keys() & {"help", "usage", "version"}:
        console.out.write(VERSION if "version" in given else HELP)
        return 0
    number = _check(given)
    # As in Slurm 12_* and 12_ are all of the array.
    ids = [re.sub(r"_\*?$", "", word) for each in rest for word in words_of(each)]
    for word in ids:
        _check_id(word)
    filters = {name: given[name] for name in FILTERS if given.get(name)}
    if not ids and not filters:
        raise CommandError("No job identification provided")
    with console.connect() as client:
        if filters or "interactive" in given:
            ids = _select(client, ids, filters, given, console)
        return Canceller(client, given, console, number).run(ids)


def _from_variables(console: Console) -> Options:
    found: Options = {"clusters": console.env.get("SLURM_CLUSTERS", "")}
    for name in VALUES:
        if value := console.env.get(f"SCANCEL_{name.upper()}", ""):
            found[name] = _state(value, "Unrecognized SCANCEL_STATE value") if name == "state" else value
    for name in SWITCHES:
        value = console.env.get(f"SCANCEL_{name.upper()}", "")
        if value and "true".startswith(value.lower()):
            found[name] = "1"
        elif not "false".startswith(value.lower()):
            console.err.write(f"scancel: error: Unrecognized SCANCEL_{name.upper()} value: {value}\n")
    return found


def _take(given: Options, found: list[tuple[str, str]], console: Console) -> None:
    """Options in their order: the last one of a name holds, each -v counts from the last -Q."""
    for option, value in found:
        if option == "me":
            uid = uid_of(console.user)
            given["user"] = console.user if uid is None else str(uid)
        elif option == "quiet":
            given["verbose"] = "-1"
        elif option == "verbose":
            given["verbose"] = str(int(given.get("verbose", "0")) + 1)
        else:
            given["name" if option == "jobname" else option] = value


def _check(given: Options) -> int:
    """The signal's number, 0 for none. Raises CommandError."""
    only_ours("scancel", given.get("clusters", ""))
    if given.get("state"):
        given["state"] = _state(given["state"], "Invalid job state specified")
    if "signal" not in given:
        return 0
    try:
        return parse_signal(given["signal"])
    except UserError:
        raise CommandError(f"Unknown job signal: {given['signal']}", bare=True) from None


def _state(text: str, complaint: str) -> str:
    """The state's long name. Raises CommandError."""
    for name, code in CODES.items():
        if text.upper() in (name, code):
            return name
    words = "Valid job states are PENDING, RUNNING, and SUSPENDED"
    raise CommandError(f"{complaint}: {text}\n{words}", bare=True)


def _check_id(word: str) -> None:
    """Raises CommandError for what is no name of a job, a task, tasks or a step."""
    match = _ID.fullmatch(word)
    if match is None:
        raise CommandError(f"Invalid job id {word}")
    for span in match[4].split(",") if match[4] is not None else ():
        ends = _SPAN.fullmatch(span)
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise CommandError(f"_parse_single_range: Invalid range: `{span}'\nInvalid job id {word}")


def _select(
    client: SyncClient, ids: list[str], filters: Options, given: Options, console: Console
) -> list[str]:
    """The jobs that all filters let through, as they are named; asks about each with --interactive."""
    rows = _matching(client, ids, filters, console)
    loud = int(given.get("verbose", "0")) > 0
    if not rows and loud and not _matching(client, [], filters, console):
        told = " ".join(f"{FILTERS[name]}={filters[name]}" for name in FILTERS if name in filters)
        console.err.write(f"scancel: error: No active jobs match ALL job filters, including: {told} \n")
    steps = {word.partition(".")[0]: word for word in ids if "." in word}
    chosen = []
    for row in rows:
        name = next(
            (steps[label] for label in (row["label"], str(row["array_job_id"])) if label in steps),
            str(row["id"]) if "+" in row["label"] else row["label"],
        )
        if "interactive" not in given or _agreed(name, row, console):
            chosen.append(name)
    return chosen


def _matching(client: SyncClient, ids: list[str], filters: Options, console: Console) -> list[dict[str, Any]]:
    asked: dict[str, Any] = {field: [filters[name]] for name, field in ASKED.items() if name in filters}
    partition = filters.get("partition", "")
    asked["partitions"] = listed(partition)
    if "nodelist" in filters:
        asked["nodes"] = _nodes(filters["nodelist"], console)
    if "state" in filters:
        asked["states"] = list(STATES.get(filters["state"], (filters["state"],)))
    if "user" in filters:
        asked["users"] = [_user(filters["user"])]
    elif not client.welcome["admin"]:
        asked["users"] = [client.welcome["user"]]
    if "wckey" in filters or filters.get("state", "PENDING") not in OURS:
        return []  # jobs have none here
    jobs = [word.partition(".")[0] for word in ids]
    fields = ["id", "label", "array_job_id", "name", "partition", "end"]
    answer = client.call("jobs", ids=jobs, limit=MAX_SELECTED, fields=fields, **asked)
    found = [row for row in answer["jobs"] if row["end"] is None]
    return [row for row in found if not partition or row["partition"] == partition]


def _nodes(text: str, console: Console) -> list[str]:
    """A hostlist, or a file of names, which has a slash in its name. Raises CommandError."""
    if "/" in text:
        try:
            data = console.read_file(os.path.join(console.folder, text), MAX_FILE_BYTES)
        except OSError as error:
            raise CommandError(f"Unable to open file {text}: {error.strerror}") from error
        text = ",".join(data.decode("utf-8", "replace").split())
    return expand(text)


def _user(name: str) -> str:
    """The user's name, which may be given as a number. Raises CommandError for one that this machine does not know."""
    try:
        return pwd.getpwuid(int(name)).pw_name if name.isdecimal() else pwd.getpwnam(name).pw_name
    except KeyError:
        raise CommandError(f"Invalid user name: {name}") from None


def _agreed(name: str, row: dict[str, Any], console: Console) -> bool:
    what = "step_id" if "." in name else "job_id"
    console.out.write(f"Cancel {what}={name} name={row['name']} partition={row['partition']} [y/n]? ")
    console.out.flush()
    return console.stdin.readline()[:1] in ("y", "Y")


class Canceller:
    """Asks the controller, and says what it refuses as scancel does."""

    def __init__(self, client: SyncClient, given: Options, console: Console, number: int) -> None:
        self._client = client
        self._console = console
        self._number = number
        self._verbosity = int(given.get("verbose", "0"))
        self._federated = bool(given.get("sibling"))
        self._whom = "all" if "full" in given else "batch" if "batch" in given else "programs"
        self._ends = not number or (number == KILL and self._whom != "batch")
        """A job that is to be killed is ended: it does not go on without its programs."""

    def run(self, names: list[str]) -> int:
        """Cancels all of them at once; the exit code."""
        if not names:
            return 0
        for name in names if self._verbosity > 0 else ():
            self._console.err.write(f"scancel: {self._doing(name)}\n")
        if self._federated:
            return max(self._tell(name, *NOT_FEDERATED) for name in names)
        more: dict[str, Any] = {} if self._ends else {"signal": str(self._number), "whom": self._whom}
        try:
            answer = self._client.call("cancel", jobs=names, **more)
        except UserError as error:
            if len(names) > 1:
                raise
            answer = {"refused": names, "codes": [error.code], "errors": [error.message]}
        told = zip(answer["refused"], answer["codes"], answer["errors"], strict=True)
        return max([self._refused(*each) for each in told], default=0)

    def _doing(self, name: str) -> str:
        kind = (
            "step"
            if "." in name
            else {"all": "full job", "batch": "batch job", "programs": "job"}[self._whom]
        )
        return f"Signal {self._number} to {kind} {name}" if self._number else f"Terminating {kind} {name}"

    def _refused(self, name: str, code: str, sentence: str) -> int:
        """Says it, unless it is no error; the exit code."""
        if "." in name:
            if code == "pending":
                return 0
            told = self._tell(name, STEP_WORDS.get(code, WORDS.get(code, sentence)), STEP_EXITS.get(code, 1))
            # Slurm does not notice that a signal found no such step; we say so, and end as it does.
            return 0 if code == "no_step" and self._number else told
        silent = code in SILENT and not self._number
        if code == "already_done" and self._number:
            code = "not_found"  # a signal is for jobs that there are
        if self._verbosity > 0 or not (silent or (self._verbosity < 0 and code in SILENT)):
            self._tell(name, WORDS.get(code, sentence), 1)
        return 0 if silent else EXITS.get(code, 1)

    def _tell(self, name: str, words: str, code: int) -> int:
        """The error of one; the exit code as it is."""
        kind = "job step id" if "." in name else "job id"
        self._console.err.write(f"scancel: error: Kill job error on {kind} {name}: {words}\n")
        return code
