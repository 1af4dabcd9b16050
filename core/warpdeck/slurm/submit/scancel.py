"""scancel: ends jobs, tasks of arrays and steps, or sends them a signal. Options, messages and exit codes are those of scancel(1).

A signal without --batch and --full goes to the steps, and to what the batch script runs besides if that waits for the signal.
Without --user an ordinary user's filters choose among their own jobs; Slurm tries everybody's and is refused.
"""

from __future__ import annotations

from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import uid_of
from warpdeck.base.slurm_version import VERSION
from warpdeck.client.blocking_client import SyncClient
from warpdeck.notation.options.getopt import parse_anywhere
from warpdeck.notation.options.options import NONE, REQUIRED, table
from warpdeck.notation.values.signals import parse_signal
from warpdeck.protocol.refusals import WORDS
from warpdeck.slurm.console.arguments import only_ours
from warpdeck.slurm.console.console import CommandError, Console
from warpdeck.slurm.format.job_states import CODES

from .cancel_choice import FILTERS, Choice, Options, Target, complaint, told_options, user_named
from .cancel_ids import given_ids

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
CHOOSING = {*FILTERS, "batch", "interactive", "signal"}
"""With one of these, or a step, ids stand for jobs that Slurm looks up first; else the controller is told them as they are."""
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


def main(words: list[str], console: Console) -> int:
    """Cancels; 1 if something was refused."""
    given = _from_variables(console)
    only_ours("scancel", given.get("clusters"))
    try:
        found, rest = parse_anywhere(words, "scancel", OPTIONS)
    except UserError as error:
        console.err.write(f'{error.message}\nTry "scancel --help" for more information\n')
        return 1
    _take(given, found, console)
    if given.keys() & {"help", "usage", "version"}:
        console.out.write(VERSION if "version" in given else HELP)
        return 0
    number = _signal(given["signal"]) if "signal" in given else 0
    ids = given_ids(rest)
    if "user" in given:
        user_named(given["user"])
    if int(given.get("verbose", "0")) > 2:
        console.err.write(told_options(given, number, ids))
    if not ids and not given.keys() & FILTERS.keys():
        raise CommandError("No job identification provided")
    with console.connect() as client:
        canceller = Canceller(client, given, console, number)
        if not given.keys() & CHOOSING and all(each.step is None for each in ids):
            return canceller.run([Target(each.sent, each.text) for each in ids])
        choice = Choice(client, given, console)
        targets = choice.targets(ids)
        return max(int(choice.missing), canceller.run(targets))


def _from_variables(console: Console) -> Options:
    found: Options = {}
    if clusters := console.env.get("SLURM_CLUSTERS"):
        found["clusters"] = clusters
    for name in SWITCHES:
        value = console.env.get(f"SCANCEL_{name.upper()}")
        if value is not None and value.lower() in ("true", "t"):
            found[name] = "1"
        elif value is not None and value.lower() not in ("false", "f"):
            console.err.write(f"scancel: error: Unrecognized SCANCEL_{name.upper()} value: {value}\n")
    for name in VALUES:
        value = console.env.get(f"SCANCEL_{name.upper()}")
        if value is not None:
            found[name] = (
                _state(value, "Unrecognized SCANCEL_STATE value") if name == "state" else _value(name, value)
            )
    return found


def _take(given: Options, found: list[tuple[str, str]], console: Console) -> None:
    """Options in their order: the last one of a name holds, each -v counts from the last -Q, and what is wrong with one is told
    before those behind it are looked at. Raises CommandError."""
    for option, value in found:
        if option == "me":
            uid = uid_of(console.user)
            given["user"] = console.user if uid is None else str(uid)
        elif option == "quiet":
            given["verbose"] = "-1"
        elif option == "verbose":
            given["verbose"] = str(int(given.get("verbose", "0")) + 1)
        else:
            given["name" if option == "jobname" else option] = _value(option, value)
        if option in ("help", "usage", "version"):
            return


def _value(option: str, text: str) -> str:
    """As it counts. Raises CommandError."""
    if option == "clusters":
        only_ours("scancel", text)
    elif option == "signal":
        _signal(text)
    elif option == "state":
        return _state(text, "Invalid job state specified")
    return text.lower() if option in ("account", "qos") else text


def _signal(text: str) -> int:
    """Its number. Raises CommandError."""
    try:
        return parse_signal(text.strip())
    except UserError:
        raise CommandError(f"Unknown job signal: {text}", bare=True) from None


def _state(text: str, complaint: str) -> str:
    """The state's long name. Raises CommandError."""
    for name, code in CODES.items():
        if text.upper() in (name, code):
            return name
    words = "Valid job states are PENDING, RUNNING, and SUSPENDED"
    raise CommandError(f"{complaint}: {text}\n{words}", bare=True)


class Canceller:
    """Asks the controller, and says what it refuses as scancel does."""

    def __init__(self, client: SyncClient, given: Options, console: Console, number: int) -> None:
        self._client = client
        self._console = console
        self._number = number
        self._verbosity = int(given.get("verbose", "0"))
        self._federated = "sibling" in given
        self._whom = "all" if "full" in given else "batch" if "batch" in given else "programs"
        self._ends = not number or (number == KILL and self._whom != "batch")
        """A job that is to be killed is ended: it does not go on without its programs."""

    def run(self, targets: list[Target]) -> int:
        """Cancels all of them at once; the exit code."""
        for target in targets if self._verbosity > 0 else ():
            self._console.err.write(f"scancel: {self._doing(target)}\n")
        if self._federated:
            return max((self._tell(target, *NOT_FEDERATED) for target in targets), default=0)
        known = {target.sent: target for target in targets if target.sent}
        refused = [(target, "not_found", "") for target in targets if not target.sent]
        if known:
            refused += self._asked(known)
        return max((self._refused(*each) for each in refused), default=0)

    def _asked(self, known: dict[str, Target]) -> list[tuple[Target, str, str]]:
        """What the controller refuses, or has not found some tasks of; each with its code and what it says."""
        more: dict[str, Any] = {} if self._ends else {"signal": str(self._number), "whom": self._whom}
        names = list(known)
        try:
            answer = self._client.call("cancel", jobs=names, **more)
        except UserError as error:
            if len(names) > 1:
                raise
            return [(known[names[0]], error.code, error.message)]
        told = zip(answer["refused"], answer["codes"], answer["errors"], strict=True)
        refused = [(known[name], code, sentence) for name, code, sentence in told]
        lacking = [name for name, parts in answer["parts"].items() if "not_found" in parts.values()]
        return [*refused, *((known[name], "not_found", "") for name in lacking)]

    def _doing(self, target: Target) -> str:
        if target.step is not None:
            ends = self._number in (0, KILL)
            return f"{'Terminating' if ends else f'Signal {self._number} to'} step {target.sent}"
        kind = {"all": "full job", "batch": "batch job", "programs": "job"}[self._whom]
        return (
            f"Signal {self._number} to {kind} {target.told}"
            if self._number
            else f"Terminating {kind} {target.told}"
        )

    def _refused(self, target: Target, code: str, sentence: str) -> int:
        """Says it, unless it is no error; the exit code."""
        if target.step is not None:
            if code == "pending":
                return 0
            words = STEP_WORDS.get(code, WORDS.get(code, sentence))
            if code == "no_step":
                return self._no_step(target, words)
            return self._tell(target, words, STEP_EXITS.get(code, 1))
        silent = code in SILENT and not self._number and self._whom != "batch"
        if code == "already_done" and self._number:
            code = "not_found"  # a signal is for jobs that there are
        if self._verbosity > 0 or not (silent or (self._verbosity < 0 and code in SILENT)):
            self._tell(target, WORDS.get(code, sentence), 1)
        return 0 if silent else EXITS.get(code, 1)

    def _no_step(self, target: Target, words: str) -> int:
        """Of a job that runs. Slurm tries twice, and names the job; that a signal found no such step it does not notice: we say
        so, and end as it does."""
        if self._number:
            return self._tell(target, words, 0)
        line = complaint(target.told.partition(".")[0], words, of_step=True)
        again = f"scancel: {self._doing(target)}\n" if self._verbosity > 0 else ""
        self._console.err.write(line + again + line)
        return STEP_EXITS["no_step"]

    def _tell(self, target: Target, words: str, code: int) -> int:
        """The error of one; the exit code as it is."""
        self._console.err.write(complaint(target.told, words, of_step=target.step is not None))
        return code
