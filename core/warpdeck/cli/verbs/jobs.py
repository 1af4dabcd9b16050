"""`warpdeck show|why|logs`: information about one job."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.base.output import clean, format_count, format_time, print_json, print_note
from warpdeck.base.paths import default_paths
from warpdeck.cli.shared.arguments import Arguments
from warpdeck.cli.shared.forecast import ahead_in_words, print_forecast
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.terminal import write_all
from warpdeck.notation.values.durations import format_duration
from warpdeck.protocol.usage_text import used_in_words

from .nodes import isolated
from .queue import where

EXAMPLES = {
    "show": ("warpdeck show 12", "warpdeck show 12_3 --json"),
    "why": ("warpdeck why 12", "warpdeck why 12 --json"),
    "logs": ("warpdeck logs 12", "warpdeck logs -f 12_3", "warpdeck logs --stderr --tail 2000 12"),
}


def main(verb: str, words: list[str]) -> int:
    """Run one of the verbs."""
    args = _parser(verb).parse_args(words)
    with SyncClient.connect(default_paths()) as client:
        return _RUN[verb](client, args)


def _parser(verb: str) -> Arguments:
    parser = Arguments(f"warpdeck {verb}", description=_RUN[verb].__doc__, examples=EXAMPLES[verb])
    parser.add_argument("job", metavar="JOB", help="12, or 12_3 for a task of an array")
    if verb == "show":
        parser.add_argument(
            "--environment",
            action="store_true",
            help="print only the environment variables of the submission (your own jobs)",
        )
    if verb == "logs":
        parser.add_argument(
            "-f",
            "--follow",
            action="store_true",
            help="wait until the job starts and print output until it ends",
        )
        parser.add_argument(
            "-e", "--stderr", action="store_true", help="print standard error, if it has its own file"
        )
        parser.add_argument("--tail", type=int, metavar="BYTES", help="print only the last BYTES bytes")
        parser.add_argument("--node", default="", help="node to use, if the job has several")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _print_environment(variables: dict[str, str], *, as_json: bool) -> int:
    if as_json:
        print_json(variables)
    for name in [] if as_json else sorted(variables):
        line = f"{name}={variables[name]}"
        print(clean(line) if sys.stdout.isatty() else line)
    return 0


def _show(client: SyncClient, args: argparse.Namespace) -> int:
    """Show the details of a job."""
    if args.environment:
        return _print_environment(
            client.call("job_environment", job=args.job)["variables"], as_json=args.json
        )
    detail = client.call("job", job=args.job)
    if args.json:
        print_json(detail)
        return 0
    row = detail["row"]
    found: dict[str, Any] = {"ahead": 0, "changes": []}
    if row["state"] == "PENDING":
        found = client.call("forecast", job=args.job)
    facts = [
        ("job", f"{row['label']}  {row['name']}"),
        ("user", row["user"]),
        ("state", row["state"] + (f" (start {row['restarts'] + 1})" if row["restarts"] else "")),
        ("why", where(row, time.time()) if row.get("why") else ""),
        ("ahead", ahead_in_words(found)),
        ("would help", "; ".join(found["changes"])),
        ("priority", format_count(row["priority"])),
        ("account", f"{row['account'] or 'none'}, partition {row['partition']}, QoS {row['qos']}"),
        ("exit", f"{row['exit_code']} {row['exit_cause']} {detail['message']}".strip()),
        ("warning", detail["notice"]),
        ("requested", _asked(row)),
        ("run time", _likely(detail)),
        ("submitted", format_time(row["submit"])),
        ("started", format_time(row["start"])),
        ("idle since", format_time(row["idle_since"])),
        ("ended", format_time(row["end"])),
        ("nodes", row["node_list"]),
        ("GPUs", ", ".join(_gpu(gpu) for gpu in detail["gpus"])),
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
    return 0


def _step(step: dict[str, Any]) -> str:
    """Return a step's line, such as "12.0  python  COMPLETED 0:0, 4 tasks on gpu[1-2], 12.5 s of CPU"."""
    tasks = f"{step['tasks']} task{'s' * (step['tasks'] != 1)} on {step['node_list']}"
    used = "".join(f", {words}" for words in used_in_words(**step["used"])) if step["used"] else ""
    why = f": {step['message']}" if step["message"] else ""
    return (
        f"{step['id']}  {step['name']}  {step['state']} {step['exit_code']}".rstrip()
        + f", {tasks}{used}{why}"
    )


def _asked(row: dict[str, Any]) -> str:
    limit = "none" if row["time_limit_s"] is None else format_duration(row["time_limit_s"])
    counts = ((row["nodes"], "node"), (row["cpus"], "CPU"), (row["gpus"], "GPU"))
    return ", ".join(f"{n} {what}{'s' * (n != 1)}" for n, what in counts) + f", time limit {limit}"


def _likely(detail: dict[str, Any]) -> str:
    if detail["predicted_s"] is None:
        return ""
    said = f"{format_duration(round(detail['predicted_s']))} (predicted from the user's previous jobs)"
    error_s = detail["prediction_error_s"]
    if error_s is None:
        return said
    return f"{said}, {format_duration(round(abs(error_s)))} too {'long' if error_s > 0 else 'short'}"


def _gpu(gpu: dict[str, Any]) -> str:
    util = "" if gpu["util_pct"] is None else f" {gpu['util_pct']}%"
    part = f" ({gpu['share_pct']} % of it, {isolated(gpu['isolation'])})" if gpu["share_pct"] < 100 else ""
    return f"{gpu['node']}:{gpu['index']}{util}{part}"


def _code(detail: dict[str, Any]) -> str:
    snapshot = detail.get("snapshot")
    if not snapshot:
        return "snapshot in progress" if detail.get("recording") else "no snapshot"
    head = snapshot["head"][:12]
    changed = " with uncommitted changes" if snapshot["dirty"] else ""
    return f"tree {snapshot['tree'][:12]}" + (f", commit {head}{changed}" if head else "")


def _why(client: SyncClient, args: argparse.Namespace) -> int:
    """Show why a job waits, which jobs are ahead of it, when it is expected to start, and which changes would start it now."""
    found = client.call("forecast", job=args.job)
    if args.json:
        print_json(found)
        return 0
    if not found["verdict"]:
        reason = f"{found['code']}: {found['sentence']}"
        state = f"job {found['job']} is not waiting: {found['state']}"
        print(clean(reason) if found["code"] else "; ".join(filter(None, (state, clean(found["sentence"])))))
        return 0
    print_forecast(found, now=time.time())
    return 0


def _logs(client: SyncClient, args: argparse.Namespace) -> int:
    """Print a job's output."""
    offset = 0 if args.tail is None else -max(1, args.tail)
    fields = {"job": args.job, "channel": "err" if args.stderr else "out", "offset": offset}
    text = bytearray()
    opened: dict[str, Any] = {}
    for word, value in client.stream("log", follow=args.follow, node=args.node, **fields):
        if word == "progress":
            print_note(value)
        elif word == "ok":
            opened = value
        elif word == "data" and args.json:
            text += value
        elif word == "data":
            write_all(sys.stdout.fileno(), value)
        elif word == "end" and value["error"]:
            raise UserError(value["error"], f"check the path with `warpdeck show {args.job}`, then try again")
    if args.json:
        print_json({**opened, "text": text.decode("utf-8", "replace")})
    return 0


_RUN = {"show": _show, "why": _why, "logs": _logs}
