"""`warpdeck reservation create|rm`: reservations that administrators make at run time. `warpdeck
reservations` lists all.
"""

from __future__ import annotations

import argparse
import time

from warpdeck.base.output import print_json
from warpdeck.cli.shared.arguments import Arguments, run_sub_verb
from warpdeck.client.blocking_client import SyncClient
from warpdeck.notation.filters.reservation_flags import FLAGS
from warpdeck.notation.filters.reservations import ReservationText, parse_reservation


def main(_: str, words: list[str]) -> int:
    """Run the sub-verb."""
    return run_sub_verb(_parser(), words)


def _parser() -> Arguments:
    parser = Arguments(
        "warpdeck reservation",
        description="Create and remove reservations. Only the users and accounts of a reservation can use its nodes, by submitting "
        "with --reservation. Jobs that already run on the nodes are not stopped.",
        examples=(
            "warpdeck reservation create class --nodes gpu[01-04] --start 2026-03-02T09:00 --duration 3:00:00 --accounts teaching",
            "warpdeck reservation create class --nodes gpu01 --start 2026-03-02T09:00 --duration 2:00:00 --users ann --flags WEEKLY",
            "warpdeck reservation create cooling --nodes ALL --start now+2hours --duration 1-0 --maintenance",
            "warpdeck reservation create demo --nodes gpu01 --tres gres/gpu=2 --users ann --duration 2:00:00",
            "warpdeck reservation create class --nodes gpu[01-08] --accounts teaching --instead",
            "warpdeck reservation rm class",
            "warpdeck reservations",
        ),
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    create = verbs.add_parser("create", help="create a reservation")
    _describe_create(create)
    remove = verbs.add_parser("rm", help="remove a reservation")
    remove.add_argument("name", metavar="NAME")
    remove.set_defaults(run=_remove)
    for each in (create, remove):
        each.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _describe_create(create: argparse.ArgumentParser) -> None:
    create.add_argument("name", metavar="NAME")
    create.add_argument("--nodes", default="", metavar="LIST", help="nodes, or ALL; optional with --tres")
    create.add_argument(
        "--tres", default="", metavar="TRES", help="reserve part of the nodes: cpu=16,gres/gpu=2"
    )
    create.add_argument(
        "--licenses",
        default="",
        metavar="NAME:COUNT,...",
        help="licenses; for licenses without nodes add --flags ANY_NODES",
    )
    create.add_argument(
        "--start", default="now", metavar="TIME", help="start time, in the format of --begin; default: now"
    )
    create.add_argument(
        "--duration",
        default="UNLIMITED",
        metavar="TIME",
        help="duration, in the format of --time; default: until removed",
    )
    create.add_argument("--users", default="", metavar="NAME,...")
    create.add_argument("--accounts", default="", metavar="NAME,...")
    create.add_argument(
        "--maintenance",
        action="store_true",
        help="maintenance: only named users and accounts; may overlap with other reservations",
    )
    create.add_argument(
        "--flags",
        default="",
        metavar="FLAG,...",
        help=f"Slurm flags: {', '.join(FLAGS)}",
    )
    create.add_argument(
        "--instead",
        action="store_true",
        help="replace the existing reservation; omitted options keep their values",
    )
    create.set_defaults(run=_create)


def _create(client: SyncClient, args: argparse.Namespace) -> int:
    flags = ",".join(filter(None, [args.flags, "MAINT" if args.maintenance else ""]))
    wish = ReservationText(
        args.name,
        args.nodes,
        args.start,
        args.duration,
        args.users,
        args.accounts,
        flags,
        args.tres,
        args.licenses,
    )
    rows = client.call("reservations")["reservations"] if args.instead else []
    made = parse_reservation(
        wish, time.time(), before=next((row for row in rows if row["name"] == args.name), None)
    )
    client.create("reservation_make", reservation=made, instead=args.instead)
    if args.json:
        print_json(made)
    else:
        print(
            f"created reservation {args.name}: {' on '.join(filter(None, [args.tres or args.licenses, args.nodes]))}"
        )
    return 0


def _remove(client: SyncClient, args: argparse.Namespace) -> int:
    client.call("reservation_rm", name=args.name)
    if args.json:
        print_json({"removed": args.name})
    else:
        print(f"removed reservation {args.name}")
    return 0
