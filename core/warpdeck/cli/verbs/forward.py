"""`warpdeck forward`: make a port of a job's node available on this machine's loopback."""

from __future__ import annotations

import argparse
import os
import time

from warpdeck.base.errors import UserError
from warpdeck.base.output import format_time, print_json, print_note, print_table
from warpdeck.base.paths import default_paths
from warpdeck.cli.shared.arguments import USAGE_EXIT, Arguments
from warpdeck.cli.shared.background import go_on_behind
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.forwarding import LOOPBACK, Forwarding

DESCRIPTION = """Forward a loopback port of a job's node to a loopback port of this machine, over warpdeck's connection, until the
job ends. Only your own connections are accepted. LOCAL defaults to the same port, or to another one if it is in use."""
EXAMPLES = (
    "warpdeck forward 12 8888          open http://127.0.0.1:8888 to reach port 8888 of the job",
    "warpdeck forward 12 6006:16006    use port 16006 on this machine",
    "warpdeck forward 12 6006 --detach in the background",
    "warpdeck forward --list           list active forwards",
    "warpdeck forward --end 3",
)


def main(_: str, words: list[str]) -> int:
    """Create, list or end forwards."""
    args = _parser().parse_args(words)
    if args.list:
        return _list(as_json=args.json)
    if args.end is not None:
        with SyncClient.connect(default_paths()) as client:
            client.call("forward_end", number=args.end)
        return 0
    if not args.job or not args.ports:
        raise UserError(
            "a job and a port are required", "usage: warpdeck forward 12 8888", exit_code=USAGE_EXIT
        )
    return _forward(args)


def _parser() -> Arguments:
    parser = Arguments("warpdeck forward", description=DESCRIPTION, examples=EXAMPLES)
    parser.add_argument("job", nargs="?", metavar="JOB", help="12, or 12_3 for a task of an array")
    parser.add_argument(
        "ports", nargs="?", metavar="PORT[:LOCAL]", help="port of the job, and port on this machine"
    )
    parser.add_argument("--node", default="", help="node to use, if the job has several")
    parser.add_argument("--detach", action="store_true", help="keep forwarding in the background")
    parser.add_argument("--list", action="store_true", help="list active forwards")
    parser.add_argument("--end", type=int, metavar="NUMBER", help="end a forward, by its number in --list")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _forward(args: argparse.Namespace) -> int:
    port, local_port = parse_ports(args.ports)
    paths = default_paths()
    with SyncClient.connect(paths) as client:
        forwarding = Forwarding(
            paths, args.job, port=port, local_port=local_port, node=args.node, say=print_note
        )
        forwarding.register(client)
        if args.json:
            print_json({"job": args.job, "port": port, "local_port": forwarding.local_port})
        else:
            print(f"{LOOPBACK}:{forwarding.local_port} forwards to port {port} of job {args.job}", flush=True)
        if args.detach and not go_on_behind():
            return 0
        try:
            why = forwarding.run(client)
        finally:
            if args.detach:
                os._exit(0)
    print_note(why or f"job {args.job} has ended")
    return 0


def parse_ports(text: str) -> tuple[int, int | None]:
    """Return the job's port and the local port (or None) of PORT[:LOCAL]. Raises UserError."""
    port, colon, local_port = text.partition(":")
    numbers = [port, local_port] if colon else [port]
    lowest = (1, 0)
    for number, least in zip(numbers, lowest, strict=False):
        if not (number.isascii() and number.isdigit() and least <= int(number) <= 65535):
            raise UserError(
                f"{text!r} is not a port",
                "use PORT or PORT:LOCAL, as in 8888 or 8888:18888",
                exit_code=USAGE_EXIT,
            )
    return int(port), int(local_port) if colon else None


def _list(*, as_json: bool) -> int:
    with SyncClient.connect(default_paths()) as client:
        found = client.call("forwards")["forwards"]
    if as_json:
        print_json(found)
        return 0
    rows = [
        [
            str(row["number"]),
            row["job"],
            row["user"],
            f"{row['node']}:{row['port']}",
            f"{row['host']}:{row['local_port']}",
            str(row["connections"]),
            format_time(row["since"] or time.time()),
            row["purpose"],
        ]
        for row in found
    ]
    if rows:
        print_table(["NUMBER", "JOB", "USER", "FROM", "TO", "OPEN", "SINCE", "PURPOSE"], rows)
    return 0
