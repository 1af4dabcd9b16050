"""`warpdeck cancel|hold|release|requeue|suspend|resume`, for jobs given by id or by filters."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from warpdeck.base.errors import UserError
from warpdeck.base.output import print_json, print_note
from warpdeck.base.paths import default_paths
from warpdeck.cli.shared.arguments import USAGE_EXIT, Arguments
from warpdeck.client.blocking_client import SyncClient
from warpdeck.model.ranges import Ranges, format_ranges, split_ranges
from warpdeck.model.states import JobState, state_named
from warpdeck.notation.values.job_ids import parse_job_id
from warpdeck.notation.values.lists import words_of

from .queue import add_selection, has_selection, select

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes longer than answering a verb
    from typing import Any

MAX_SELECTED = 100_000
"""Largest number of jobs that filters may select, which is also the limit of one request."""
TEXTS = {
    "cancel": "Cancel waiting or running jobs. With --signal, only send a signal to running jobs.",
    "hold": "Hold waiting jobs: they do not start until they are released.",
    "release": "Release held jobs.",
    "requeue": "Stop running jobs and put them back in the queue. Finished jobs are requeued at once.",
    "suspend": "Suspend running jobs. They keep memory and GPUs but free their CPUs, and their time limit is paused. Admins only.",
    "resume": "Resume suspended jobs as soon as their CPUs are free again. Admins only.",
}
EXAMPLES = {
    "cancel": (
        "warpdeck cancel 12 13",
        "warpdeck cancel 12_[3-5,9]         some tasks of an array",
        "warpdeck cancel --state PD 12      the waiting tasks of an array; the others keep running",
        "warpdeck cancel --me --state PD    all of my waiting jobs",
        "warpdeck cancel --signal USR1 12",
        "warpdeck cancel 12.0               one step of a job",
    ),
    "hold": ("warpdeck hold 12", "warpdeck hold 12_[5-9]", "warpdeck hold --me"),
    "release": ("warpdeck release 12", "warpdeck release --me"),
    "requeue": ("warpdeck requeue 12", "warpdeck requeue 12 --state FAILED"),
    "suspend": ("warpdeck suspend 12", "warpdeck suspend --user ann"),
    "resume": ("warpdeck resume 12",),
}


def main(verb: str, words: list[str]) -> int:
    """Run one of the verbs. Return 1 if anything was refused."""
    parser = Arguments(f"warpdeck {verb}", description=TEXTS[verb], examples=EXAMPLES[verb])
    parser.add_argument(
        "jobs",
        metavar="JOB",
        nargs="*",
        help="12; 12_3 or 12_[3-5] for tasks of an array" + ("; 12.0 for a step" if verb == "cancel" else ""),
    )
    add_selection(parser)
    if verb == "cancel":
        parser.add_argument("-s", "--signal", default="", help="send this signal instead of ending the job")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(words)
    if not args.jobs and not has_selection(args):
        raise UserError(
            f"no jobs given to {verb}",
            f"name jobs, as in `warpdeck {verb} 12`, or use --me",
            exit_code=USAGE_EXIT,
        )
    with SyncClient.connect(default_paths()) as client:
        jobs = list(args.jobs)
        if has_selection(args):
            ended = verb == "requeue" and bool(args.state)
            rows = select(client, args, ids=jobs, finished=ended, limit=MAX_SELECTED)
            jobs = list(_names(rows, jobs))
        more = {"signal": args.signal, "waiting_only": _only_waiting(args)} if verb == "cancel" else {}
        answer = client.call(verb, jobs=jobs, **more) if jobs else {"jobs": [], "errors": []}
    if args.json:
        print_json({key: answer[key] for key in ("jobs", "errors")})
    elif not jobs:
        print_note("no matching jobs")
    for error in answer["errors"]:
        print_note(f"warpdeck: {error}")
    return 1 if answer["errors"] else 0


def _names(rows: Sequence[dict[str, Any]], words: Sequence[str]) -> Iterator[str]:
    """Yield the labels of the selected jobs.

    For the waiting tasks of an array, yield only the tasks that `words` name, if `words` name tasks of this
    array.
    """
    asked: dict[int, list[Ranges | None]] = {}
    for word in words:
        number, tasks = parse_job_id(word)
        asked.setdefault(number, []).append(tasks)
    for row in rows:
        array, waiting = parse_job_id(row["label"])
        named = [tasks for tasks in asked.get(array, ()) if tasks is not None]
        if not row["tasks_pending"] or len(named) < len(asked.get(array, (None,))):
            yield row["label"]
        else:
            parts = (split_ranges(waiting or (), tasks)[0] for tasks in named)
            yield from (f"{array}_[{format_ranges(part)}]" for part in parts if part)


def _only_waiting(args: argparse.Namespace) -> bool:
    """Return whether the filters select waiting jobs only. Jobs that begin in the meantime are then left
    alone.
    """
    states = words_of(args.state)
    return bool(states) and all(state_named(word) is JobState.PENDING for word in states)
