"""`warpdeck screen|serve|demo`: open the app at a screen, in a browser, or on a simulated cluster."""

from __future__ import annotations

import importlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from warpdeck.base.controller_daemon import wait_for_start
from warpdeck.base.errors import UserError
from warpdeck.base.paths import ENGINE_VARIABLE, default_paths
from warpdeck.cli.arguments import Argument, Group, UsageError, flat, port
from warpdeck.cli.shared.engine_offer import offer_engine
from warpdeck.cli.shared.engine_option import ENGINE, chosen_paths
from warpdeck.cli.shared.progress import progress
from warpdeck.cli.verb import Verb
from warpdeck.notation.values.time_points import parse_past

if TYPE_CHECKING:
    from argparse import Namespace

SCREENS = (
    "overview",
    "queue",
    "gpus",
    "nodes",
    "node",
    "job",
    "history",
    "usage",
    "idle",
    "sessions",
    "site",
)
OF_ONE = {"job": ("a job id", "12"), "node": ("the name of a node", "gpu01")}
"""Maps a screen of one object to the argument that it needs, and an example of it."""
OF_ALL_NODES = ("gpus", "nodes")
OF_THE_PAST = (*OF_ALL_NODES, "node")
PRINTED_ONLY = ("usage", "idle")
"""Screens that the app shows as lists above another screen."""
PORT = 8642

APP_OPTIONS = Group(
    Argument("--theme NAME", "color theme to use"),
    Argument("--readonly", "switch off the actions that change something"),
    Argument("--low-bandwidth", "for slow connections: update every two seconds, no bars, no mouse"),
    Group(
        Argument("--ascii", "draw with ASCII characters only; the default if the locale is C"),
        Argument("--no-ascii", "draw with Unicode characters even if the locale is C"),
    ),
    Argument("--no-mouse", "leave the mouse to the terminal; the key M switches this"),
    title="app options",
)


def _entry() -> Any:
    """Return the app's entry point. It is imported by name, because the core must not depend on the app."""
    return importlib.import_module("warpdeck_tui.entry")


def app_options(args: Namespace) -> Any:
    """Return the app's options. Their fields have the names of the arguments."""
    options = _entry().Options
    return options(**{name: getattr(args, name) for name in options._fields})


def _open(args: Namespace) -> int:
    chosen_paths(args)
    offer_engine()
    return int(_entry().start(app_options(args)))


def _check_screen(args: Namespace) -> None:
    screen = args.screen
    if screen in OF_ONE and not args.what:
        needs, example = OF_ONE[screen]
        raise UsageError(f"the screen {screen} needs {needs}", f"usage: warpdeck screen {screen} {example}")
    if args.what and screen not in OF_ONE:
        raise UsageError(f"the screen {screen} takes no argument", f"remove {args.what}")
    if args.at is not None and screen not in OF_THE_PAST:
        raise UsageError(
            f"the screen {screen} does not support --at", f"use --at with {', '.join(OF_THE_PAST)}"
        )
    if args.json and screen not in OF_ALL_NODES:
        raise UsageError(
            f"the screen {screen} does not support --json",
            "use --json with gpus or nodes, `warpdeck queue --json` or `warpdeck show JOB --json`",
        )
    is_list = screen in PRINTED_ONLY or (args.at is not None and screen not in OF_ALL_NODES)
    if is_list and not (args.plain or args.json):
        past = "at a past time " if args.at is not None else ""
        raise UsageError(
            f"the screen {screen} {past}is only available as plain text",
            f"use: warpdeck screen {screen} --plain",
        )


def _screen(args: Namespace) -> int:
    """Open the app at the screen, or print the screen."""
    moment = None if args.at is None else parse_past(args.at, time.time())
    if args.plain or args.json:
        plain = importlib.import_module("warpdeck_tui.plain")
        asked = {"what": args.what, "everybody": args.all, "at": moment, "as_json": args.json}
        return int(plain.main(default_paths(), args.screen, **asked))
    offer_engine()
    at = (args.screen, args.what)
    return int(_entry().start(app_options(args), everybody=args.all, at=at, moment=moment))


def _serve(args: Namespace) -> int:
    """Serve the app until Ctrl-C."""
    try:
        serve = importlib.import_module("warpdeck_tui.serve")
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is not installed", "pip install 'warpdeck[serve]'") from error
    theme = [f"--theme={args.theme}"] if args.theme else []
    flags = [each.names[0] for each in flat(APP_OPTIONS.items) if each.is_flag and getattr(args, each.into)]
    return int(serve.main(port=args.port, options=[*theme, *flags]))


def _demo(args: Namespace) -> int:
    """Run a simulated controller in a temporary folder, and the app on it.

    The controller ends when its standard input ends and removes its folder. So nothing is left even if this
    process is killed.
    """
    import shutil  # these imports would delay the other verbs
    import subprocess
    import tempfile

    home = tempfile.mkdtemp(prefix="warpdeck-demo-")
    os.environ["WARPDECK_HOME"] = home
    os.environ.pop(ENGINE_VARIABLE, None)  # The demo simulates our own scheduler.
    path = os.path.join(home, "controller.log")
    with open(path, "wb") as log:
        argv = [sys.executable, "-m", "warpdeck.sim.demo", "--home", home, "--remove"]
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)
    try:
        line = "starting a simulated cluster with two hours of history ... "
        with progress(line, after_s=0.0, more=lambda: _percentage(path)):
            app = _entry()
            app.load()  # uses the time in which the controller starts
            wait_for_start(default_paths(), child)
        return int(app.start(app_options(args), everybody=True))
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
        shutil.rmtree(home, ignore_errors=True)


def _percentage(path: str) -> str:
    """Return the last percentage that the demo's controller has printed, such as "40 %", or ""."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.endswith(" %\n")]
    except OSError:
        return ""
    return lines[-1] if lines else ""


APP = Verb(
    "", "Open the full-screen app.",
    (ENGINE, APP_OPTIONS),
    examples=("warpdeck", "warpdeck --readonly --theme deck-light", "warpdeck --engine slurm"),
    reads=False, run=_open,
)  # fmt: skip
"""The row of `warpdeck` without a verb."""
VERBS = (
    Verb(
        "screen", """\
Open the app on one of its screens. With --plain, print the screen once as plain text, without colors and
graphics, for screen readers, mail and logs.""",
        (
            Argument("SCREEN", ", ".join(SCREENS), choices=SCREENS),
            Argument("[WHAT]", "job id or name of a node, for the screens job and node"),
            Argument("--plain", "print the screen once as plain text"),
            Argument("-a, --all", "show the jobs of all users"),
            Argument(
                "--at WHEN", "show gpus, nodes or node at a past time: 03:12 (most recent), now-2hours, 11/20 14:00", parse=str,
            ),
            Argument("--json", "print gpus or nodes once as JSON"),
            APP_OPTIONS,
        ),
        examples=(
            "warpdeck screen gpus             open the app on the GPU map",
            "warpdeck screen queue --plain --all",
            "warpdeck screen job 12 --plain",
            "warpdeck screen gpus --at 03:12  the state of the cluster at 03:12",
        ),
        check=_check_screen, run=_screen,
    ),
    Verb(
        "serve", """\
Serve the app to a browser on this machine and print its URL. The URL contains a secret: anyone who has it
can act as you. Shells and editors are not available in the browser.""",
        (Argument("--port PORT", f"port on 127.0.0.1; default: {PORT}", parse=port, default=PORT), APP_OPTIONS),
        examples=("warpdeck serve", "warpdeck serve --port 9000 --readonly"),
        reads=False, run=_serve,
    ),
    Verb(
        "demo", "Open the app on a simulated cluster of 64 GPUs with a live workload.",
        (APP_OPTIONS,),
        examples=("warpdeck demo", "warpdeck demo --theme deck-light --ascii"),
        reads=False, run=_demo,
    ),
)  # fmt: skip
