"""`warpdeck takeover`: make the nodes obey the controller of this home, on a standby or after a home was copied."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from warpdeck.base import standby_files
from warpdeck.base.output import clean, print_json, print_note
from warpdeck.base.paths import OWN, default_paths
from warpdeck.cli.arguments import JSON, Argument, UsageError, number
from warpdeck.cli.shared.progress import progress
from warpdeck.cli.verb import Verb, connected

if TYPE_CHECKING:
    from argparse import Namespace

    from warpdeck.client.blocking_client import SyncClient

CLAIM_S = 15.0
"""Seconds that the nodes have to answer a new controller. `base.controller_starts` has the same time."""
POLL_S = 0.1


def _print_taken_over(found: dict[str, Any]) -> None:
    answered = found["nodes"] - len(found["lost"])
    print(
        f"this controller has taken over with epoch {found['epoch']}; nodes: {answered} of {found['nodes']}"
    )
    if found["lost"]:
        print(f"not connected yet: {clean(', '.join(found['lost']))}; they follow when they answer")


def _claimed(client: SyncClient) -> dict[str, Any]:
    """Wait until the nodes have answered the start of a standby's controller. Raises UserError.

    A standby that was behind may not know the last epoch. Then the nodes refuse it, and a further start is above theirs.
    """
    until = time.monotonic() + CLAIM_S
    while True:
        status, nodes = client.call("status"), client.call("nodes")["nodes"]
        if status["fenced"]:
            return client.call("takeover")
        if all(node["state"] != "connecting" for node in nodes) or time.monotonic() > until:
            lost = [node["name"] for node in nodes if node["state"] in ("connecting", "down")]
            return {"epoch": status["epoch"], "nodes": len(nodes), "lost": lost}
        time.sleep(POLL_S)


def _run(args: Namespace) -> int:
    paths = default_paths(engine=OWN)
    is_standby = standby_files.is_standby(paths)
    if not is_standby and (args.force or args.watchdog is not None):
        raise UsageError(
            f"{args.prog}: {paths.home} is no standby", "use --force and --watchdog on a standby only"
        )
    if is_standby:
        from warpdeck.standby.takeover import take_over, watch

        if args.watchdog is not None:
            watch(paths, after_s=args.watchdog, say=lambda line: print_note(clean(line)))
        take_over(paths, force=args.force or args.watchdog is not None)
    with progress("waiting for the nodes ..."), connected() as client:
        found = _claimed(client) if is_standby else client.call("takeover")
    if args.json:
        print_json(found)
    else:
        _print_taken_over(found)
    return 0


VERBS = (
    Verb(
        "takeover", """\
Make the nodes obey the controller of this home. On a standby, start its controller with the copy of the database. If a home
was copied and two controllers with the same identity were started, begin a new start of this one. The other controller is
then fenced: it changes nothing and refuses requests. Jobs keep running.""",
        (
            Argument("--force", "on a standby: take over although the controller still sends its changes"),
            Argument(
                "--watchdog SECONDS",
                "on a standby: stay, and take over when the controller has been silent for so long. A controller that was stopped "
                "with `warpdeck down` is not replaced",
                parse=number(least=5, most=86_400),
            ),
            JSON,
        ),
        examples=(
            "warpdeck status                    see which controller the nodes obey",
            "warpdeck takeover                  let them obey this one",
            "warpdeck takeover --watchdog 30    on a standby: take over after 30 seconds without a message",
        ),
        notes="""\
Stop the other controller first if you can. A node that cannot be reached obeys the other one until it answers. Jobs that the
other controller has started since the copy are unknown here; `warpdeck status` tells how to continue.""",
        run=_run,
    ),
)  # fmt: skip
