"""`warpdeck proxy`: connect an ssh client with a server inside a job. It is made for ssh's ProxyCommand."""

from __future__ import annotations

import argparse
import sys

from warpdeck.base.errors import UserError
from warpdeck.base.output import print_json, print_note
from warpdeck.base.paths import Paths, default_paths
from warpdeck.cli.shared.arguments import USAGE_EXIT, Arguments
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.in_job import ssh_client, ssh_server
from warpdeck.client.tunnel import Relay, open_tunnel

DESCRIPTION = """Connect standard input and output to an SSH server in a job, for ssh's ProxyCommand. The session runs on the job's
node as the job's user, with the job's GPUs, limits and environment, and ends with the job. Run --install once, then use

  ssh wd-12        scp model.pt wd-12:        sftp wd-12        ssh wd-12.gpu02 (one of its nodes)

VS Code Remote-SSH and PyCharm connect to the host wd-12."""
EXAMPLES = (
    "warpdeck proxy --install          include the configuration in ~/.ssh/config",
    "warpdeck proxy --config           print the configuration instead",
    "warpdeck proxy --config --via ann@login    print it for your laptop, which connects through this machine",
    "ssh -o ProxyCommand='warpdeck proxy %h' wd-12",
)


def main(_: str, words: list[str]) -> int:
    """Relay, or print or install the configuration."""
    args = _parser().parse_args(words)
    paths = default_paths()
    if args.install:
        ours = ssh_client.install(paths)
        print(f"~/.ssh/config now includes {ours}; connect with `ssh wd-JOB`")
        return 0
    if args.config:
        return _print_config(paths, args)
    if not args.job:
        raise UserError("no job given", "usage: warpdeck proxy wd-12", exit_code=USAGE_EXIT)
    return _relay(paths, args)


def _parser() -> Arguments:
    parser = Arguments("warpdeck proxy", description=DESCRIPTION, examples=EXAMPLES)
    parser.add_argument(
        "job", nargs="?", metavar="JOB", help="12, wd-12, or wd-12.gpu02 for one of its nodes"
    )
    parser.add_argument(
        "--user", default="", help="user name that ssh logs in with (%%r), to detect a wrong user early"
    )
    parser.add_argument("--config", action="store_true", help="print the block for ~/.ssh/config")
    parser.add_argument(
        "--via",
        default="",
        metavar="HOST",
        help="with --config: for a machine that connects through this HOST",
    )
    parser.add_argument("--install", action="store_true", help="include this block in ~/.ssh/config")
    parser.add_argument("--json", action="store_true", help="with --config: print JSON")
    return parser


def _print_config(paths: Paths, args: argparse.Namespace) -> int:
    ssh_client.authorized_keys(paths)
    text = ssh_client.config_text(paths, via=args.via)
    if args.json:
        print_json({"config": text, "host": f"{ssh_client.PREFIX}{args.job}" if args.job else ""})
    else:
        print(text, end="")
    return 0


def _relay(paths: Paths, args: argparse.Namespace) -> int:
    job, node = ssh_client.parse_host(args.job)
    with SyncClient.connect(paths) as client:
        number = open_tunnel(
            client,
            job,
            node=node,
            argv=ssh_server.command(ssh_client.authorized_keys(paths)),
            progress=print_note,
        )
        server, rest = _read_banner(client, number)
        if args.user and args.user != server.user:
            raise UserError(
                f"job {job} runs as user {server.user}, not as {args.user}",
                f"use: ssh {server.user}@{args.job}",
            )
        ssh_client.remember_host(paths, args.job, server.host_key)
        relay = Relay(client, number, source=sys.stdin.fileno(), sink=sys.stdout.fileno())
        relay.feed(rest)
        error = relay.run()
    if error:
        print_note(f"warpdeck: {error}")
    return 1 if error else 0


def _read_banner(client: SyncClient, number: int) -> tuple[ssh_server.Server, bytes]:
    """Return the server's first line, and the bytes that followed it. Raises UserError."""
    said = bytearray()
    while b"\n" not in said and len(said) < ssh_server.MAX_BANNER_BYTES:
        for word, value in client.events(number):
            if word == "data":
                said += value
            if word == "end":
                raise UserError(value["error"] or "the job has ended", "see `warpdeck show`")
    line, _, rest = bytes(said).partition(b"\n")
    client.acknowledge(number, len(line) + 1)
    return ssh_server.parse_banner(line), rest
