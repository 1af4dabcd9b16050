"""scancel: cancels jobs, array tasks and steps, or sends them a signal.

Options, messages and exit codes are those of scancel(1). Without --batch and --full, a signal goes to the
steps. It also goes to those other programs of the batch script that have a handler for it.

Without --user, filters only match the caller's own jobs unless the caller is an admin. Slurm tries the jobs
of all users and is refused.
"""

from __future__ import annotations

from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import uid_of
from warpdeck.client.blocking_client import SyncClient
from warpdeck.notation.options.getopt import parse_anywhere
from warpdeck.notation.options.option_table import NONE, REQUIRED, table
from warpdeck.notation.values.signals import parse_signal
from warpdeck.protocol.refusals import WORDS
from warpdeck.slurm.console.command_options import check_cluster, handle_help
from warpdeck.slurm.console.console import CommandError, Console
from warpdeck.slurm.fields.job_states import CODES

from .cancel_choice import FILTERS, CancelChoice, CancelTarget, Options, complaint, options_text, user_named
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
        "admin-comment": ("", REQUIRED),
        "cron": ("c", NONE),
    },
    newer=("admin-comment", "cron"),
)
SWITCHES = ("batch", "full", "interactive", "verbose")
"""Options that an environment variable sets to true or false."""
VALUES = ("account", "name", "partition", "qos", "state", "user", "wckey")
"""Options whose value an environment variable sets, for example SCANCEL_ACCOUNT for --account."""
CHOOSING = {*FILTERS, "batch", "interactive", "signal"}
"""With one of these options or a step ID, Slurm first looks up the jobs.

Otherwise the IDs are sent to the controller unchanged.
"""
SILENT = ("already_done", "not_found")
"""Error codes that are no failure if a job was to be ended."""
EXITS = {"component": 60, "denied": 210, "not_owner": 210, "not_found": 1}
STEP_EXITS = {"denied": 218, "no_step": 225}
"""Error code -> exit code if it is not 1. It is Slurm's error number, cut to a byte."""
STEP_WORDS = {"denied": "Invalid user id", "already_done": WORDS["not_found"], "no_step": WORDS["not_found"]}
"""Error code -> message for a step, if it differs from the message for a job."""
NOT_FEDERATED = ("Not a valid federated job", 191)
KILL = 9
HELP = """Usage: scancel [OPTIONS] [job_id[_array_id][.step_id]]
  -A, --account=account           act only on jobs charging this account
  -b, --batch                     signal only the batch shell
  -f, --full                      signal the batch shell and all of its processes
  -i, --interactive               ask for confirmation before each job
  -n, --name=job_name             act only on jobs with this name
      --me                        act only on my jobs
  -p, --partition=partition       act only on jobs in this partition
  -Q, --quiet                     do not report jobs that have ended
  -q, --qos=qos                   act only on jobs with this quality of service
  -R, --reservation=reservation   act only on jobs with this reservation
  -s, --signal=name | integer     send this signal (default: end the jobs)
  -t, --state=state               act only on jobs that are PENDING, RUNNING or SUSPENDED
  -u, --user=user_name            act only on jobs of this user
  -v, --verbose                   print what is done
  -V, --version                   print the version
  -w, --nodelist=hosts            act only on jobs on these nodes
      --wckey=wckey               act only on jobs with this workload characterization key
"""


def main(words: list[str], console: Console) -> int:
    """Cancel the jobs. Returns 0, or another exit code if something was refused."""
    given = _from_variables(console)
    check_cluster("scancel", given.get("clusters"))
    try:
        found, rest = parse_anywhere(words, "scancel", OPTIONS)
    except UserError as error:
        console.streams.err.write(f'{error.message}\nTry "scancel --help" for more information\n')
        return 1
    _take(given, found, console)
    if handle_help(found, console, help_text=HELP):
        return 0
    if "admin-comment" in given:
        raise CommandError(
            "--admin-comment is not supported: write `scontrol update jobid=JOB admincomment=TEXT` first"
        )
    number = _signal(given["signal"]) if "signal" in given else 0
    ids = given_ids(rest)
    if "user" in given:
        user_named(given["user"])
    if int(given.get("verbose", "0")) > 2:
        console.streams.err.write(options_text(given, number, ids))
    if not ids and not given.keys() & FILTERS.keys():
        raise CommandError("No job identification provided")
    with console.controller.connect() as client:
        canceller = Canceller(client, given, console, number)
        if not given.keys() & CHOOSING and all(each.step is None for each in ids):
            return canceller.run([CancelTarget(each.sent, each.text) for each in ids])
        choice = CancelChoice(client, given, console)
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
            console.streams.err.write(f"scancel: error: Unrecognized SCANCEL_{name.upper()} value: {value}\n")
    for name in VALUES:
        value = console.env.get(f"SCANCEL_{name.upper()}")
        if value is not None:
            found[name] = (
                _state(value, "Unrecognized SCANCEL_STATE value") if name == "state" else _value(name, value)
            )
    return found


def _take(given: Options, found: list[tuple[str, str]], console: Console) -> None:
    """Add the options of the command line to `given`, in their order. Raises CommandError.

    The last option of a name is used, and each -v counts from the last -Q. An error of one option is reported
    before the options after it are checked.
    """
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
    """Validate and normalize an option's value. Raises CommandError."""
    if option == "clusters":
        check_cluster("scancel", text)
    elif option == "signal":
        _signal(text)
    elif option == "state":
        return _state(text, "Invalid job state specified")
    return text.lower() if option in ("account", "qos") else text


def _signal(text: str) -> int:
    """Return the number of a signal. Raises CommandError."""
    try:
        return parse_signal(text.strip())
    except UserError:
        raise CommandError(f"Unknown job signal: {text}", bare=True) from None


def _state(text: str, complaint: str) -> str:
    """Return the long name of a state. Raises CommandError."""
    for name, code in CODES.items():
        if text.upper() in (name, code):
            return name
    words = "Valid job states are PENDING, RUNNING, and SUSPENDED"
    raise CommandError(f"{complaint}: {text}\n{words}", bare=True)


class Canceller:
    """Sends the requests to the controller, and prints its refusals as scancel does."""

    def __init__(self, client: SyncClient, given: Options, console: Console, number: int) -> None:
        self._client = client
        self._console = console
        self._number = number
        self._verbosity = int(given.get("verbose", "0"))
        self._federated = "sibling" in given
        self._whom = "all" if "full" in given else "batch" if "batch" in given else "programs"
        self._ends = not number or (number == KILL and self._whom != "batch")
        """True if the jobs are ended.

        A job whose processes are to be killed is ended, too, because it cannot continue without them.
        """

    def run(self, targets: list[CancelTarget]) -> int:
        """Cancel all targets with one request and return the exit code."""
        for target in targets if self._verbosity > 0 else ():
            self._console.streams.err.write(f"scancel: {self._doing(target)}\n")
        if self._federated:
            return max((self._tell(target, *NOT_FEDERATED) for target in targets), default=0)
        known = {target.sent: target for target in targets if target.sent}
        refused = [(target, "not_found", "") for target in targets if not target.sent]
        if known:
            refused += self._asked(known)
        return max((self._refused(*each) for each in refused), default=0)

    def _asked(self, known: dict[str, CancelTarget]) -> list[tuple[CancelTarget, str, str]]:
        """Send the request. Return each refused target with the error code and message.

        Targets of which some tasks were not found are included.
        """
        more: dict[str, Any] = {} if self._ends else {"signal": str(self._number), "whom": self._whom}
        names = list(known)
        try:
            answer = self._client.call("cancel", jobs=names, **more)
        except UserError as error:
            if len(names) > 1:
                raise
            return [(known[names[0]], error.code, error.message)]
        errors = zip(answer["refused"], answer["codes"], answer["errors"], strict=True)
        refused = [(known[name], code, sentence) for name, code, sentence in errors]
        lacking = [name for name, parts in answer["parts"].items() if "not_found" in parts.values()]
        return [*refused, *((known[name], "not_found", "") for name in lacking)]

    def _doing(self, target: CancelTarget) -> str:
        if target.step is not None:
            ends = self._number in (0, KILL)
            return f"{'Terminating' if ends else f'Signal {self._number} to'} step {target.sent}"
        kind = {"all": "full job", "batch": "batch job", "programs": "job"}[self._whom]
        return (
            f"Signal {self._number} to {kind} {target.shown}"
            if self._number
            else f"Terminating {kind} {target.shown}"
        )

    def _refused(self, target: CancelTarget, code: str, sentence: str) -> int:
        """Print a refusal, unless it is no error, and return the exit code."""
        if target.step is not None:
            if code == "pending":
                return 0
            words = STEP_WORDS.get(code, WORDS.get(code, sentence))
            if code == "no_step":
                return self._no_step(target, words)
            return self._tell(target, words, STEP_EXITS.get(code, 1))
        silent = code in SILENT and not self._number and self._whom != "batch"
        if code == "already_done" and self._number:
            code = "not_found"  # A signal needs a running job, so an ended job counts as not found.
        if self._verbosity > 0 or not (silent or (self._verbosity < 0 and code in SILENT)):
            self._tell(target, WORDS.get(code, sentence), 1)
        return 0 if silent else EXITS.get(code, 1)

    def _no_step(self, target: CancelTarget, words: str) -> int:
        """Report that a running job has no step with this number, and return the exit code.

        If a step is to be ended, Slurm tries twice and names only the job. If a signal finds no step, Slurm
        does not notice. We report it, but return 0 like Slurm.
        """
        if self._number:
            return self._tell(target, words, 0)
        line = complaint(target.shown.partition(".")[0], words, of_step=True)
        again = f"scancel: {self._doing(target)}\n" if self._verbosity > 0 else ""
        self._console.streams.err.write(line + again + line)
        return STEP_EXITS["no_step"]

    def _tell(self, target: CancelTarget, words: str, code: int) -> int:
        """Print the error of one target, and return `code`."""
        self._console.streams.err.write(complaint(target.shown, words, of_step=target.step is not None))
        return code
