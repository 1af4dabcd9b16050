"""`warpdeck reservations`, and `warpdeck reservation create|rm`: reservations that administrators make at run time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from warpdeck.base.output import format_time, print_note
from warpdeck.cli.arguments import ACCOUNTS, JSON, NO_HEADER, NODES, RESERVATIONS, USERS, Argument
from warpdeck.cli.shared.row_tables import print_rows
from warpdeck.cli.verb import Verb, request
from warpdeck.notation.filters.reservation_flags import FLAGS
from warpdeck.notation.filters.reservations import (
    ReservationText,
    parse_reservation,
    parts_in_words,
    users_in_words,
)
from warpdeck.notation.values.durations import format_duration

from .policy import settings_hint

if TYPE_CHECKING:
    from argparse import Namespace

    from warpdeck.cli.shared.row_tables import Columns
    from warpdeck.client.blocking_client import SyncClient


def _print_reservations(answer: dict[str, Any], args: Namespace) -> None:
    rows = answer["reservations"]
    if not rows:
        print_note(f"no reservations. {settings_hint('[reservations.NAME] tables')}")
        return
    print_rows(rows, COLUMNS, titles=not args.noheader)


def _duration(row: dict[str, Any]) -> str:
    both = row["start"] is not None and row["end"] is not None
    return f"{format_duration(row['end'] - row['start'] if both else None)} {row['repeat']}".strip()


COLUMNS: Columns = {
    "RESERVATION": lambda row: row["name"],
    "STATE": lambda row: row["state"],
    "START": lambda row: format_time(row["start"]) or "always",
    "END": lambda row: format_time(row["end"]) or "never",
    "DURATION": _duration,
    "NODELIST": lambda row: parts_in_words(row["parts"]) or row["node_list"],
    "FOR": users_in_words,
}


def _create(client: SyncClient, args: Namespace) -> dict[str, Any]:
    flags = ",".join(filter(None, [args.flags, "MAINT" if args.maintenance else ""]))
    times = (args.start, args.duration)
    wish = ReservationText(
        args.name, args.nodes, *times, args.users, args.accounts, flags, args.tres, args.licenses
    )
    rows = client.call("reservations")["reservations"] if args.instead else []
    made = parse_reservation(
        wish, time.time(), before=next((row for row in rows if row["name"] == args.name), None)
    )
    client.create("reservation_make", reservation=made, instead=args.instead)
    return made


def _remove(client: SyncClient, args: Namespace) -> dict[str, str]:
    client.call("reservation_rm", name=args.name)
    return {"removed": args.name}


def _print_created(_: object, args: Namespace) -> None:
    resources = " on ".join(filter(None, [args.tres or args.licenses, args.nodes]))
    print(f"created reservation {args.name}: {resources}")


SUBVERBS = (
    Verb(
        "create", summary="create a reservation",
        arguments=(
            Argument("NAME", "name of the reservation"),
            Argument("--nodes LIST", "nodes, such as gpu[01-04], or ALL; optional with --tres", completes=NODES),
            Argument("--tres TRES", "reserve only part of the nodes, such as cpu=16,gres/gpu=2"),
            Argument("--licenses NAME:COUNT,...", "reserve licenses; add --flags ANY_NODES to reserve no nodes"),
            Argument("--start TIME", "start time, in the format of --begin; default: now", default="now"),
            Argument("--duration TIME", "duration, in the format of --time; default: until removed", default="UNLIMITED"),
            Argument("--users NAME,...", "users who may use it", completes=USERS),
            Argument("--accounts NAME,...", "accounts whose users may use it", completes=ACCOUNTS),
            Argument("--maintenance", "reserve for maintenance; the reservation may overlap others"),
            Argument("--flags FLAG,...", f"Slurm flags: {', '.join(FLAGS)}"),
            Argument("--instead", "replace the existing reservation; omitted options keep their values"),
            JSON,
        ),
        examples=(
            "warpdeck reservation create class --nodes gpu[01-04] --start 2026-03-02T09:00 --duration 3:00:00 --users ann",
        ),
        reads=False, ask=_create, show=_print_created,
    ),
    Verb(
        "rm", summary="remove a reservation",
        arguments=(Argument("NAME", "name of the reservation", completes=RESERVATIONS), JSON),
        examples=("warpdeck reservation rm class",),
        reads=False, ask=_remove, show=lambda _, args: print(f"removed reservation {args.name}"),
    ),
)  # fmt: skip
VERBS = (
    Verb(
        "reservations", """\
List reservations with their times, nodes and users. A recurring reservation is shown with its current or next
occurrence. The scheduler considers all occurrences, but estimates no start on its nodes after the 64th.""",
        (NO_HEADER, JSON),
        examples=("warpdeck reservations", "warpdeck reservations --json"),
        ask=request("reservations"), show=_print_reservations,
    ),
    Verb(
        "reservation",
        "Create and remove reservations. Only the users and accounts of a reservation can use its nodes, by\n"
        "submitting with --reservation. Jobs that already run on the nodes are not stopped.",
        examples=(
            "warpdeck reservation create class --nodes gpu[01-04] --start 2026-03-02T09:00 --duration 3:00:00 --accounts teaching",
            "warpdeck reservation create class --nodes gpu01 --start 2026-03-02T09:00 --duration 2:00:00 --users ann --flags WEEKLY",
            "warpdeck reservation create cooling --nodes ALL --start now+2hours --duration 1-0 --maintenance",
            "warpdeck reservation create demo --nodes gpu01 --tres gres/gpu=2 --users ann --duration 2:00:00",
            "warpdeck reservation create class --nodes gpu[01-08] --accounts teaching --instead",
            "warpdeck reservation rm class",
            "warpdeck reservations",
        ),
        subverbs=SUBVERBS,
    ),
)  # fmt: skip
