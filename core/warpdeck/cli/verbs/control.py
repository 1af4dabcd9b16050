"""`warpdeck up|down|status|demo`."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from warpdeck.base.controller_daemon import ensure_running, is_running, stop, wait_for_start
from warpdeck.base.errors import UserError
from warpdeck.base.output import print_json
from warpdeck.base.paths import SITE_HOME, Paths, default_paths
from warpdeck.base.shared_home import open_to_all
from warpdeck.cli.shared import machine_processes
from warpdeck.cli.shared.arguments import Arguments
from warpdeck.client.blocking_client import GONE, SyncClient
from warpdeck.notation.values.durations import format_duration
from warpdeck_agent.wire.messages import SHARE_MACHINE

TEXTS = {
    "up": "Starts the controller in the background, unless it runs. Every other verb does so by itself.",
    "down": "Stops the controller. Jobs go on; the next controller finds them again. With --machine all controllers and agents "
    "of yours on this machine stop (as root: of everybody), whatever their homes.",
    "status": "Says whether the controller runs, since when, and what it has in hand. With --machine: all controllers and agents "
    "of this machine.",
    "demo": "Opens the app over a simulated cluster of 64 GPUs with a live workload.",
}
EXAMPLES = {
    "up": ("warpdeck up", "warpdeck up --no-local-node     this machine runs no jobs"),
    "down": (
        "warpdeck down",
        "warpdeck down --machine                controllers and agents; jobs go on",
        "warpdeck down --machine --kill-jobs    and the jobs",
    ),
    "status": ("warpdeck status", "warpdeck status --json", "warpdeck status --machine"),
    "demo": ("warpdeck demo", "warpdeck demo --theme deck-light --ascii"),
}
STARTS = 3
"""Number of attempts to start a controller that is killed while it starts."""
LOCAL_NODE_S = 5.0
"""Longest time that `up` waits for this machine's agent."""
POLL_S = 0.05


def main(verb: str, words: list[str]) -> int:
    """Run the verb."""
    parser = Arguments(f"warpdeck {verb}", description=TEXTS[verb], examples=EXAMPLES[verb])
    if verb == "up":
        parser.add_argument(
            "--no-local-node", action="store_true", help="do not make this machine the first node"
        )
        parser.add_argument(
            "--shared",
            action="store_true",
            help=f"as root: for all users of this machine, in $WARPDECK_HOME or {SITE_HOME}",
        )
        parser.add_argument(
            "--share-machine",
            action="store_true",
            help="let this controller's agents run beside other agents on their machines ($WARPDECK_SHARE_MACHINE=1)",
        )
    if verb in ("down", "status"):
        every = "stop" if verb == "down" else "list"
        parser.add_argument(
            "--machine", action="store_true", help=f"{every} all controllers and agents of this machine"
        )
    if verb == "down":
        parser.add_argument(
            "--kill-jobs", action="store_true", help="with --machine: end the jobs on this machine too"
        )
    if verb == "status":
        parser.add_argument("--json", action="store_true", help="print JSON")
    if verb == "demo":
        # Imported by name, because the core must not depend on the app.
        importlib.import_module("warpdeck_tui.entry").add_options(parser)
    args = parser.parse_args(words)
    if verb == "up":
        return _up(local_node=not args.no_local_node, shared=args.shared, share_machine=args.share_machine)
    if verb == "down":
        if args.kill_jobs and not args.machine:
            parser.error("--kill-jobs needs --machine")
        return machine_processes.stop(kill_jobs=args.kill_jobs) if args.machine else _down()
    if verb == "status":
        return machine_processes.show(as_json=args.json) if args.machine else _status(as_json=args.json)
    return _demo(args)


def _demo(args: argparse.Namespace) -> int:
    """Run a simulated controller in a temporary folder, and the app on it.

    The controller ends when its standard input ends and removes its folder. So nothing is left even if this
    process is killed.
    """
    home = tempfile.mkdtemp(prefix="warpdeck-demo-")
    os.environ["WARPDECK_HOME"] = home
    with open(os.path.join(home, "controller.log"), "wb") as log:
        argv = [sys.executable, "-m", "warpdeck.sim.demo", "--home", home, "--remove"]
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)
    try:
        with _told("a simulated cluster starts, with two hours of work behind it ..."):
            app = importlib.import_module("warpdeck_tui.entry")
            wait_for_start(default_paths(), child)
        return int(app.start(app.options_in(args), everybody=True))
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def _told(line: str) -> Iterator[None]:
    """Show a line on the terminal while the block runs."""
    shown = line if sys.stderr.isatty() else ""
    print(end=shown, file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            os.write(sys.stderr.fileno(), b"\r\x1b[K")  # sys.stderr replaces control characters


def _up(*, local_node: bool, shared: bool, share_machine: bool) -> int:
    paths = default_paths()
    if shared:
        paths = paths if os.environ.get("WARPDECK_HOME") else Paths(SITE_HOME)
        open_to_all(paths)
    if share_machine:
        if is_running(paths):
            raise UserError(
                "the controller runs already, and --share-machine is for its start",
                "stop it first, its jobs go on: warpdeck down",
            )
        os.environ[SHARE_MACHINE] = "1"
    started, trouble = _start(paths, local_node=local_node)
    print(f"the controller {'has started' if started else 'runs already'} in {paths.home}")
    if trouble:
        print(f"this machine runs no jobs: {trouble}", file=sys.stderr)
    return 0


def _start(paths: Paths, *, local_node: bool) -> tuple[bool, str]:
    """Start the controller unless it runs. Return whether it was started, and why this machine runs no jobs.
    Raises UserError.
    """
    started = False
    for attempt in range(STARTS):
        started |= ensure_running(paths, local_node=local_node)
        try:
            with _told("waiting for this machine's agent ..."):
                return started, _await_local_node(paths)
        except UserError as error:  # the controller was killed in the meantime
            if error.code != GONE or attempt + 1 == STARTS:
                raise
            time.sleep(POLL_S)
    raise AssertionError("the last start returns or raises")


def _await_local_node(paths: Paths) -> str:
    """Wait a short time until this machine has answered, if it is a node, so that the first `sinfo` shows it.

    Return the reason if the node is down, else "".
    """
    deadline = time.monotonic() + LOCAL_NODE_S
    with SyncClient.connect(paths, start=False) as client:
        while True:
            found = [node for node in client.call("nodes")["nodes"] if node["target"] == "local"]
            if all(node["state"] != "connecting" for node in found) or time.monotonic() > deadline:
                return next((str(node["reason"]) for node in found if node["state"] == "down"), "")
            time.sleep(POLL_S)


def _down() -> int:
    paths = default_paths()
    print("the controller has ended; jobs go on" if stop(paths) else f"no controller runs in {paths.home}")
    return 0


def _status(*, as_json: bool) -> int:
    paths = default_paths()
    try:
        client = SyncClient.connect(paths, start=False)
    except UserError:
        if as_json:
            print_json({"running": False, "home": paths.home})
        else:
            print(f"no controller runs in {paths.home}", file=sys.stderr)
        return 1
    with client:
        found = client.call("status")
    if as_json:
        print_json({"running": True, **found})
        return 0
    jobs = ", ".join(f"{count} {state}" for state, count in sorted(found["jobs"].items())) or "none"
    print(f"running, pid {found['pid']}, for {format_duration(found['uptime_s'])}, in {found['home']}")
    print(f"nodes: {found['nodes']}   jobs: {jobs}")
    if found["unreadable"]:
        print(
            f"records that cannot be read, set aside in state.db: {', '.join(found['unreadable'])}; see the log"
        )
    print(f"log: {found['log']}")
    return 0
