"""`warpdeck show|why|logs|snapshot`: information about one job."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from warpdeck.base.errors import UserError
from warpdeck.base.output import clean, format_count, format_time, print_json, print_note
from warpdeck.cli.arguments import (
    ANY_JOBS,
    JOB,
    JOB_NODE,
    JSON,
    PENDING_JOBS,
    TASK_HELP,
    Argument,
    UsageError,
)
from warpdeck.cli.shared.forecast import ahead_in_words, print_forecast
from warpdeck.cli.verb import Verb, request
from warpdeck.client.code import store_of, tree_now
from warpdeck.client.outages import LOOK_S, OutageNotes
from warpdeck.notation.values.durations import format_duration
from warpdeck.protocol.usage_text import gpu_name, origin, used_in_words
from warpdeck_agent.client.lines import write_all

from .nodes import isolated
from .queue import where

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from warpdeck.client.blocking_client import SyncClient


def _show(client: SyncClient, args: Namespace) -> dict[str, Any]:
    """Return the details of a job, with a forecast if they are not printed as JSON."""
    if args.environment:
        return dict(client.call("job_environment", job=args.job)["variables"])
    detail = client.call("job", job=args.job)
    if not args.json and detail["row"]["state"] == "PENDING":
        detail["forecast"] = client.call("forecast", job=args.job)
    return detail


def _print_environment(variables: dict[str, str]) -> None:
    for name in sorted(variables):
        line = f"{name}={variables[name]}"
        print(clean(line) if sys.stdout.isatty() else line)


def _print_job(detail: dict[str, Any], args: Namespace) -> None:
    if args.environment:
        _print_environment(detail)
        return
    row = detail["row"]
    forecast: dict[str, Any] = detail.get("forecast", {"ahead": 0, "changes": []})
    facts = [
        ("job", f"{row['label']}  {row['name']}"),
        ("user", row["user"]),
        ("state", row["state"] + (f" (start {row['restarts'] + 1})" if row["restarts"] else "")),
        ("why", where(row, time.time()) if row.get("why") else ""),
        ("ahead", ahead_in_words(forecast)),
        ("would help", "; ".join(forecast["changes"])),
        ("priority", format_count(row["priority"])),
        ("account", f"{row['account'] or 'none'}, partition {row['partition']}, QoS {row['qos']}"),
        ("exit", f"{row['exit_code']} {row['exit_cause']} {detail['message']}".strip()),
        ("warning", detail["notice"]),
        ("requested", _requested(row)),
        ("at limit", "returns to the queue after a checkpoint" if detail["requeues_at_limit"] else ""),
        ("run time", _run_time(detail)),
        ("submitted", format_time(row["submit"])),
        ("started", format_time(row["start"])),
        ("idle since", format_time(row["idle_since"])),
        ("ended", format_time(row["end"])),
        ("nodes", row["node_list"]),
        ("GPUs", _gpus(detail)),
        ("folder", detail["submit_dir"]),
        ("runs in", detail["work_dir"]),
        ("stdout", detail["stdout"]),
        ("stderr", detail["stderr"]),
        ("waits for", detail["dependency"]),
        ("code", _code(detail)),
        ("usage", ", ".join(used_in_words(**row["used"])) if row["used"] else ""),
        ("comment", row["comment"]),
    ]
    for name, value in facts:
        if value:
            print(f"{name:>12}  {clean(str(value))}")
    for step in detail["steps"]:
        print(f"{'step':>12}  {clean(_step(step))}")
    for event in detail["events"]:
        print(f"{format_time(event['at']):>32}  {clean(event['text'])}")


def _step(step: dict[str, Any]) -> str:
    """Return a step's line, such as "12.0  python  COMPLETED 0:0, 4 tasks on gpu[1-2], 12.5 s of CPU"."""
    tasks = f"{step['tasks']} task{'s' * (step['tasks'] != 1)} on {step['node_list']}"
    used = "".join(f", {words}" for words in used_in_words(**step["used"])) if step["used"] else ""
    why = f": {step['message']}" if step["message"] else ""
    return (
        f"{step['id']}  {step['name']}  {step['state']} {step['exit_code']}".rstrip()
        + f", {tasks}{used}{why}"
    )


def _requested(row: dict[str, Any]) -> str:
    limit = "none" if row["time_limit_s"] is None else format_duration(row["time_limit_s"])
    counts = ((row["nodes"], "node"), (row["cpus"], "CPU"), (row["gpus"], "GPU"))
    return ", ".join(f"{n} {what}{'s' * (n != 1)}" for n, what in counts) + f", time limit {limit}"


def _run_time(detail: dict[str, Any]) -> str:
    if detail["predicted_s"] is None:
        return ""
    said = f"{format_duration(round(detail['predicted_s']))} (predicted from the user's previous jobs)"
    error_s = detail["prediction_error_s"]
    if error_s is None:
        return said
    return f"{said}, {format_duration(round(abs(error_s)))} too {'long' if error_s > 0 else 'short'}"


def _gpus(detail: dict[str, Any]) -> str:
    """Return the GPUs of a job, and when their first readings come."""
    wait_s = detail.get("first_reading_in_s")
    soon = f" (first reading in about {wait_s} s)" if wait_s is not None and detail["gpus"] else ""
    return ", ".join(_gpu(gpu) for gpu in detail["gpus"]) + soon


def _gpu(gpu: dict[str, Any]) -> str:
    util = "" if gpu["util_pct"] is None else f" {gpu['util_pct']}%"
    part = f" ({gpu['share_pct']} % of it, {isolated(gpu['isolation'])})" if gpu["share_pct"] < 100 else ""
    return f"{gpu_name(gpu['node'], gpu['index'])}{util}{origin(gpu['source'])}{part}"


def _code(detail: dict[str, Any]) -> str:
    snapshot = detail.get("snapshot")
    if not snapshot:
        return "snapshot in progress" if detail.get("recording") else "no snapshot"
    head = snapshot["head"][:12]
    changed = " with uncommitted changes" if snapshot["dirty"] else ""
    return f"tree {snapshot['tree'][:12]}" + (f", commit {head}{changed}" if head else "")


def _print_why(found: dict[str, Any], _: Namespace) -> None:
    if found["verdict"]:
        print_forecast(found, now=time.time())
    elif found["code"]:
        print(clean(f"{found['code']}: {found['sentence']}"))
    else:
        state = f"job {found['job']} is not waiting: {found['state']}"
        print(clean("; ".join(filter(None, (state, found["sentence"])))))


def _logs(client: SyncClient, args: Namespace) -> int:
    """Print a log. A log that is followed goes on where it was after the daemon was killed and has come back."""
    opened: dict[str, Any] = {}
    text = bytearray()

    def write(data: bytes) -> None:
        if args.json:
            text.extend(data)
        else:
            write_all(sys.stdout.fileno(), data)

    reading = _LogReading(args, write, opened)
    if args.follow:
        client.repeat(lambda: reading.read(client))
    else:
        reading.read(client)
    if args.json:
        print_json({**opened, "text": text.decode("utf-8", "replace")})
    return 0


class _LogReading:
    """Reads a log, and remembers the position in it. `opened` gets the first answer."""

    def __init__(self, args: Namespace, write: Callable[[bytes], None], opened: dict[str, Any]) -> None:
        self._args = args
        self._write = write
        self._opened = opened
        self._at = 0 if args.tail is None else -max(1, args.tail)
        self._outages = OutageNotes(lambda line: print_note(f"warpdeck: {line}"))

    def read(self, client: SyncClient) -> None:
        """Read from the position on to the end. Raises UserError."""
        args = self._args
        channel = "err" if args.stderr else "out"
        number = client.begin(
            "log", job=args.job, channel=channel, offset=self._at, follow=args.follow, node=args.node
        )
        while True:
            for word, value in client.events(number, timeout_s=LOOK_S):
                if word == "progress":
                    print_note(value)
                elif word == "ok":
                    self._at = value["offset"]
                    self._opened.update({**value, **self._opened})
                elif word == "data":
                    self._write(value)
                    self._at += len(value)
                elif word == "end":
                    if value["error"]:
                        raise UserError(
                            value["error"], f"check the path with `warpdeck show {args.job}`, then try again"
                        )
                    return
            self._outages.look(client)


def _check_snapshot(args: Namespace) -> None:
    if args.verb == "restore":
        if len(args.jobs) != 2:
            raise UsageError(f"{args.prog}: restore takes a job and a folder", f"see `{args.prog} --help`")
        return
    if len(args.jobs) > (1 if args.verb == "show" else 2):
        takes = "one job" if args.verb == "show" else "one or two jobs"
        raise UsageError(f"{args.prog}: {args.verb} takes {takes}", f"see `{args.prog} --help`")


def _snapshots(client: SyncClient, args: Namespace) -> dict[str, Any]:
    """Return a snapshot with its files, or the difference between two snapshots, or restore a snapshot."""
    if args.verb == "restore":
        job, folder = args.jobs
        snapshot = _snapshot(client, job)
        store_of(snapshot).restore(snapshot["tree"], folder)
        return {"tree": snapshot["tree"], "folder": os.path.abspath(folder)}
    first, *others = [_snapshot(client, job) for job in args.jobs]
    store, tree = store_of(first), first["tree"]
    if args.verb == "show":
        from warpdeck.snapshots.left_out import left_out_of

        meta = store.meta(tree)
        return {**first, "meta": meta, "left_out": left_out_of(meta), "paths": store.files(tree)}
    other = others[0]["tree"] if others else tree_now(first)
    return {"old": tree, "new": other, "diff": store.diff(tree, other), "at": time.time()}


def _snapshot(client: SyncClient, job: str) -> dict[str, Any]:
    snapshot = client.call("job", job=job).get("snapshot")
    if not snapshot:
        raise UserError(
            f"job {job} has no snapshot",
            "it ran in its folder; to get snapshots, submit from a git repository",
        )
    return dict(snapshot)


def _print_snapshot(found: dict[str, Any], args: Namespace) -> None:
    if args.verb == "diff":
        sys.stdout.write(found["diff"])
        return
    if args.verb == "restore":
        print(clean(f"restored the snapshot {found['tree'][:12]} to {found['folder']}"))
        return
    print(f"tree    {found['tree']}")
    print(f"root    {clean(found['root'])}")
    if found["head"]:
        changed = " with uncommitted changes" if found["dirty"] else ""
        print(f"commit  {found['head']} ({clean(found['meta'].get('branch') or 'no branch')}){changed}")
    left_out = found["left_out"]
    if left_out["count"]:
        print(f"left out {left_out['count']}")
    for each in left_out["paths"]:
        print(f"  {clean(each['path'])} ({each['why']})")
    if left_out["count"] > len(left_out["paths"]):
        print(f"  and {left_out['count'] - len(left_out['paths']):,} more")
    print(f"files   {len(found['paths'])}")
    for name in found["paths"]:
        print(f"  {clean(name)}")


VERBS = (
    Verb(
        "show", "Show the details of a job.",
        (JOB, Argument("--environment", "print only the environment variables of the submission; your own jobs only"), JSON),
        examples=("warpdeck show 12", "warpdeck show 12_3 --json"),
        ask=_show, show=_print_job,
    ),
    Verb(
        "why",
        "Show why a job waits, which jobs are ahead of it, when it is expected to start, and which changes "
        "would start it now.",
        (Argument("JOB", TASK_HELP, completes=PENDING_JOBS), JSON),
        examples=("warpdeck why 12", "warpdeck why 12 --json"),
        ask=request("forecast", job="job"), show=_print_why,
    ),
    Verb(
        "logs", "Print a job's output.",
        (
            JOB,
            Argument("-f, --follow", "wait until the job starts and print output until it ends"),
            Argument("-e, --stderr", "print standard error, if it has its own file"),
            Argument("--tail BYTES", "print only the last BYTES bytes", parse=int),
            JOB_NODE,
            JSON,
        ),
        examples=("warpdeck logs 12", "warpdeck logs -f 12_3", "warpdeck logs --stderr --tail 2000 12"),
        ask=_logs,
    ),
    Verb(
        "snapshot", """\
Show the code snapshot of a job, compare it with that of another job or with the current folder, or restore it to a folder.
The folder of `restore` is new or empty. Files that are not in the snapshot, such as data, are not restored.""",
        (
            Argument("{show,diff,restore}", "show a snapshot, compare two, or write one to a folder", into="verb"),
            Argument("JOB ...", "one job id; two for a comparison; a job id and a folder for `restore`", completes=ANY_JOBS),
            JSON,
        ),
        examples=(
            "warpdeck snapshot show 12",
            "warpdeck snapshot diff 12       compare with the current folder",
            "warpdeck snapshot diff 12 15",
            "warpdeck snapshot restore 12 ~/code-of-12",
        ),
        check=_check_snapshot, ask=_snapshots, waits="reading the snapshot ...", show=_print_snapshot,
    ),
)  # fmt: skip
