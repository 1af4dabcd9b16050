"""`warpdeck forward`: make a port of a job's node available on this machine's loopback."""

from __future__ import annotations

import os
import time

from warpdeck.base.output import format_time, print_json, print_note
from warpdeck.base.paths import default_paths
from warpdeck.cli.arguments import JOB_NODE, JSON, TASK_HELP, Argument, InvalidValue, UsageError, port
from warpdeck.cli.shared.background import continue_in_background
from warpdeck.cli.shared.row_tables import print_rows
from warpdeck.cli.verb import Verb
from warpdeck.client.forwarding import LOOPBACK, Forwarding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from warpdeck.cli.shared.row_tables import Columns
    from warpdeck.client.blocking_client import SyncClient


def _check(args: Namespace) -> None:
    if not (args.list or args.end is not None or (args.job and args.ports)):
        raise UsageError("a job and a port are required", "usage: warpdeck forward 12 8888")


def _run(client: SyncClient, args: Namespace) -> int:
    """Create, list or end forwards."""
    if args.list:
        return _list(client, as_json=args.json)
    if args.end is not None:
        client.call("forward_end", number=args.end)
        return 0
    return _forward(client, args)


def _forward(client: SyncClient, args: Namespace) -> int:
    remote, local = args.ports
    forwarding = Forwarding(
        default_paths(), args.job, port=remote, local_port=local, node=args.node, say=print_note
    )
    forwarding.register(client)
    if args.json:
        print_json({"job": args.job, "port": remote, "local_port": forwarding.local_port})
    else:
        print(f"{LOOPBACK}:{forwarding.local_port} forwards to port {remote} of job {args.job}", flush=True)
    if args.detach and not continue_in_background():
        return 0
    try:
        why = forwarding.run(client)
    finally:
        if args.detach:
            os._exit(0)
    print_note(why or f"job {args.job} has ended")
    return 0


def _ports(text: str) -> tuple[int, int | None]:
    """Return the job's port and the local port (or None) of PORT[:LOCAL]. 0 stands for any free local port."""
    remote, colon, local = text.partition(":")
    try:
        return port(remote), (0 if local == "0" else port(local)) if colon else None
    except InvalidValue:
        words = f"{text!r} is not a port; use PORT or PORT:LOCAL, as in 8888 or 8888:18888"
        raise InvalidValue(words) from None


def _list(client: SyncClient, *, as_json: bool) -> int:
    found = client.call("forwards")["forwards"]
    if as_json:
        print_json(found)
        return 0
    if found:
        print_rows(found, COLUMNS)
    else:
        print_note("no active forwards")
    return 0


COLUMNS: Columns = {
    "NUMBER": lambda row: row["number"],
    "JOB": lambda row: row["job"],
    "USER": lambda row: row["user"],
    "FROM": lambda row: f"{row['node']}:{row['port']}",
    "TO": lambda row: f"{row['host']}:{row['local_port']}",
    "OPEN": lambda row: row["connections"],
    "SINCE": lambda row: format_time(row["since"] or time.time()),
    "PURPOSE": lambda row: row["purpose"],
}


VERBS = (
    Verb(
        "forward", """\
Forward a loopback port of a job's node to a loopback port of this machine, over warpdeck's connection, until the
job ends. Only your own connections are accepted. LOCAL defaults to the same port, or to another one if it is in use.""",
        (
            Argument("[JOB]", TASK_HELP),
            Argument("[PORT[:LOCAL]]", "port of the job's node, and port on this machine", into="ports", parse=_ports),
            JOB_NODE,
            Argument("--detach", "keep forwarding in the background"),
            Argument("--list", "list active forwards"),
            Argument("--end NUMBER", "end a forward, by its number in --list", parse=int),
            JSON,
        ),
        examples=(
            "warpdeck forward 12 8888            open http://127.0.0.1:8888 to reach port 8888 of the job",
            "warpdeck forward 12 6006:16006      use port 16006 on this machine",
            "warpdeck forward 12 6006 --detach   keep forwarding in the background",
            "warpdeck forward --list             list active forwards",
            "warpdeck forward --end 3            end the forward with number 3",
        ),
        check=_check, ask=_run,
    ),
)  # fmt: skip
