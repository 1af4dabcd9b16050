"""warpdeck screen: the app at one of its screens, or what that screen says, once and in plain words."""

from __future__ import annotations

import importlib

from warpdeck.errors import UserError
from warpdeck.paths import default_paths

from .arguments import USAGE_EXIT, Arguments

SCREENS = ("queue", "gpus", "nodes", "node", "job", "history", "usage", "idle", "sessions", "site")
OF_ONE = {"job": "a job: its id, or 12_3 of an array", "node": "a node's name"}
PRINTED_ONLY = ("usage", "idle")
"""In the app they are lists over another screen."""


def main(_: str, words: list[str]) -> int:
    """Opens the app there, or prints the screen."""
    parser = Arguments(
        "warpdeck screen",
        description="Opens the app at one of its screens. With --plain prints what stands there, once: a line after the\n"
        "other, without colours and pictures, for screen readers, mails and logs.",
        examples=(
            "warpdeck screen gpus             the app, at the map of GPUs",
            "warpdeck screen queue --plain --all",
            "warpdeck screen job 12 --plain",
        ),
    )
    parser.add_argument("screen", choices=SCREENS, metavar="SCREEN", help=", ".join(SCREENS))
    parser.add_argument("what", nargs="?", default="", metavar="WHAT", help="of job and node: which")
    parser.add_argument("--plain", action="store_true", help="print it once")
    parser.add_argument("-a", "--all", action="store_true", help="everybody's jobs, not only mine")
    # By name: the core does not depend on the app, which depends on the core.
    app = importlib.import_module("warpdeck_tui.entry")
    app.add_options(parser)
    args = parser.parse_args(words)
    if args.screen in OF_ONE and not args.what:
        raise UserError(f"warpdeck screen {args.screen} wants {OF_ONE[args.screen]}", exit_code=USAGE_EXIT)
    if args.what and args.screen not in OF_ONE:
        raise UserError(
            f"warpdeck screen {args.screen} is of nothing in particular",
            f"leave out {args.what}",
            exit_code=USAGE_EXIT,
        )
    if args.plain:
        plain = importlib.import_module("warpdeck_tui.plain")
        return int(plain.main(default_paths(), args.screen, what=args.what, everybody=args.all))
    if args.screen in PRINTED_ONLY:
        raise UserError(
            f"the screen {args.screen} is printed only",
            f"warpdeck screen {args.screen} --plain",
            exit_code=USAGE_EXIT,
        )
    return int(app.start(args, everybody=args.all, at=(args.screen, args.what)))
