"""`warpdeck up|down|status`: the controller, or the gateway to Slurm."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from warpdeck.base.controller_daemon import ensure_running, is_running, other_host, stop
from warpdeck.base.errors import UserError
from warpdeck.base.output import clean, print_json, print_note
from warpdeck.base.paths import (
    OWN,
    SITE_GATEWAY_HOME,
    SITE_HOME,
    SLURM,
    Paths,
    SiteGatewayPaths,
    default_paths,
)
from warpdeck.base.shared_home import open_site_gateway, open_to_all
from warpdeck.base.standby_files import is_standby, serving_elsewhere
from warpdeck.cli.arguments import JSON, Argument, UsageError
from warpdeck.cli.shared.engine_offer import offer_engine
from warpdeck.cli.shared.engine_option import ENGINE, chosen_paths
from warpdeck.cli.shared.progress import progress
from warpdeck.cli.verb import Verb
from warpdeck.client.blocking_client import GONE, SyncClient
from warpdeck.notation.values.durations import format_duration
from warpdeck_agent.wire.environment import SHARE_MACHINE

if TYPE_CHECKING:
    from argparse import Namespace

STARTS = 3
"""Number of attempts to start a controller that is killed while it starts."""
MINUTE_S = 60
LOCAL_NODE_S = 5.0
"""Longest time that `up` waits for this machine's agent."""
POLL_S = 0.05
SHARED = Argument("--shared", "the process that serves all users of this machine, see `warpdeck up`")


def _up(args: Namespace) -> int:
    paths = chosen_paths(args)
    if not args.shared:
        offer_engine()
        paths = chosen_paths(args)
    if paths.engine == SLURM:
        return _up_gateway(args, paths)
    if args.shared:
        paths = _shared_paths(OWN)
        open_to_all(paths)
    if args.share_machine:
        if is_running(paths):
            raise UserError(
                "--share-machine has no effect: the controller is already running",
                "stop it first with `warpdeck down`; jobs keep running",
            )
        os.environ[SHARE_MACHINE] = "1"
    started, trouble = _start(paths, local_node=not args.no_local_node)
    print(f"controller {'started' if started else 'already running'} in {paths.home}")
    if trouble:
        print_note(f"this machine cannot run jobs: {trouble}")
        print_note("  see `warpdeck node ls`")
    return 0


def _up_gateway(args: Namespace, paths: Paths) -> int:
    """Start the gateway unless it runs. Raises UserError for an option that only the own scheduler has."""
    for option in ("share_machine", "no_local_node"):
        if getattr(args, option):
            name = option.replace("_", "-")
            raise UsageError(
                f"{args.prog}: --{name} is impossible with Slurm",
                f"leave out --{name}, or use --engine {OWN}",
            )
    if args.shared:
        return _up_site_gateway()
    with progress("starting the gateway to Slurm ..."):
        started = ensure_running(paths)
    print(f"gateway to Slurm {'started' if started else 'already running'} in {paths.home}")
    return 0


def _up_site_gateway() -> int:
    """Start the site gateway unless it runs, and tell what users and the administrator have to do."""
    paths = _shared_paths(SLURM)
    if not paths.is_of_another:
        open_site_gateway(paths)
    with progress("starting the site gateway to Slurm ..."):
        started = ensure_running(paths)
    print(f"site gateway to Slurm {'started' if started else 'already running'} in {paths.home}")
    if started and os.geteuid() == 0:
        print_note("the site gateway needs no rights of root; an account of its own is safer")
    if started and paths.home != SITE_GATEWAY_HOME:
        print_note(
            f'users name this folder in the table [slurm] of their config.toml: site_gateway = "{paths.home}"'
        )
    return 0


def _shared_paths(engine: str) -> Paths:
    """Return the home of the process that serves all users of this machine."""
    named = os.environ.get("WARPDECK_HOME")
    if engine == SLURM:
        return SiteGatewayPaths(os.path.abspath(os.path.expanduser(named)) if named else SITE_GATEWAY_HOME)
    return default_paths() if named else Paths(SITE_HOME)


def _start(paths: Paths, *, local_node: bool) -> tuple[bool, str]:
    """Start the controller unless it runs. Return whether it was started, and why this machine runs no jobs.
    Raises UserError.
    """
    started = False
    for attempt in range(STARTS):
        with progress("starting the controller ..."):
            started |= ensure_running(paths, local_node=local_node)
        try:
            with progress("waiting for this machine's agent ..."):
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


def _check_down(args: Namespace) -> None:
    if args.kill_jobs and not args.machine:
        raise UsageError(f"{args.prog}: --kill-jobs needs --machine", f"see `{args.prog} --help`")


def _down(args: Namespace) -> int:
    if args.machine:
        from warpdeck.cli.shared import machine_processes

        return machine_processes.stop(kill_jobs=args.kill_jobs)
    paths = chosen_paths(args)
    if args.shared:
        paths = _shared_paths(paths.engine)
    daemon = paths.daemon
    if is_standby(paths):
        raise UserError(
            f"{paths.home} is a standby, and no controller runs here",
            "end it on the controller's machine: warpdeck standby remove",
        )
    with progress(f"stopping the {daemon} ..."):
        stopped = stop(paths)
    print(f"{daemon} stopped; jobs keep running" if stopped else f"no {daemon} is running in {paths.home}")
    return 0


def _status(args: Namespace) -> int:
    if args.machine:
        from warpdeck.cli.shared import machine_processes

        return machine_processes.show(as_json=args.json)
    paths = chosen_paths(args)
    if args.shared:
        paths = _shared_paths(paths.engine)
    if args.shared and paths.engine == SLURM:
        return _site_gateway_status(paths, as_json=args.json)
    try:
        client = SyncClient.connect(paths, start=False)
    except UserError:
        _not_running(paths, as_json=args.json)
        return 1
    with client, progress(f"waiting for the {paths.daemon} ..."):
        found = client.call("status")
    if args.json:
        print_json({"running": True, **found})
    else:
        _print_status(found)
    return 0


def _not_running(paths: Paths, *, as_json: bool) -> None:
    """Print that no process of this home answers, and where the site is served if that is known."""
    if as_json:
        print_json({"running": False, "home": paths.home, "engine": {"name": paths.engine}})
    elif elsewhere := serving_elsewhere(paths):
        print(f"{elsewhere.message}\n  {elsewhere.hint}", file=sys.stderr)
    elif host := other_host(paths):
        print(f"the {paths.daemon} in {paths.home} runs on {host}", file=sys.stderr)
    else:
        print(f"no {paths.daemon} is running in {paths.home}", file=sys.stderr)


def _quota_lines(quota: dict[str, Any] | None) -> list[str]:
    """Return the lines about the user's quotas, if the site has any."""
    if quota is None or not quota["max_jobs"]:
        return []
    return [
        f"your quota: {quota['jobs']:,} of {quota['max_jobs']:,} unfinished jobs, "
        f"{quota['request_bytes'] >> 20:,} of {quota['max_request_bytes'] >> 20:,} MiB of scripts and environments, "
        f"{quota['trees']:,} of {quota['max_trees']:,} code snapshots with "
        f"{quota['tree_bytes'] >> 20:,} of {quota['max_tree_bytes'] >> 20:,} MiB"
    ]


def _print_status(found: dict[str, Any]) -> None:
    jobs = ", ".join(f"{count} {state}" for state, count in sorted(found["jobs"].items())) or "none"
    print(f"running, pid {found['pid']}, for {format_duration(found['uptime_s'])}, in {found['home']}")
    print(f"engine: {engine_text(found['engine'], version=found['version'], now=time.time())}")
    if found["engine"]["problem"]:
        print(f"problem: {clean(found['engine']['problem'])}")
    for line in site_gateway_lines(found["engine"].get("site_gateway")):
        print(line)
    if rest := found["engine"].get("rest"):
        print(rest_line(rest))
    print(f"nodes: {found['nodes']}   jobs: {jobs}")
    for line in _quota_lines(found["quota"]):
        print(line)
    if found["standby"]:
        from warpdeck.cli.verbs.site.standby import standby_lines

        for line in standby_lines(found["standby"]):
            print(line)
    for line in _lost_lines(found):
        print(line)
    print(f"log: {found['log']}")


def _lost_lines(found: dict[str, Any]) -> list[str]:
    """Return the lines about records that cannot be read or written."""
    lines = []
    if found["unreadable"]:
        names = ", ".join(found["unreadable"])
        lines.append(f"unreadable records, which state.db still contains: {names}; see the log")
    if found["audit_problem"]:
        lines.append(f"audit log: {clean(found['audit_problem'])}")
    return lines


def _site_gateway_status(paths: Paths, *, as_json: bool) -> int:
    """Show whether the site gateway runs, and its requests to Slurm."""
    from warpdeck.client.site_gateway_status import ask_status

    found = ask_status(paths.socket)
    if as_json:
        print_json({"running": found is not None, "home": paths.home, **(found._asdict() if found else {})})
    elif found is None:
        print(f"no site gateway is running in {paths.home}", file=sys.stderr)
    else:
        print(f"site gateway to Slurm running as {found.owner} in {paths.home}")
        print(f"cluster: {clean(found.cluster) or 'nobody has asked yet'}")
        print(f"requests to Slurm in the last minute: {found.requests_a_minute:.3g}")
    return 0 if found else 1


def engine_text(row: dict[str, Any], *, version: str, now: float) -> str:
    """Return a line about an engine (an EngineRow), such as "Slurm 24.11.5, cluster X, read 12 s ago, 6 requests a minute"."""
    if row["name"] != SLURM:
        return f"warpdeck {row['version'] or version}"
    parts = [f"Slurm {row['version']}".rstrip()]
    if row["cluster"]:
        parts.append(f"cluster {row['cluster']}")
    read_at, rate = row["read_at"], row["requests_a_minute"]
    parts.append("not read yet" if read_at is None else f"read {_age(now - read_at)} ago")
    if rate is not None:
        parts.append(f"{rate:.3g} request{'' if rate == 1 else 's'} a minute")
    return clean(", ".join(parts))


def site_gateway_lines(row: dict[str, Any] | None) -> list[str]:
    """Return the lines about the process that asks Slurm for all users (a SiteGatewayRow)."""
    if row is None:
        return []
    if row["problem"]:
        return [clean(f"site gateway: not used now: {row['problem']}; this gateway asks Slurm itself")]
    rate = row["requests_a_minute"]
    lines = [
        f"site gateway: asks Slurm for all users, as {row['owner']}, {rate:.3g} requests in the last minute"
    ]
    if row["own"]:
        reasons = ", ".join(f"{name} ({reason})" for name, reason in row["own"].items())
        lines.append(f"asked by this gateway itself: {reasons}")
    return [clean(line) for line in lines]


def rest_line(row: dict[str, Any]) -> str:
    """Return the line about slurmrestd (a RestRow)."""
    if row["problem"] and not row["answers"]:
        return clean(f"slurmrestd: not used now: {row['problem']}; this gateway runs Slurm's commands")
    if not row["version"]:
        return clean(f"slurmrestd: {row['url']} was not asked yet")
    parts = " and ".join(", ".join(row["answers"]).rsplit(", ", 1))
    rest = f"; Slurm's commands are run for the others: {row['problem']}" if row["problem"] else ""
    return clean(f"slurmrestd: {row['url']} answers for {parts}, in data_parser {row['version']}{rest}")


def _age(seconds: float) -> str:
    return f"{max(0.0, seconds):.0f} s" if seconds < MINUTE_S else format_duration(seconds)


VERBS = (
    Verb(
        "up",
        "Start the controller, or the gateway to Slurm, in the background, if it is not running. Other verbs start it\n"
        "automatically.",
        (
            ENGINE,
            Argument("--no-local-node", "do not add this machine as a node"),
            Argument(
                "--shared",
                f"as root: serve all users of this machine from $WARPDECK_HOME or {SITE_HOME}. With Slurm, as any account: ask "
                f"Slurm for the gateways of all users, from $WARPDECK_HOME or {SITE_GATEWAY_HOME}",
            ),
            Argument(
                "--share-machine",
                "allow agents of this controller on machines that already run another agent ($WARPDECK_SHARE_MACHINE=1)",
            ),
        ),
        examples=(
            "warpdeck up",
            "warpdeck up --no-local-node     do not use this machine as a node",
            "warpdeck up --engine slurm      connect to the Slurm of this machine",
            "warpdeck up --engine slurm --shared    ask Slurm once for the gateways of all users",
        ),
        reads=False, run=_up,
    ),
    Verb(
        "down",
        "Stop the controller or the gateway to Slurm. Jobs keep running, and the next controller takes them over. With\n"
        "--machine, stop all of your controllers, gateways and agents on this machine (as root: those of all users).",
        (
            ENGINE,
            SHARED,
            Argument("--machine", "stop all controllers, gateways and agents on this machine"),
            Argument("--kill-jobs", "with --machine: also kill the jobs on this machine"),
        ),
        examples=(
            "warpdeck down",
            "warpdeck down --machine                stop controllers and agents; jobs keep running",
            "warpdeck down --machine --kill-jobs    stop the jobs too",
        ),
        reads=False, check=_check_down, run=_down,
    ),
    Verb(
        "status",
        "Show whether the controller or the gateway to Slurm is running, since when, and how many nodes and jobs it has.\n"
        "With --machine, list all controllers, gateways and agents on this machine.",
        (ENGINE, SHARED, Argument("--machine", "list all controllers, gateways and agents on this machine"), JSON),
        examples=("warpdeck status", "warpdeck status --json", "warpdeck status --machine"),
        run=_status,
    ),
)  # fmt: skip
