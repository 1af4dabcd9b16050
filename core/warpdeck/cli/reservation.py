"""warpdeck reservation create|rm: nodes that admins set aside at run time. `warpdeck reservations` shows all."""

from __future__ import annotations

import argparse
import time

from warpdeck.api.sync import SyncClient
from warpdeck.errors import UserError
from warpdeck.notation.hostlist import expand
from warpdeck.notation.moments import parse_moment
from warpdeck.notation.times import parse_limit

from .arguments import Arguments, run_sub_verb
from .output import print_json


def main(_: str, words: list[str]) -> int:
    """Runs the sub-verb."""
    return run_sub_verb(_parser(), words)


def _parser() -> Arguments:
    parser = Arguments(
        "warpdeck reservation",
        description="Only those whom a reservation is for can use its nodes, with --reservation. Jobs that run there are left alone.",
        examples=(
            "warpdeck reservation create class --nodes gpu[01-04] --start 2026-03-02T09:00 --duration 3:00:00 --accounts teaching",
            "warpdeck reservation create class --nodes gpu01 --start 2026-03-02T09:00 --duration 2:00:00 --users ann --flags WEEKLY",
            "warpdeck reservation create cooling --nodes ALL --start now+2hours --duration 1-0 --maintenance",
            "warpdeck reservation rm class",
            "warpdeck reservations",
        ),
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    create = verbs.add_parser("create", help="set nodes aside")
    create.add_argument("name", metavar="NAME")
    create.add_argument("--nodes", required=True, metavar="LIST", help="nodes, or ALL")
    create.add_argument("--start", default="now", metavar="TIME", help="as --begin; default: now")
    create.add_argument(
        "--duration", default="UNLIMITED", metavar="TIME", help="as --time; default: until it is removed"
    )
    create.add_argument("--users", default="", metavar="NAME,...")
    create.add_argument("--accounts", default="", metavar="NAME,...")
    create.add_argument("--maintenance", action="store_true", help="for nobody at all")
    create.add_argument(
        "--flags",
        default="",
        metavar="FLAG,...",
        help=f"Slurm's: {', '.join(FLAGS)}; others are refused by name",
    )
    create.set_defaults(run=_create)
    remove = verbs.add_parser("rm", help="give the nodes back to everybody")
    remove.add_argument("name", metavar="NAME")
    remove.set_defaults(run=_remove)
    for each in (create, remove):
        each.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _create(client: SyncClient, args: argparse.Namespace) -> int:
    flags = _flags(args.flags)
    start = parse_moment(args.start, time.time())
    duration_s = parse_limit(args.duration)
    nodes = None if args.nodes.upper() == "ALL" else list(dict.fromkeys(expand(args.nodes)))
    if nodes == []:
        raise UserError("--nodes names no node", "write names such as gpu[01-04], or ALL")
    made = {
        "name": args.name,
        "nodes": nodes,
        "start_unix": start,
        "end_unix": None if duration_s is None else start + duration_s,
        "users": _names(args.users),
        "accounts": _names(args.accounts),
        "maintenance": args.maintenance or "MAINT" in flags,
        "repeat": next((FLAGS[flag] for flag in flags if FLAGS[flag]), ""),
    }
    client.call("reservation_make", reservation=made)
    if args.json:
        print_json(made)
    else:
        print(f"reserved {args.nodes}: {args.name}")
    return 0


def _remove(client: SyncClient, args: argparse.Namespace) -> int:
    client.call("reservation_rm", name=args.name)
    if args.json:
        print_json({"removed": args.name})
    else:
        print(f"removed reservation {args.name}")
    return 0


FLAGS = {
    "MAINT": "",
    "IGNORE_JOBS": "",
    "HOURLY": "hourly",
    "DAILY": "daily",
    "WEEKDAY": "weekday",
    "WEEKEND": "weekend",
    "WEEKLY": "weekly",
}
"""Flag -> how the reservation comes again. IGNORE_JOBS is how it always is: jobs that run there are left alone."""


def _flags(text: str) -> list[str]:
    flags = [flag.upper() for flag in _names(text)]
    unknown = next((flag for flag in flags if flag not in FLAGS), "")
    if unknown:
        raise UserError(f"reservations have no flag {unknown} here", f"there are: {', '.join(FLAGS)}")
    if sum(bool(FLAGS[flag]) for flag in flags) > 1:
        raise UserError("a reservation comes again in one way only", f"take one of {', '.join(flags)}")
    return flags


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]
