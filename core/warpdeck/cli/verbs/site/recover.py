"""`warpdeck recover`: adopt the jobs that the nodes know and an older database does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpdeck.base.output import clean
from warpdeck.cli.arguments import JSON, Argument
from warpdeck.cli.shared.row_tables import print_rows
from warpdeck.cli.verb import Verb

if TYPE_CHECKING:
    from argparse import Namespace

    from warpdeck.client.blocking_client import SyncClient

PAST = {"adopt": "adopted", "discard": "discarded", "keep": "kept"}


def _ask(client: SyncClient, args: Namespace) -> Any:
    jobs = [int(job) for job in args.jobs]
    return client.call("recover", jobs=jobs, discard=args.discard, dry_run=args.dry_run)


def _check(args: Namespace) -> None:
    from warpdeck.cli.arguments import UsageError

    for job in args.jobs:
        if not job.isdecimal():
            raise UsageError(f"{job} is not a job id", "write the number in the first column of --dry-run")


def _print_recovery(found: dict[str, Any], args: Namespace) -> None:
    if not found["jobs"] and not found["silent"]:
        print("nothing to recover: the database explains all launches on the connected nodes")
        return
    actions = {name: name if args.dry_run else past for name, past in PAST.items()}
    columns = {
        "JOB": lambda row: row["label"],
        "USER": lambda row: row["user"] or "?",
        "NAME": lambda row: row["name"] or "?",
        "NODE": lambda row: row["node"],
        "STATE": lambda row: row["state"] + (f" {row['exit']}" if row["exit"] else ""),
        "ACTION": lambda row: actions[row["action"]] + (f": {row['reason']}" if row["reason"] else ""),
        "OUTPUT": lambda row: row["output"],
    }
    if found["jobs"]:
        print_rows(
            [
                {**row, **{key: clean(str(row[key])) for key in ("user", "name", "output")}}
                for row in found["jobs"]
            ],
            columns,
        )
    for node, reason in found["silent"].items():
        print(clean(f"{node} does not answer: {reason}; run this again when it is connected"))
    if args.dry_run:
        print("nothing was changed; run `warpdeck recover` to adopt these jobs, or add --discard to end them")
    elif found["needed"]:
        print("some launches are left, and no jobs start; see `warpdeck recover --dry-run`")


VERBS = (
    Verb(
        "recover", """\
Adopt the jobs that run or have ended on the nodes and that the database does not know, because an older copy of it was
restored. Until then, the controller starts no jobs, and running jobs continue. An adopted job keeps its id, and new jobs
get ids above it. Its script is lost, so it cannot be requeued.""",
        (
            Argument("[JOB ...]", "only these job ids; default: all unknown jobs", into="jobs"),
            Argument("--discard", "end these jobs and forget them instead"),
            Argument("--dry-run", "list the jobs and change nothing"),
            JSON,
        ),
        examples=(
            "warpdeck recover --dry-run       list the jobs that the database does not know",
            "warpdeck recover                 adopt all of them",
            "warpdeck recover --discard 12    end job 12 instead",
        ),
        check=_check, ask=_ask, waits="waiting for the nodes ...", show=_print_recovery,
    ),
)  # fmt: skip
