"""`warpdeck cancel|hold|release|requeue|pause|suspend|resume`, for jobs given by id or by filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpdeck.base.output import print_json, print_note
from warpdeck.cli.arguments import (
    ANY_JOBS,
    JOBS,
    JSON,
    PENDING_JOBS,
    RUNNING_JOBS,
    SELECTION,
    SUSPENDED_JOBS,
    Argument,
    UsageError,
)
from warpdeck.cli.shared.progress import progress
from warpdeck.cli.verb import Verb
from warpdeck.notation.values.lists import words_of

from .queue import has_selection, select

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes longer than answering a verb
    from argparse import Namespace
    from typing import Any

    from warpdeck.client.blocking_client import SyncClient
    from warpdeck.model.ranges import Ranges

MAX_SELECTED = 100_000
"""Largest number of jobs that filters may select, which is also the limit of one request."""


def _check(args: Namespace) -> None:
    if not args.jobs and not has_selection(args):
        verb = args.row.name
        raise UsageError(f"no jobs given to {verb}", f"name jobs, as in `warpdeck {verb} 12`, or use --me")


def _order(client: SyncClient, args: Namespace) -> int:
    """Run one of the verbs. Return 1 if anything was refused."""
    verb = args.row.name
    jobs = list(args.jobs)
    with progress("waiting for an answer ..."):
        if has_selection(args):
            ended = verb == "requeue" and bool(args.state)
            rows = select(client, args, ids=jobs, finished=ended, limit=MAX_SELECTED)
            jobs = list(_names(rows, jobs))
        answer = client.call(verb, jobs=jobs, **_fields(args)) if jobs else {"jobs": [], "errors": []}
    if args.json:
        print_json({key: answer[key] for key in ("jobs", "errors")})
    elif not jobs:
        print_note("no matching jobs")
    for error in answer["errors"]:
        print_note(f"warpdeck: {error}")
    return 1 if answer["errors"] else 0


def _fields(args: Namespace) -> dict[str, Any]:
    """Return the fields of the request besides the jobs."""
    match args.row.name:
        case "cancel":
            return {"signal": args.signal, "waiting_only": _only_waiting(args)}
        case "pause":
            return {"hold": args.hold, "saving_s": args.grace}
        case _:
            return {}


def _names(rows: Sequence[dict[str, Any]], words: Sequence[str]) -> Iterator[str]:
    """Yield the labels of the selected jobs.

    For the waiting tasks of an array, yield only the tasks that `words` name, if `words` name tasks of this
    array.
    """
    # These imports take as long as all others, and most orders name their jobs.
    from warpdeck.model.ranges import format_ranges, split_ranges
    from warpdeck.notation.values.job_ids import parse_job_id

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


def _only_waiting(args: Namespace) -> bool:
    """Return whether the filters select waiting jobs only. Jobs that begin in the meantime are then left
    alone.
    """
    states = words_of(args.state)
    if not states:
        return False
    from warpdeck.model.states import JobState, state_named  # as in _names

    return all(state_named(word) is JobState.PENDING for word in states)


SIGNAL = Argument("-s, --signal SIGNAL", "send this signal instead of ending the job")
HOLD = Argument("--hold", "hold the jobs, too: they return only when they are released")
GRACE = Argument(
    "--grace SECONDS",
    "how long the jobs may save their work; default: the time of --signal, or the site's pause_grace_s",
    parse=int,
)


def _row(name: str, about: str, *examples: str, jobs: str, more: Sequence[Argument] = ()) -> Verb:
    """Return the row of a verb that changes jobs of that kind."""
    step = "; 12.0 for a step" if SIGNAL in more else ""
    which = Argument(
        "[JOB ...]", f"job id, such as 12; 12_3 or 12_[3-5] for tasks of an array{step}", completes=jobs
    )
    arguments = (which, *SELECTION, *more, JSON)
    return Verb(name, about, arguments, reads=False, examples=examples, check=_check, ask=_order)


VERBS = (
    _row(
        "cancel",
        "Cancel waiting or running jobs. With --signal, only send a signal to running jobs.",
        "warpdeck cancel 12 13",
        "warpdeck cancel 12_[3-5,9]         some tasks of an array",
        "warpdeck cancel --state PD 12      the waiting tasks of an array; the others keep running",
        "warpdeck cancel --me --state PD    all of my waiting jobs",
        "warpdeck cancel --signal USR1 12",
        "warpdeck cancel 12.0               one step of a job",
        jobs=JOBS,
        more=(SIGNAL,),
    ),
    _row(
        "hold",
        "Hold waiting jobs: they do not start until they are released.",
        "warpdeck hold 12",
        "warpdeck hold 12_[5-9]",
        "warpdeck hold --me",
        jobs=PENDING_JOBS,
    ),
    _row("release", "Release held jobs.", "warpdeck release 12", "warpdeck release --me", jobs=PENDING_JOBS),
    _row(
        "requeue",
        "Stop running jobs and put them back in the queue. Finished jobs are requeued at once.",
        "warpdeck requeue 12",
        "warpdeck requeue 12 --state FAILED",
        jobs=ANY_JOBS,
    ),
    _row(
        "pause",
        "Let running jobs save their work, free their GPUs, and put them back in the queue.\n"
        "A job gets the signal of its --signal option, else TERM, and KILL at the end of the grace time. It returns by\n"
        "its priority, in the same folder and with a higher restart count.",
        "warpdeck pause 12",
        "warpdeck pause --hold 12              it waits until `warpdeck release 12`",
        "warpdeck pause --grace 600 12",
        "warpdeck pause --me --json",
        jobs=RUNNING_JOBS,
        more=(HOLD, GRACE),
    ),
    _row(
        "suspend",
        "Suspend running jobs. They keep their memory and GPUs, free their CPUs, and their time limit is paused.\n"
        "Only admins may do this.",
        "warpdeck suspend 12",
        "warpdeck suspend --user ann",
        jobs=RUNNING_JOBS,
    ),
    _row(
        "resume",
        "Resume suspended jobs as soon as their CPUs are free again. Only admins may do this.",
        "warpdeck resume 12",
        jobs=SUSPENDED_JOBS,
    ),
)
