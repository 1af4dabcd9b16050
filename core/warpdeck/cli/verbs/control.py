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
    "up": "Start the controller in the background, if it is not running. Other verbs start it automatically.",
    "down": "Stop the controller. Jobs keep running, and the next controller takes them over. With --machine, stop all of your "
    "controllers and agents on this machine (as root: those of all users).",
    "status": "Show whether the controller is running, since when, and its numbers of nodes and jobs. With --machine, list all "
    "controllers and agents on this machine.",
    "demo": "Open the app on a simulated cluster of 64 GPUs with a live workload.",
}
EXAMPLES = {
    "up": ("warpdeck up", "warpdeck up --no-local-node     do not use this machine as a node"),
    "down": (
        "warpdeck down",
        "warpdeck down --machine                stop controllers and agents; jobs keep running",
        "warpdeck down --machine --kill-jobs    stop the jobs too",
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
        parser.add_argument("--no-local-node", action="store_true", help="do not add this machine as a node")
        parser.add_argument(
            "--shared",
            action="store_true",
            help=f"as root: serve all users of this machine from $WARPDECK_HOME or {SITE_HOME}",
        )
        parser.add_argument(
            "--share-machine",
            action="store_true",
            help="allow this controller's agents on machines that already run another agent ($WARPDECK_SHARE_MACHINE=1)",
        )
    if verb in ("down", "status"):
        every = "stop" if verb == "down" else "list"
        parser.add_argument(
            "--machine", action="store_true", help=f"{every} all controllers and agents on this machine"
        )
    if verb == "down":
        parser.add_argument(
            "--kill-jobs", action="store_true", help="with --machine: also kill the jobs on this machine"
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
        with _told("starting a simulated cluster with two hours of history ..."):
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
                "--share-machine has no effect: the controller is already running",
                "stop it first with `warpdeck down`; jobs keep running",
            )
        os.environ[SHARE_MACHINE] = "1"
    started, trouble = _start(paths, local_node=local_node)
    print(f"controller {'started' if started else 'already running'} in {paths.home}")
    if trouble:
        print(f"this machine cannot run jobs: {trouble}", file=sys.stderr)
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
    print(
        "controller stopped; jobs keep running"
        if stop(paths)
        else f"no controller is running in {paths.home}"
    )
    return 0


def _status(*, as_json: bool) -> int:
    paths = default_paths()
    try:
        client = SyncClient.connect(paths, start=False)
    except UserError:
        if as_json:
            print_json({"running": False, "home": paths.home})
        else:
            print(f"no controller is running in {paths.home}", file=sys.stderr)
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
        print(f"unreadable records, kept in state.db: {', '.join(found['unreadable'])}; see the log")
    print(f"log: {found['log']}")
    return 0
