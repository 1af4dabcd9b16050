"""squeue: lists the jobs and steps of the queue.

Options, layouts, messages and exit codes are those of squeue(1). The controller filters the jobs and sends
only the columns that are printed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from warpdeck.client.blocking_client import SyncClient
from warpdeck.slurm.console.command_options import (
    CLUSTER_LINE,
    Words,
    WordsError,
    check_cluster,
    handle_choices,
    handle_help,
    options,
    read_lists,
    reject_format_and_long,
    reject_positional,
)
from warpdeck.slurm.console.console import Console
from warpdeck.slurm.console.watch_loop import iterate, pause_s
from warpdeck.slurm.fields.job_states import CODES
from warpdeck.slurm.format.format_strings import (
    FormatColumn,
    LineLayout,
    Row,
    SortKey,
    TextField,
    letters_of,
    long_columns,
    needed,
    short_columns,
)
from warpdeck.slurm.format.timestamps import ctime

from . import job_order, squeue_columns, squeue_step_columns
from .job_choice import LISTS, JobFilterOptions, check, job_rows, step_rows

OPTIONS = options(
    "squeue",
    "account=,A accounts= all,a array,r array-unique clusters=,M federation format=,o Format=,O help hide iterate=,i jobs?,j json? "
    "licenses=,L local long,l me name=,n noconvert node= nodes= nodelist=,w noheader,h only-job-state partition=,p priority,P qos=,q "
    "reservation=,R sibling sort=,S start states=,t steps?,s usage user=,u users= verbose,v version,V yaml?",
    newer="expand-patterns helpFormat helpformat helpstate notme running-over= running-under=",
)
OTHER_NAMES = {"accounts": "account", "node": "nodelist", "nodes": "nodelist", "users": "user"}
"""Spellings that squeue accepts but does not document -> option."""
USERS = frozenset({"me", "notme", "user"})
"""Options that name the users of the jobs."""
USAGE = """\
Usage: squeue [-A accounts] [-i seconds] [-j jobs] [-L licenses] [-n names]
              [-o format | -O format] [-p partitions] [-q qos] [-R reservation]
              [-S fields] [--start] [-s steps] [-t states] [-u users] [-w nodes]
              [--me] [--json | --yaml] [-ahlrv]"""
HELP = """\
Lists the jobs of the queue.
  -u, --user=NAMES         jobs of these users; --me: your own; --notme: those of others
  -t, --states=STATES      jobs in these states, or all
  -p, --partition=NAMES    jobs in these partitions
  -j, --jobs=IDS           these jobs: 12,13_4
  -n, --name=NAMES  -A, --account=NAMES  -q, --qos=NAMES  -R, --reservation=NAME
  -L, --licenses=NAMES  -w, --nodelist=NODES
  -s, --steps[=STEPS]      running steps instead of jobs
  -r, --array              one line for each task of an array
      --start              pending jobs by expected start
      --running-over=TIME, --running-under=TIME   jobs that have run for more or less than this time
  -o, --format="%.18i %j"  -O, --Format=JobID:18,Name
  -S, --sort=P,t,-p        sort by letters of -o; - reverses the order
  -l, --long  -h, --noheader  -i, --iterate=SECONDS  --noconvert
      --helpFormat, --helpformat, --helpstate     names of -O, letters of -o, states of -t
      --json, --yaml[=VERSION]   all properties of the jobs, for programs; =list: the known versions"""
DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
STEPS = "%.15i %.8j %.9P %.8u %.9M %N"
STATES_ONLY = "%.18i %.2t"
FROM_ENV = {
    "SQUEUE_ACCOUNT": "account", "SQUEUE_NAMES": "name", "SQUEUE_LICENSES": "licenses", "SQUEUE_PARTITION": "partition",
    "SQUEUE_QOS": "qos", "SQUEUE_SORT": "sort", "SQUEUE_STATES": "states", "SQUEUE_USERS": "user",
    "SLURM_CLUSTERS": "clusters",
}  # fmt: skip
FLAGS_FROM_ENV = {
    "SQUEUE_ARRAY": "array",
    "SQUEUE_ARRAY_UNIQUE": "array-unique",
    "SQUEUE_PRIORITY": "priority",
}


class ListingKind(NamedTuple):
    """One kind of listing: jobs or steps.

    It has a name for messages, letters for -o, fields and sort keys.
    """

    kind: str
    letters: Mapping[str, str]
    fields: dict[str, TextField]
    keys: dict[str, SortKey]


def main(words: list[str], console: Console) -> int:
    """Print the listing once, or repeatedly with --iterate."""
    found, rest = read_lists(words, OPTIONS, optional=("jobs", "steps"))
    if handle_help(found, console, usage=USAGE, help_text=HELP):
        return 0
    fields = squeue_columns.job_columns(now=0.0)
    choices = {
        "helpFormat": fields,
        "helpformat": [f"%{letter}" for letter in letters_of(fields)],
        "helpstate": [state.lower() for state in CODES],
    }
    if handle_choices(found, console, choices):
        return 0
    reject_positional(rest, OPTIONS, USAGE, console)
    asked = _parse_options(found, console)
    text = asked.values.get("iterate")
    every_s = pause_s(text, f"squeue: error: --iterate={text}\n")
    iterate(console, every_s, lambda client: _list(asked, console, client))
    return 0


def _parse_options(found: Words, console: Console) -> JobFilterOptions:
    """Return the parsed command line. Raises WordsError for options that exclude each other."""
    values: dict[str, str] = {}
    env = console.env

    def complain(sentence: str) -> None:
        print(f"squeue: error: {sentence}", file=console.streams.err)

    for name, value in found:
        option = OTHER_NAMES.get(name, name)
        if option in USERS:  # The last of these options overrides the others.
            values = {name: text for name, text in values.items() if name not in USERS}
        values[option] = value
        check(option, value, complain)
    forms = [name for name, _ in found if name.lower() == "format"]
    if len(set(forms)) > 1:
        later, earlier = ("-O (--Format)", "-o (--format)")[:: 1 if forms[-1] == "Format" else -1]
        raise WordsError(f"squeue: error: {later} is incompatible with {earlier}")
    reject_format_and_long(values, "squeue")
    asked_users = values.keys() & USERS
    for variable, option in FROM_ENV.items():
        is_said = variable in env if option in LISTS else env.get(variable)
        if is_said and option not in values and not (option == "user" and asked_users):
            values[option] = env[variable]
            check(option, env[variable], complain)
    values |= {option: "" for variable, option in FLAGS_FROM_ENV.items() if variable in env}
    if not values.keys() & {"format", "Format", "long", "start", "steps"}:
        for variable, option in (("SQUEUE_FORMAT", "format"), ("SQUEUE_FORMAT2", "Format")):
            if env.get(variable):
                values[option] = env[variable]
                break
    return JobFilterOptions(values, console.user, console.host, complain)


def _list(asked: JobFilterOptions, console: Console, client: SyncClient) -> None:
    """Print one listing. Raises WordsError."""
    check_cluster("squeue", asked.values.get("clusters"))
    if asked.has("json", "yaml"):
        _dump(asked, console, client)
        return
    now = time.time()
    view = _steps_view(now) if asked.has("steps") else _jobs_view(asked, now)
    columns = _columns(asked, view)
    keys, wrong = _keys(asked, view)
    if asked.has("steps"):
        rows = step_rows(asked, client)
        job_order.sort(rows, keys, ties=squeue_step_columns.by_id)
    else:
        rows = job_rows(asked, client, needs=_needs(columns, keys, view))
        if asked.has("priority"):
            rows = [each for row in rows for each in _by_partition(row)]
        job_order.sort(rows, keys, ties=job_order.by_id)
    if wrong is not None:  # squeue reports a wrong sort order only after it has printed the titles.
        _print(LineLayout(columns, view.fields), [], asked, console, now=now)
        raise wrong
    _print(LineLayout(columns, view.fields), rows, asked, console, now=now)


def _by_partition(row: Row) -> list[Row]:
    """Return a pending job of several partitions once for each partition (--priority)."""
    if row["state"] != "PENDING" or "," not in row["partition"]:
        return [row]
    return [{**row, "partition": name} for name in sorted(row["partition"].split(","))]


def _print(
    layout: LineLayout, rows: list[Row], asked: JobFilterOptions, console: Console, *, now: float
) -> None:
    lines = [layout.line(row) for row in rows]
    if not asked.has("noheader"):
        lines.insert(0, layout.titles())
        if asked.has("clusters"):
            lines.insert(0, CLUSTER_LINE)
        if asked.has("long", "iterate"):
            lines.insert(0, ctime(now))
    if lines:
        console.print_lines(lines)


def _jobs_view(asked: JobFilterOptions, now: float) -> ListingKind:
    fields = squeue_columns.job_columns(now=now, convert=not asked.has("noconvert"))
    return ListingKind("job", letters_of(fields), fields, job_order.job_keys(fields))


def _steps_view(now: float) -> ListingKind:
    fields = squeue_step_columns.step_columns(now=now)
    return ListingKind("job step", letters_of(fields), fields, squeue_step_columns.step_keys(fields))


def _columns(asked: JobFilterOptions, view: ListingKind) -> list[FormatColumn]:
    def unknown(word: str) -> None:
        asked.complain(f"Invalid {view.kind} format specification: {word}")

    if asked.has("Format") and not asked.has("start"):  # squeue ignores -O if --start is given.
        return long_columns(asked.values["Format"], {name: name for name in view.fields}, unknown)
    return short_columns(asked.values.get("format", _default(asked)), view.letters, unknown)


def _default(asked: JobFilterOptions) -> str:
    if asked.has("steps"):
        return STEPS
    if asked.has("start"):
        return START
    if asked.has("only-job-state"):
        return STATES_ONLY
    return LONG if asked.has("long") else DEFAULT


def _keys(asked: JobFilterOptions, view: ListingKind) -> tuple[list[SortKey], WordsError | None]:
    """Return the sort keys, or no keys and the error of an invalid sort order."""
    usual = (
        "P,i" if asked.has("steps") else job_order.DEFAULT_START if asked.has("start") else job_order.DEFAULT
    )
    try:
        order = asked.values.get("sort", usual)
        return job_order.parse(order, view.keys, ("cluster",), is_strict=not asked.has("steps")), None
    except job_order.SortError as error:
        return [], WordsError(f"squeue: error: Invalid sort specification: {error}")


def _needs(columns: list[FormatColumn], keys: list[SortKey], view: ListingKind) -> list[str]:
    of_keys = [word for key in keys for word in key.needs.split()]
    ties = ("array_job_id", "array_task_id", "tasks_text", "tasks_folded", "state", "partition")
    return list(dict.fromkeys([*needed(columns, view.fields), *of_keys, *ties]))


def _dump(asked: JobFilterOptions, console: Console, client: SyncClient) -> None:
    """Print jobs as JSON or YAML.

    Jobs in all states are included, and the other options filter them, as in later Slurm releases.
    """
    from warpdeck.slurm.data_parser import job
    from warpdeck.slurm.data_parser.output import print_document, requested
    from warpdeck.slurm.fields.job_json import NEEDS, job_object

    output = requested("squeue", asked.values)
    assert output is not None
    if not asked.has("states", "start"):
        asked = asked._replace(values={**asked.values, "states": "all"})
    rows = job_rows(asked, client, needs=job.LAYOUT.needs if output.version else NEEDS)
    rows.sort(key=lambda row: row["id"])
    shown = [job.LAYOUT.object(row, output.version) if output.version else job_object(row) for row in rows]
    print_document(console, output, {"jobs": shown}, command=["squeue", "--json"])
