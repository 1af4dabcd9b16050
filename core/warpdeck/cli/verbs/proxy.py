"""`warpdeck proxy`: connect an ssh client with a server inside a job. It is made for ssh's ProxyCommand."""

from __future__ import annotations

import sys

from warpdeck.base.errors import UserError
from warpdeck.base.output import print_json, print_note
from warpdeck.base.paths import Paths, default_paths
from warpdeck.cli.arguments import Argument, UsageError
from warpdeck.cli.verb import Verb, connected
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.in_job import ssh_client, ssh_server
from warpdeck.client.tunnel import Relay, open_tunnel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace


def _run(args: Namespace) -> int:
    """Relay, or print or install the configuration."""
    paths = default_paths()
    if args.install:
        ours = ssh_client.install(paths)
        print(f"~/.ssh/config now includes {ours}; connect with `ssh wd-JOB`")
        return 0
    if args.config:
        return _print_config(paths, args)
    if not args.job:
        raise UsageError("no job given", "usage: warpdeck proxy wd-12")
    return _relay(paths, args)


def _print_config(paths: Paths, args: Namespace) -> int:
    ssh_client.authorized_keys(paths)
    text = ssh_client.config_text(paths, via=args.via)
    if args.json:
        print_json({"config": text, "host": f"{ssh_client.PREFIX}{args.job}" if args.job else ""})
    else:
        print(text, end="")
    return 0


def _relay(paths: Paths, args: Namespace) -> int:
    job, node = ssh_client.parse_host(args.job)
    with connected() as client:
        number = open_tunnel(
            client,
            job,
            node=node,
            argv=ssh_server.command(ssh_client.authorized_keys(paths)),
            progress=print_note,
        )
        server, rest = _read_banner(client, number, job)
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


def _read_banner(client: SyncClient, number: int, job: str) -> tuple[ssh_server.Server, bytes]:
    """Return the server's first line, and the bytes that followed it. Raises UserError."""
    said = bytearray()
    while b"\n" not in said and len(said) < ssh_server.MAX_BANNER_BYTES:
        for word, value in client.events(number):
            if word == "data":
                said += value
            if word == "end":
                raise UserError(value["error"] or f"job {job} has ended", f"see `warpdeck show {job}`")
    line, _, rest = bytes(said).partition(b"\n")
    client.acknowledge(number, len(line) + 1)
    return ssh_server.parse_banner(line), rest


VERBS = (
    Verb(
        "proxy", """\
Connect standard input and output to an SSH server in a job, for ssh's ProxyCommand. The session runs on the job's
node as the job's user, with the job's GPUs, limits and environment, and ends with the job. Run --install once, then use

  ssh wd-12        scp model.pt wd-12:        sftp wd-12        ssh wd-12.gpu02 (one of its nodes)

VS Code Remote-SSH and PyCharm connect to the host wd-12.""",
        (
            Argument("[JOB]", "job id as 12 or wd-12, or wd-12.gpu02 for one of its nodes"),
            Argument("--user USER", "user name of the ssh session (%r in ssh_config), to detect a wrong user early"),
            Argument("--config", "print the block for ~/.ssh/config"),
            Argument("--via HOST", "with --config: write it for a machine that connects through this host"),
            Argument("--install", "include this block in ~/.ssh/config"),
            Argument("--json", "with --config: print JSON"),
        ),
        examples=(
            "warpdeck proxy --install          include the configuration in ~/.ssh/config",
            "warpdeck proxy --config           print the configuration instead",
            "warpdeck proxy --config --via ann@login    print it for your laptop, which connects through this machine",
            "ssh -o ProxyCommand='warpdeck proxy %h' wd-12",
        ),
        run=_run,
    ),
)  # fmt: skip
