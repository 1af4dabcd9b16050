"""`warpdeck queue`: the jobs in a table like squeue's, and the filters that select jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from warpdeck.base.output import format_count, format_time, print_columns
from warpdeck.cli.arguments import JSON, NO_HEADER, SELECTION, Argument, InvalidValue, number
from warpdeck.cli.verb import Verb
from warpdeck.notation.values.durations import format_duration
from warpdeck.notation.values.lists import words_of
from warpdeck.protocol.start_text import about

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes longer than answering a verb
    from argparse import Namespace
    from typing import Any

    from warpdeck.client.blocking_client import SyncClient

DEFAULT = "job partition name user state time nodes gpus where"
NOT_BEGUN = format_duration(0)
START = "job partition name user state start nodes gpus where"


def _queue(client: SyncClient, args: Namespace) -> list[dict[str, Any]]:
    ids, fields = words_of(args.jobs), [] if args.json else fields_of(_column_names(args))
    rows = select(client, args, ids=ids, finished=args.all, limit=args.limit, fields=fields)
    if args.start:
        return sorted((row for row in rows if row["why"] and not row["end"]), key=_expected)
    return rows


def _print(rows: list[dict[str, Any]], args: Namespace) -> None:
    print_queue(rows, _column_names(args), now=time.time(), titles=not args.noheader)


def _column_names(args: Namespace) -> list[str]:
    usual = (START if args.start else DEFAULT).split()
    if args.columns is None:
        return usual
    added, names = args.columns
    return [*usual[:-1], *names, usual[-1]] if added else names


def print_queue(rows: list[dict[str, Any]], names: list[str], *, now: float, titles: bool) -> None:
    """Print a table of jobs with these columns of COLUMNS."""
    columns = [COLUMNS[name] for name in names]
    right = frozenset(place for place, (title, _, _) in enumerate(columns) if title.startswith(">"))
    texts = [[text(row, now) for row in rows] for _, _, text in columns]
    heads = [[title.lstrip(">")] if titles else [] for title, _, _ in columns]
    print_columns([head + text for head, text in zip(heads, texts, strict=True)], right=right)


def has_selection(args: Namespace) -> bool:
    """Return whether one of the options of SELECTION was given."""
    return bool(args.me or args.user or args.state or args.name)


def select(
    client: SyncClient,
    args: Namespace,
    *,
    ids: list[str],
    finished: bool,
    limit: int,
    fields: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return the selected rows, oldest first, with these fields; () means all fields. Raises UserError."""
    users = [str(client.welcome["user"])] if args.me else words_of(args.user)
    answer = client.call(
        "jobs",
        users=users,
        names=words_of(args.name),
        states=words_of(args.state),
        ids=ids,
        finished=finished,
        limit=limit,
        fields=fields,
    )
    rows: list[dict[str, Any]] = answer["jobs"]
    return rows


def _columns(text: str) -> tuple[bool, list[str]]:
    """Return whether the columns are added to the usual ones, and their names."""
    names = [name.strip().lower() for name in text.removeprefix("+").split(",") if name.strip()]
    unknown = next((name for name in names if name not in COLUMNS), "")
    if unknown or not names:
        raise InvalidValue(f"there is no column {unknown!r}; there are: {', '.join(COLUMNS)}")
    return text.startswith("+"), names


def _expected(row: dict[str, Any]) -> float:
    """Sort key. Jobs without an expected start come last."""
    return float(row["why"]["expected_start"] or "inf")


def elapsed(row: dict[str, Any], now: float) -> float:
    """Return for how many seconds a job has run."""
    return 0.0 if row["start"] is None else (row["end"] or now) - row["start"]


def _time(row: dict[str, Any], now: float) -> str:
    """Return the run time as text. The text for jobs that have not begun is made only once, because most of a
    long queue waits.
    """
    return NOT_BEGUN if row["start"] is None else format_duration(elapsed(row, now))


def where(row: dict[str, Any], now: float) -> str:
    """Return where a job runs, or why it waits and when it should start."""
    why = row.get("why")
    if why:
        at_unix = why["expected_start"]
        soon = f"; expected {about(at_unix, now)}" if at_unix else ""
        return f"({why['code']}) {why['sentence']}{soon}"
    if row["end"]:
        return f"{row['node_list']} {row['exit_cause'] or row['exit_code']}"
    idle_s = now - row["idle_since"] if row["idle_since"] else 0
    return str(row["node_list"]) + (f" idle {format_duration(round(idle_s))}" if idle_s else "")


def _start(row: dict[str, Any]) -> str:
    return format_time(row["why"]["expected_start"] if row.get("why") else row["start"]) or "N/A"


COLUMNS: dict[str, tuple[str, str, Callable[[dict[str, Any], float], str]]] = {
    "job": (">JOBID", "label", lambda row, now: row["label"]),
    "partition": ("PARTITION", "partition", lambda row, now: row["partition"]),
    "name": ("NAME", "name", lambda row, now: row["name"]),
    "user": ("USER", "user", lambda row, now: row["user"]),
    "account": ("ACCOUNT", "account", lambda row, now: row["account"]),
    "qos": ("QOS", "qos", lambda row, now: row["qos"]),
    "priority": (">PRIORITY", "priority", lambda row, now: format_count(row["priority"])),
    "state": ("ST", "state_short", lambda row, now: row["state_short"]),
    "time": (">TIME", "start end", _time),
    "limit": (">TIME_LIMIT", "time_limit_s", lambda row, now: format_duration(row["time_limit_s"])),
    "submit": (">SUBMIT_TIME", "submit", lambda row, now: format_time(row["submit"])),
    "start": (">START_TIME", "start why", lambda row, now: _start(row)),
    "nodes": (">NODES", "nodes", lambda row, now: str(row["nodes"])),
    "cpus": (">CPUS", "cpus", lambda row, now: str(row["cpus"])),
    "gpus": (">GPUS", "gpus", lambda row, now: str(row["gpus"])),
    "restarts": (">RESTARTS", "restarts", lambda row, now: str(row["restarts"])),
    "comment": ("COMMENT", "comment", lambda row, now: row["comment"]),
    "where": ("NODELIST(REASON)", "why node_list end exit_cause exit_code idle_since", where),
}
"""Name -> (title, which stands at the right after ">"; the fields that the column needs; its text for a row at a time)."""
SELECTED_BY = ("why", "end")
"""Fields that --start needs."""


def fields_of(names: list[str]) -> list[str]:
    """Return the fields that a table of these columns needs. Fewer fields are faster to decode."""
    return [*dict.fromkeys([*SELECTED_BY, *(word for name in names for word in COLUMNS[name][1].split())])]


VERBS = (
    Verb(
        "queue", "List waiting and running jobs, with the reason why each waiting job waits.",
        (
            *SELECTION,
            Argument("-j, --jobs JOB,...", "only these jobs, such as 12,13_4"),
            Argument("-a, --all", "include finished jobs"),
            Argument("--start", "show waiting jobs with their expected start times"),
            Argument(
                "-o, --columns NAME,...",
                f"show these columns; a leading + adds them to the default columns: {', '.join(COLUMNS)}",
                parse=_columns,
            ),
            Argument("--limit N", "show only the newest N jobs; default: 10000", parse=number(), default=10_000),
            NO_HEADER,
            JSON,
        ),
        examples=(
            "warpdeck queue --me",
            "warpdeck queue --user ann,bob --state PD",
            "warpdeck queue --start           expected start times of waiting jobs, earliest first",
            "warpdeck queue -o +priority,account,qos",
            "warpdeck queue --all --json      include finished jobs",
        ),
        ask=_queue, show=_print,
    ),
)  # fmt: skip
