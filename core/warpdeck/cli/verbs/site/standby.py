"""`warpdeck standby`: a second machine that can become the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpdeck.base.output import clean, print_note
from warpdeck.cli.arguments import JSON, Argument
from warpdeck.cli.shared.host_key import with_host_key
from warpdeck.cli.verb import Verb

if TYPE_CHECKING:
    from argparse import Namespace

    from warpdeck.client.blocking_client import SyncClient

STATUS, REMOVE = "status", "remove"
"""Words in place of a host."""


def _ask(client: SyncClient, args: Namespace) -> dict[str, Any]:
    if args.target in ("", STATUS):
        return client.call("standby")
    if args.target == REMOVE:
        client.call("standby_rm")
        return {"standby": None}

    def ask(accepted: str) -> dict[str, Any]:
        return client.call(
            "standby_set",
            progress=print_note,
            target=args.target,
            home=args.home,
            mode=args.mode,
            keys=args.keys,
            accept_host_key=accepted,
        )

    return with_host_key(ask, args.accept_host_key, command=f"warpdeck standby {args.target}")


def _show(answer: dict[str, Any], args: Namespace) -> None:
    row = answer["standby"]
    if args.target == REMOVE:
        print("the standby is removed; its files stay there")
    elif row is None:
        print("this controller has no standby")
    elif args.target in ("", STATUS):
        for line in standby_lines(row):
            print(line)
    else:
        _print_set_up(row)


def _print_set_up(row: dict[str, Any]) -> None:
    print(clean(f"{row['target']} is the standby now ({row['mode']}), in {row['home']}"))
    if not row["keys"]:
        print_note(
            "no private keys were copied: the standby uses its own keys to reach the nodes (see --keys)"
        )
    command = f"WARPDECK_HOME={row['home']} {row['command']} takeover"
    print_note(clean(f"to take over, run on {row['host']}: {command}"))


def standby_lines(row: dict[str, Any]) -> list[str]:
    """Return the lines about a standby (a StandbyRow)."""
    behind = f"{row['behind_batches']} batches, {row['behind_s']:.1f} s behind"
    if not row["behind_batches"]:
        behind = "up to date" if row["state"] == "following" else row["state"]
    mode = row["mode"]
    if mode == "sync" and not row["waits"]:
        mode = "sync, but async now"
    lines = [f"standby: {row['target']} ({mode}): {row['state']}, {behind}"]
    if row["problem"]:
        lines.append(f"standby problem: {row['problem']}")
    return [clean(line) for line in lines]


VERBS = (
    Verb(
        "standby",
        "Keep a copy of the controller's database on a second machine, which can take over at any time (admins). warpdeck is\n"
        "brought there over SSH. Without an argument, show the standby and how far its copy is behind.",
        (
            Argument("[USER@HOST]", "the second machine ([USER@]HOST[:PORT]), or `status`, or `remove`", into="target"),
            Argument(
                "--mode {sync,async}",
                "sync (the default): answer requests after both machines have them on disk; async: do not wait for the standby",
                default="sync",
            ),
            Argument("--home FOLDER", "the folder there; default: the same path as here"),
            Argument("--keys", "also copy the private SSH keys with which this machine reaches the nodes"),
            Argument("--accept-host-key FINGERPRINT", "accept an unknown host key with this fingerprint"),
            JSON,
        ),
        examples=(
            "warpdeck standby root@login2             set up the standby",
            "warpdeck standby root@login2 --mode async --keys",
            "warpdeck standby status",
            "warpdeck standby remove                  stop copying; the files there stay",
        ),
        notes="If the standby does not answer for 3 seconds, requests are answered without it, and `status` and the app say so.\n"
        "The mode sync returns by itself. config.toml, known host keys and packed code are copied, too. The two machines must\n"
        "not share the folder.",
        ask=_ask, waits="", show=_show,
    ),
)  # fmt: skip
