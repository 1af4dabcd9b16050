"""warpdeck queue: the jobs, as squeue's users expect them, and which jobs a command line is about."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from warpdeck.api.sync import SyncClient
from warpdeck.notation.times import format_duration
from warpdeck.paths import default_paths

from .arguments import Arguments
from .output import format_time, print_json, print_table

HEAD = ("JOBID", "PARTITION", "NAME", "USER", "ST", "TIME", "NODES", "GPUS", "NODELIST(REASON)")
START_HEAD = ("JOBID", "PARTITION", "NAME", "USER", "ST", "START_TIME", "NODES", "GPUS", "NODELIST(REASON)")
RIGHT = frozenset({0, 5, 6, 7})
SHOWN = (
    "label",
    "partition",
    "name",
    "user",
    "state_short",
    "start",
    "end",
    "nodes",
    "gpus",
    "why",
    "node_list",
    "exit_cause",
    "exit_code",
)
"""What the table needs of a row: less than half of it, and of the time that decoding takes."""


def main(_: str, words: list[str]) -> int:
    """Lists jobs."""
    parser = Arguments(
        "warpdeck queue",
        description="Lists waiting and running jobs, with the reason of those that wait.",
        examples=(
            "warpdeck queue --me",
            "warpdeck queue --user ann,bob --state PD",
            "warpdeck queue --start           when those that wait should start",
            "warpdeck queue --all --json      ended jobs too",
        ),
    )
    add_selection(parser)
    parser.add_argument("-j", "--jobs", default="", metavar="JOB,...", help="only these: 12,13_4")
    parser.add_argument("-a", "--all", action="store_true", help="ended jobs too")
    parser.add_argument("--start", action="store_true", help="jobs that wait, and when they should start")
    parser.add_argument("--limit", type=_count, default=10_000, metavar="N", help="the newest so many jobs")
    parser.add_argument("--noheader", action="store_true", help="no line of titles")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(words)
    with SyncClient.connect(default_paths()) as client:
        ids, fields = _split(args.jobs), () if args.json else SHOWN
        rows = select(client, args, ids=ids, finished=args.all, limit=args.limit, fields=fields)
    if args.start:
        rows = [row for row in rows if row["why"]]
    if args.json:
        print_json(rows)
        return 0
    now = time.time()
    head, line = (START_HEAD, _start_line) if args.start else (HEAD, _queue_line)
    print_table([] if args.noheader else head, [line(row, now) for row in rows], right=RIGHT)
    return 0


def add_selection(parser: argparse.ArgumentParser) -> None:
    """The options that say which jobs are meant."""
    parser.add_argument("--me", action="store_true", help="only my jobs")
    parser.add_argument("-u", "--user", default="", metavar="USER,...", help="only jobs of these users")
    parser.add_argument(
        "-t", "--state", default="", metavar="STATE,...", help="only jobs in these states: PENDING or PD ..."
    )
    parser.add_argument("-n", "--name", default="", metavar="NAME,...", help="only jobs of these names")


def has_selection(args: argparse.Namespace) -> bool:
    """Whether one of them was given."""
    return bool(args.me or args.user or args.state or args.name)


def select(
    client: SyncClient,
    args: argparse.Namespace,
    *,
    ids: list[str],
    finished: bool,
    limit: int,
    fields: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The rows that are meant, with these of their fields (() is all), oldest first. Raises UserError."""
    users = [str(client.welcome["user"])] if args.me else _split(args.user)
    only = users[0] if len(users) == 1 else None
    states = _split(args.state)
    answer = client.call(
        "jobs", user=only, states=states, ids=ids, finished=finished, limit=limit, fields=fields
    )
    names = _split(args.name)
    rows: list[dict[str, Any]] = answer["jobs"]
    return [
        row for row in rows if (not users or row["user"] in users) and (not names or row["name"] in names)
    ]


def _split(text: str) -> list[str]:
    """At commas outside brackets."""
    words, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            words.append("")
        else:
            words[-1] += letter
    return [word.strip() for word in words if word.strip()]


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of jobs")
    return int(text)


def _queue_line(row: dict[str, Any], now: float) -> list[str]:
    return _line(row, format_duration(elapsed(row, now)))


def _start_line(row: dict[str, Any], now: float) -> list[str]:
    return _line(row, format_time(row["why"]["expected_start"]) or "N/A")


def _line(row: dict[str, Any], when: str) -> list[str]:
    facts = [row["label"], row["partition"], row["name"], row["user"], row["state_short"], when]
    return [*facts, str(row["nodes"]), str(row["gpus"]), where(row)]


def elapsed(row: dict[str, Any], now: float) -> float:
    """Seconds a job has run."""
    return 0.0 if row["start"] is None else (row["end"] or now) - row["start"]


def where(row: dict[str, Any]) -> str:
    """Where a job runs, or why it does not."""
    why = row.get("why")
    if why:
        return f"({why['code']}) {why['sentence']}"
    return str(row["node_list"]) + (f" {row['exit_cause'] or row['exit_code']}" if row["end"] else "")
