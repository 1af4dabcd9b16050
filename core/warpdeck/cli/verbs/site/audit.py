"""`warpdeck audit`: the log of changes and of refused requests."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from warpdeck.base.errors import UserError
from warpdeck.base.output import clean, format_time, print_json, print_note, print_table
from warpdeck.cli.arguments import JSON, NO_HEADER, USERS, Argument, InvalidValue, number
from warpdeck.cli.verb import Verb, connected
from warpdeck.notation.values.lists import words_of
from warpdeck.notation.values.time_points import parse_past

if TYPE_CHECKING:
    from argparse import Namespace

    from warpdeck.client.blocking_client import SyncClient

FOLLOW_S = 1.0
"""Seconds between two requests of --follow."""
MAX_FOLLOWED = 1000
"""Maximum number of entries that one request of --follow returns."""
TITLES = ["TIME", "USER", "REQUEST", "OUTCOME", "OBJECT", "FROM", "DETAILS"]
WIDTH = 60
"""Maximum number of characters of the details in the table. --json has all of them."""


def _time(text: str) -> float:
    """Parse a time such as 2026-03-02T09:00, or now-1hour."""
    try:
        return parse_past(text, time.time())
    except UserError as error:
        raise InvalidValue(f"{text!r} is not a time, such as 2026-03-02T09:00 or now-1hour") from error


def _run(args: Namespace) -> int:
    with connected() as client:
        answer = client.call("audit", **_filters(args), limit=args.limit)
        entries = answer["entries"]
        if args.json and not args.follow:
            print_json(answer)
        else:
            _print(entries, args, titles=not args.noheader)
        if answer["problem"] and not args.json:
            print_note(f"audit log: {answer['problem']}")
        while args.follow:
            last = entries[-1]["number"] if entries else _newest(client, args)
            entries = _later(client, args, last)
    return 0


def _filters(args: Namespace) -> dict[str, Any]:
    outcomes = ["refused"] if args.refused else []
    return {
        "own": args.me,
        "users": words_of(args.user),
        "requests": words_of(args.request),
        "objects": words_of(args.object),
        "outcomes": outcomes,
        "since": args.since,
        "until": args.until,
    }


def _newest(client: SyncClient, args: Namespace) -> int:
    """Return the number of the newest entry of any kind, or 0."""
    entries = client.call("audit", own=args.me, limit=1)["entries"]
    return int(entries[-1]["number"]) if entries else 0


def _later(client: SyncClient, args: Namespace, last: int) -> list[dict[str, Any]]:
    """Wait for entries after the one with number `last`, print them, and return them."""
    while True:
        time.sleep(FOLLOW_S)
        found: list[dict[str, Any]] = client.call("audit", **_filters(args), after=last, limit=MAX_FOLLOWED)[
            "entries"
        ]
        if found:
            _print(found, args, titles=False)
            return found


def _print(entries: list[dict[str, Any]], args: Namespace, *, titles: bool) -> None:
    if args.json:
        for entry in entries:
            print(json.dumps(entry), flush=True)
        return
    rows = [[clean(cell) for cell in _cells(entry)] for entry in entries]
    if args.follow and not titles:
        for row in rows:
            print("  ".join(row).rstrip(), flush=True)
    elif rows or not args.follow:
        print_table(TITLES if titles else [], rows)


def _cells(entry: dict[str, Any]) -> list[str]:
    parts = [f"{name}={_value(value)}" for name, value in entry.get("details", {}).items()]
    if entry.get("reason"):
        parts.insert(0, entry["reason"])
    if entry.get("omitted"):
        parts.insert(0, f"({entry['omitted']} refused requests before have no entry)")
    text = " ".join(parts)
    return [
        format_time(entry["at"]),
        entry["user"],
        entry["request"],
        entry["outcome"],
        ",".join(entry.get("objects", [])) or "-",
        entry.get("origin", "") or "-",
        text if len(text) <= WIDTH else text[: WIDTH - 3] + "...",
    ]


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


VERBS = (
    Verb(
        "audit",
        "Show who asked for which change, when, from where, and with which outcome. The log contains every request\n"
        "that changed something, and every request that was refused. Administrators see the entries of all users.\n"
        "Other users see their own entries with --me.",
        (
            Argument("--me", "only my own requests"),
            Argument("-u, --user USER,...", "only requests of these users (names or uids)", completes=USERS),
            Argument("--request NAME,...", "only these requests, such as cancel,node_drain,amend,reload"),
            Argument("--object NAME,...", "only requests about these objects: a job, a node, or a table such as accounts.lab"),
            Argument("--refused", "only refused requests"),
            Argument("--since TIME", "only requests after this time, in the format of --begin", parse=_time, default=0.0),
            Argument("--until TIME", "only requests before this time", parse=_time, default=None),
            Argument("-n, --limit N", "show the newest N entries; default: 100", parse=number(most=10_000), default=100),
            Argument("-f, --follow", "print new entries as they are written; with --json one object on each line"),
            NO_HEADER,
            JSON,
        ),
        examples=(
            "warpdeck audit --since now-1hour",
            "warpdeck audit --refused --user ann",
            "warpdeck audit --object gpu01            who drained or removed this node",
            "warpdeck audit --request amend,reload    changes of the configuration",
            "warpdeck audit --me --json",
        ),
        notes=(
            "Outcomes: done, refused (the user had no right to it), failed (for another reason), and uncertain (the client left\n"
            "before the answer). Each entry has a number. A missing number is an entry that was lost."
        ),
        run=_run,
    ),
)  # fmt: skip
