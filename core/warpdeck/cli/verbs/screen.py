"""`warpdeck screen`: open the app at one of its screens, or print the screen once as plain text."""

from __future__ import annotations

import argparse
import importlib
import time

from warpdeck.base.errors import UserError
from warpdeck.base.paths import default_paths
from warpdeck.cli.shared.arguments import USAGE_EXIT, Arguments
from warpdeck.notation.values.time_points import parse_past

SCREENS = ("queue", "gpus", "nodes", "node", "job", "history", "usage", "idle", "sessions", "site")
OF_ONE = {"job": "a job id, such as 12 or 12_3", "node": "a node name"}
OF_ALL_NODES = ("gpus", "nodes")
OF_THE_PAST = (*OF_ALL_NODES, "node")
PRINTED_ONLY = ("usage", "idle")
"""Screens that the app shows as lists above another screen."""


def main(_: str, words: list[str]) -> int:
    """Open the app at the screen, or print the screen."""
    parser = Arguments(
        "warpdeck screen",
        description="Open the app on one of its screens. With --plain, print the screen once as plain text, without colors and\n"
        "graphics, for screen readers, mail and logs.",
        examples=(
            "warpdeck screen gpus             open the app on the GPU map",
            "warpdeck screen queue --plain --all",
            "warpdeck screen job 12 --plain",
            "warpdeck screen gpus --at 03:12  the state of the cluster at 03:12",
        ),
    )
    parser.add_argument("screen", choices=SCREENS, metavar="SCREEN", help=", ".join(SCREENS))
    parser.add_argument(
        "what", nargs="?", default="", metavar="WHAT", help="job id or node name, for job and node"
    )
    parser.add_argument("--plain", action="store_true", help="print the screen once as plain text")
    parser.add_argument("-a", "--all", action="store_true", help="show the jobs of all users")
    parser.add_argument(
        "--at",
        metavar="WHEN",
        help="show gpus, nodes or node at a past time: 03:12 (most recent), now-2hours, 11/20 14:00",
    )
    parser.add_argument("--json", action="store_true", help="print gpus or nodes once as JSON")
    # Imported by name, because the core must not depend on the app.
    app = importlib.import_module("warpdeck_tui.entry")
    app.add_options(parser)
    args = parser.parse_args(words)
    if args.screen in OF_ONE and not args.what:
        raise UserError(f"warpdeck screen {args.screen} needs {OF_ONE[args.screen]}", exit_code=USAGE_EXIT)
    if args.what and args.screen not in OF_ONE:
        raise UserError(
            f"warpdeck screen {args.screen} takes no argument",
            f"remove {args.what}",
            exit_code=USAGE_EXIT,
        )
    at = _moment(args)
    if args.json and args.screen not in OF_ALL_NODES:
        raise UserError(
            f"the screen {args.screen} does not support --json",
            "use `warpdeck queue --json` or `warpdeck show --json`",
            exit_code=USAGE_EXIT,
        )
    if args.plain or args.json:
        plain = importlib.import_module("warpdeck_tui.plain")
        asked = {"what": args.what, "everybody": args.all, "at": at, "as_json": args.json}
        return int(plain.main(default_paths(), args.screen, **asked))
    if args.screen in PRINTED_ONLY or (at is not None and args.screen not in OF_ALL_NODES):
        raise UserError(
            f"the screen {args.screen} {'at a past time ' if at else ''}is only available as plain text",
            f"use: warpdeck screen {args.screen} --plain",
            exit_code=USAGE_EXIT,
        )
    return int(app.start(app.options_in(args), everybody=args.all, at=(args.screen, args.what), moment=at))


def _moment(args: argparse.Namespace) -> float | None:
    """Return the requested moment of the past, or None. Raises UserError."""
    if args.at is None:
        return None
    if args.screen not in OF_THE_PAST:
        raise UserError(
            f"the screen {args.screen} does not support --at",
            f"use --at with {', '.join(OF_THE_PAST)}",
            exit_code=USAGE_EXIT,
        )
    return parse_past(args.at, time.time())
