"""`warpdeck takeover`: make this machine the controller of the site, on a standby or after a home was copied."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from warpdeck.base.output import clean, print_json
from warpdeck.base.paths import OWN, default_paths
from warpdeck.cli.arguments import JSON, Argument, number
from warpdeck.cli.shared.progress import progress
from warpdeck.cli.verb import Verb, connected

if TYPE_CHECKING:
    from argparse import Namespace


def _start_controller(args: Namespace) -> None:
    """Start the controller if this home is a standby. Raises UserError."""
    from warpdeck.base import standby_files

    paths = default_paths(engine=OWN)
    if args.watchdog is None and standby_files.read(paths.standby_role) is None:
        return
    from warpdeck.standby.takeover import take_over, watch

    after_s = args.watchdog
    took_s = (
        take_over(paths, force=args.force) if after_s is None else watch(paths, after_s=after_s, say=_say)
    )
    _say(f"this machine is the controller of the site now (after {took_s:.1f} s)")


def _say(line: str) -> None:
    print(clean(line), file=sys.stderr, flush=True)


def _takeover(args: Namespace) -> int:
    _start_controller(args)
    with progress("waiting for the nodes ..."), connected() as client:
        answer = client.call("takeover")
    if args.json:
        print_json(answer)
    else:
        _print_taken_over(answer)
    return 0


def _print_taken_over(found: dict[str, Any]) -> None:
    answered = found["nodes"] - len(found["lost"])
    print(f"the nodes obey this controller (epoch {found['epoch']}); nodes: {answered} of {found['nodes']}")
    if found["lost"]:
        print(f"not connected yet: {clean(', '.join(found['lost']))}; they follow when they answer")


VERBS = (
    Verb(
        "takeover", """\
Make this machine the controller of the site (admins). On a standby, its controller is started. If a home was copied and two
controllers with the same identity were started, the nodes obey the later one; with this verb they obey this one. The other
controller is then fenced: it changes nothing and refuses requests. Jobs keep running.""",
        (
            Argument("--force", "take over although the old controller still sends"),
            Argument(
                "--watchdog SECONDS",
                "on a standby: stay, and take over when the controller has been silent for so long. A controller that was "
                "stopped with `warpdeck down` is not replaced",
                parse=number(least=5, most=86_400),
            ),
            JSON,
        ),
        examples=(
            "warpdeck status                    see which controller the nodes obey",
            "warpdeck takeover",
            "warpdeck takeover --watchdog 30    take over after 30 seconds without a message",
        ),
        notes="""\
Stop the other controller first if you can. A node that cannot be reached obeys the other one until it answers. Jobs that the
other controller has started since the copy are unknown here; `warpdeck status` tells how to continue.""",
        run=_takeover,
    ),
)  # fmt: skip
