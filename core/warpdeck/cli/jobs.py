"""The verbs on jobs: queue, show, why, logs, cancel, hold, release, requeue."""

from __future__ import annotations

import argparse
import getpass
import sys
import time
from typing import Any

from warpdeck.api.sync import SyncClient
from warpdeck.api.terminal import write_all
from warpdeck.errors import UserError
from warpdeck.notation.memory import format_memory
from warpdeck.notation.times import format_duration
from warpdeck.paths import default_paths

from .output import note, print_json, print_table

EXAMPLES = {
    "queue": "warpdeck queue --me\n  warpdeck queue --all --json",
    "show": "warpdeck show 12\n  warpdeck show 12_3 --json",
    "why": "warpdeck why 12",
    "logs": "warpdeck logs -f 12\n  warpdeck logs --stderr --tail 2000 12_3",
    "cancel": "warpdeck cancel 12 13_4\n  warpdeck cancel --signal USR1 12",
    "hold": "warpdeck hold 12",
    "release": "warpdeck release 12",
    "requeue": "warpdeck requeue 12",
}


def main(verb: str, words: list[str]) -> int:
    """Runs one of the verbs."""
    args = _parser(verb).parse_args(words)
    client = SyncClient.connect(default_paths())
    try:
        return int(_RUN[verb](client, args, verb))
    finally:
        client.close()


def _parser(verb: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"warpdeck {verb}",
        description=_RUN[verb].__doc__,
        epilog=f"examples:\n  {EXAMPLES[verb]}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    if verb == "queue":
        parser.add_argument("--me", action="store_true", help="only my jobs")
        parser.add_argument("--all", action="store_true", help="ended jobs too")
        parser.add_argument("-n", "--limit", type=int, default=1000, help="at most so many jobs")
    elif verb in ("show", "why", "logs"):
        parser.add_argument("job", metavar="JOB", help="12, or 12_3 for a task of an array")
    else:
        parser.add_argument("jobs", metavar="JOB", nargs="+", help="12, or 12_3 for a task of an array")
    if verb == "cancel":
        parser.add_argument("-s", "--signal", default="", help="send this signal instead of ending the job")
    if verb == "logs":
        parser.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")
        parser.add_argument(
            "-e", "--stderr", action="store_true", help="standard error, where it has its own file"
        )
        parser.add_argument("--tail", type=int, metavar="BYTES", help="only the last so many bytes")
        parser.add_argument("--node", default="", help="of a job on several nodes: which")
    return parser


def _queue(client: SyncClient, args: argparse.Namespace, _: str) -> int:
    """Lists waiting and running jobs, with the reason of those that wait."""
    user = getpass.getuser() if args.me else None
    rows = client.call("jobs", user=user, finished=args.all, limit=max(1, args.limit))["jobs"]
    if args.json:
        print_json(rows)
        return 0
    now = time.time()
    head = ["JOBID", "NAME", "USER", "ST", "TIME", "NODES", "GPUS", "NODELIST(REASON)"]
    print_table(head, [_queue_line(row, now) for row in rows], right=frozenset({0, 4, 5, 6}))
    return 0


def _queue_line(row: dict[str, Any], now: float) -> list[str]:
    return [
        row["label"],
        row["name"],
        row["user"],
        row["state_short"],
        format_duration(elapsed(row, now)),
        str(row["nodes"]),
        str(row["gpus"]),
        where(row),
    ]


def elapsed(row: dict[str, Any], now: float) -> float:
    """Seconds a job has run."""
    return 0.0 if row["start"] is None else (row["end"] or now) - row["start"]


def where(row: dict[str, Any]) -> str:
    """Where a job runs, or why it does not."""
    why = row.get("why")
    if why:
        return f"({why['code']}) {why['sentence']}"
    return str(row["node_list"]) + (f" {row['exit_cause'] or row['exit_code']}" if row["end"] else "")


def _show(client: SyncClient, args: argparse.Namespace, _: str) -> int:
    """Shows everything about a job but its environment."""
    detail = client.call("job", job=args.job)
    if args.json:
        print_json(detail)
        return 0
    row = detail["row"]
    limit = "none" if row["time_limit_s"] is None else format_duration(row["time_limit_s"])
    facts = [
        ("job", f"{row['label']}  {row['name']}"),
        ("user", row["user"]),
        ("state", row["state"] + (f" (start {row['restarts'] + 1})" if row["restarts"] else "")),
        ("why", where(row) if row.get("why") else ""),
        ("exit", f"{row['exit_code']} {row['exit_cause']} {detail['message']}".strip()),
        ("asked", f"{row['nodes']} nodes, {row['cpus']} CPUs, {row['gpus']} GPUs, time limit {limit}"),
        ("submitted", _when(row["submit"])),
        ("started", _when(row["start"])),
        ("ended", _when(row["end"])),
        ("nodes", row["node_list"]),
        ("GPUs", ", ".join(_gpu(gpu) for gpu in detail["gpus"])),
        ("folder", detail["submit_dir"]),
        ("runs in", detail["work_dir"]),
        ("stdout", detail["stdout"]),
        ("stderr", detail["stderr"]),
        ("waits for", detail["dependency"]),
        ("code", _code(detail.get("snapshot"))),
        ("peak memory", format_memory(detail["peak_mem_bytes"]) if detail["peak_mem_bytes"] else ""),
        ("comment", row["comment"]),
    ]
    for name, value in facts:
        if value:
            print(f"{name:>12}  {value}")
    for event in detail["events"]:
        print(f"{_when(event['at']):>32}  {event['text']}")
    return 0


def _gpu(gpu: dict[str, Any]) -> str:
    util = "" if gpu["util_pct"] is None else f" {gpu['util_pct']}%"
    return f"{gpu['node']}:{gpu['index']}{util}"


def _code(snapshot: dict[str, Any] | None) -> str:
    if not snapshot:
        return "no snapshot"
    head = snapshot["head"][:12]
    changed = " with uncommitted changes" if snapshot["dirty"] else ""
    return f"tree {snapshot['tree'][:12]}" + (f", commit {head}{changed}" if head else "")


def _when(at: float | None) -> str:
    return "" if not at else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _why(client: SyncClient, args: argparse.Namespace, _: str) -> int:
    """Says why a job waits and when it should start."""
    row = client.call("job", job=args.job)["row"]
    if args.json:
        print_json(row["why"])
        return 0
    why = row["why"]
    if not why:
        print(f"job {row['label']} does not wait: {row['state']}")
        return 0
    print(f"{why['code']}: {why['sentence']}")
    if why["expected_start"]:
        print(f"expected start: {_when(why['expected_start'])}")
    return 0


def _logs(client: SyncClient, args: argparse.Namespace, _: str) -> int:
    """Prints a job's output."""
    offset = 0 if args.tail is None else -max(1, args.tail)
    fields = {"job": args.job, "channel": "err" if args.stderr else "out", "offset": offset}
    text = bytearray()
    opened: dict[str, Any] = {}
    for word, value in client.stream("log", follow=args.follow, node=args.node, **fields):
        if word == "progress":
            note(value)
        elif word == "ok":
            opened = value
        elif word == "data" and args.json:
            text += value
        elif word == "data":
            write_all(sys.stdout.fileno(), value)
        elif word == "end" and value["error"]:
            raise UserError(value["error"], "try again")
    if args.json:
        print_json({**opened, "text": text.decode("utf-8", "replace")})
    return 0


def _change(client: SyncClient, args: argparse.Namespace, verb: str) -> int:
    """Ends, holds, releases or requeues the jobs named; an array's id stands for all its tasks."""
    fields = {"signal": args.signal} if verb == "cancel" else {}
    answer = client.call(verb, jobs=args.jobs, **fields)
    if args.json:
        print_json(answer)
    for error in answer["errors"]:
        note(f"warpdeck: {error}")
    return 1 if answer["errors"] else 0


_RUN = {
    "queue": _queue,
    "show": _show,
    "why": _why,
    "logs": _logs,
    "cancel": _change,
    "hold": _change,
    "release": _change,
    "requeue": _change,
}
