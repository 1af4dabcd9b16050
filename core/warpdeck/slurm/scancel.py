"""scancel: ends jobs, tasks of arrays and steps, or sends them a signal. Options, messages and exit codes are those of scancel(1).

A signal without --batch and --full goes to the steps, and to what the batch script runs besides if that waits for the signal.
Without --user an ordinary user's filters choose among their own jobs; Slurm tries everybody's and is refused.
"""

from __future__ import annotations

import re
from typing import Any

from warpdeck.api.sync import SyncClient
from warpdeck.errors import UserError
from warpdeck.notation.getopt import parse_anywhere
from warpdeck.notation.lists import words_of
from warpdeck.notation.options import NONE, REQUIRED, table
from warpdeck.notation.signals import parse_signal

from .cancelchoice import FILTERS, Options, complaint, miss, select, told_options, user_named
from .console import CommandError, Console
from .jobstates import CODES
from .people import uid_of
from .refusals import WORDS
from .version import VERSION
from .words import only_ours

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
SILENT = ("already_done", "not_found")
"""What is no error of a job that was to end."""
EXITS = {"component": 60, "denied": 210, "not_owner": 210, "not_found": 1}
STEP_EXITS = {"denied": 218, "no_step": 225}
"""Code -> how scancel ends where it is no 1: Slurm's error number, cut to a byte."""
STEP_WORDS = {"denied": "Invalid user id", "already_done": WORDS["not_found"], "no_step": WORDS["not_found"]}
"""Where they are others than for a job."""
NOT_FEDERATED = ("Not a valid federated job", 191)
KILL = 9
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
    ids = [re.sub(r"_\*?$", "", word) for each in rest for word in _named(each)]
    for word in ids:
        _check_id(word)
    filters = {name: given[name] for name in FILTERS if name in given}
    if int(given.get("verbose", "0")) > 2:
        console.err.write(told_options(given, number, ids))
    if not ids and not filters:
        raise CommandError("No job identification provided")
    with console.connect() as client:
        missing = 0
        if filters or "interactive" in given:
            missing = miss(client, ids, given, console)
            ids = select(client, ids, filters, given, console)
        return max(missing, Canceller(client, given, console, number).run(ids))


def _from_variables(console: Console) -> Options:
    found: Options = {}
    if clusters := console.env.get("SLURM_CLUSTERS"):
        found["clusters"] = clusters
    for name in VALUES:
        value = console.env.get(f"SCANCEL_{name.upper()}")
        if value is not None:
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
    only_ours("scancel", given.get("clusters"))
    if "state" in given:
        given["state"] = _state(given["state"], "Invalid job state specified")
    if "user" in given:
        user_named(given["user"])
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


def _named(word: str) -> list[str]:
    """The ids of a list; an empty one stays, and is no id."""
    names = words_of(word)
    return [*names, *([""] if word.endswith(",") else [])] if names else [word]


def _check_id(word: str) -> None:
    """Raises CommandError for what is no name of a job, a task, tasks or a step."""
    match = _ID.fullmatch(word)
    if match is None:
        raise CommandError(f"Invalid job id {word}")
    for span in match[4].split(",") if match[4] is not None else ():
        ends = _SPAN.fullmatch(span)
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise CommandError(f"_parse_single_range: Invalid range: `{span}'\nInvalid job id {word}")


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
            words = STEP_WORDS.get(code, WORDS.get(code, sentence))
            if code == "no_step":
                return self._no_step(name, words)
            return self._tell(name, words, STEP_EXITS.get(code, 1))
        silent = code in SILENT and not self._number and self._whom != "batch"
        if code == "already_done" and self._number:
            code = "not_found"  # a signal is for jobs that there are
        if self._verbosity > 0 or not (silent or (self._verbosity < 0 and code in SILENT)):
            self._tell(name, WORDS.get(code, sentence), 1)
        return 0 if silent else EXITS.get(code, 1)

    def _no_step(self, name: str, words: str) -> int:
        """Of a job that runs. Slurm tries twice, and names the job; that a signal found no such step it does not notice: we say
        so, and end as it does."""
        if self._number:
            self._tell(name, words, 0)
            return 0
        line = complaint(name, words).replace(name, name.partition(".")[0])
        again = f"scancel: {self._doing(name)}\n" if self._verbosity > 0 else ""
        self._console.err.write(line + again + line)
        return STEP_EXITS["no_step"]

    def _tell(self, name: str, words: str, code: int) -> int:
        """The error of one; the exit code as it is."""
        self._console.err.write(complaint(name, words))
        return code
