"""`warpdeck simulate`: replay a workload log, or the site's past, with the real planner in virtual time."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from warpdeck.base.errors import UserError
from warpdeck.base.output import print_json, print_note, print_table
from warpdeck.cli.arguments import JSON, Argument, Group, UsageError, number
from warpdeck.cli.verb import Verb
from warpdeck.notation.values.durations import format_duration

if TYPE_CHECKING:
    from argparse import Namespace

    from warpdeck.config import Decoded
    from warpdeck.policy import PlannerSettings, PlannerView
    from warpdeck.sim.history import WaitChange
    from warpdeck.sim.replay import Progress, ReplayResult
    from warpdeck.sim.report import ReplayReport
    from warpdeck.sim.resource_model import Machine
    from warpdeck.sim.simjobs import SimJob, Workload
    from warpdeck.sim.trace import Trace

MAX_NODES = 1_000_000
MAX_GPUS_PER_NODE = 1024
"""An upper bound; no real node has so many GPUs."""
MAX_CPUS = 1_000_000_000
MAX_GPUS = 100_000
SHOW_AFTER_S = 1.0
SHOW_EVERY_S = 0.2


def _check(args: Namespace) -> None:
    if args.history:
        if args.cpus is not None or args.nodes is not None or args.gpus_per_node is not None:
            raise UsageError(
                "--history uses the nodes of this site", "remove --nodes, --gpus-per-node and --cpus"
            )
        return
    for name, given in (
        ("--from", args.since),
        ("--to", args.until),
        ("--add-gpus", args.add_gpus),
        ("--weight", args.weight),
    ):
        if given:
            raise UsageError(f"{name} requires --history", "add --history")


def _simulate(args: Namespace) -> int:
    return _history(args) if args.history else _trace(args)


def _trace(args: Namespace) -> int:
    # Imported here so that --help does not load the planner.
    from warpdeck.config import read
    from warpdeck.config.site import build_settings
    from warpdeck.policy import PlannerSettings, PlannerView
    from warpdeck.sim.policies import settings_of
    from warpdeck.sim.report import make_report
    from warpdeck.sim.simjobs import make_workload
    from warpdeck.sim.trace import read_trace

    own = PlannerSettings() if not args.config else build_settings(_existing(read, args.config).config)
    trace = read_trace(args.trace)
    machine = _machine(args, trace)
    work = make_workload(trace, machine, limits=args.limits)
    site = PlannerView(nodes=machine.nodes, running=(), pending=())
    played = _replay(args.policy, work.jobs, site, settings_of(args.policy, own), _progress_line())
    report = make_report(
        played,
        machine_units=machine.units,
        refused=work.refused,
        skipped=work.skipped,
        without_limit=work.without_limit,
    )
    _print_assumptions(work, played.unstarted)
    _print(report, as_json=args.json)
    return 0


def _replay(
    policy: str,
    jobs: Sequence[SimJob],
    site: PlannerView,
    settings: PlannerSettings,
    progress: Progress | None,
) -> ReplayResult:
    """Replay the jobs, and print when and why the portfolio changed the order."""
    from warpdeck.sim.policies import PORTFOLIO
    from warpdeck.sim.portfolio import replay_portfolio
    from warpdeck.sim.replay import replay

    if policy != PORTFOLIO:
        return replay(jobs, site, settings, progress=progress)
    played, decisions = replay_portfolio(jobs, site, settings, progress=progress)
    begun_s = min((job.pending.eligible_at_unix for job in jobs), default=0.0)
    for decision in decisions:
        print_note(f"after {format_duration(decision.at_s - begun_s)}: {decision.order}: {decision.reason}")
    return played


def _machine(args: Namespace, trace: Trace) -> Machine:
    from warpdeck.sim.resource_model import GpuNodes, Pool

    if args.cpus is not None and (args.nodes is not None or args.gpus_per_node is not None):
        raise UsageError(
            "--cpus cannot be combined with --nodes", "use --cpus, or --nodes and --gpus-per-node"
        )
    if args.nodes is not None:
        if args.gpus_per_node is None:
            raise UsageError("--nodes needs --gpus-per-node", "0 means nodes without GPUs")
        return GpuNodes(args.nodes, gpus_per_node=args.gpus_per_node)
    cpus = args.cpus or trace.machine_cpus
    if cpus is None or args.gpus_per_node is not None:
        raise UsageError(
            "the size of the cluster is missing", "use --cpus C, or --nodes N and --gpus-per-node G"
        )
    return Pool(cpus)


def _print_assumptions(work: Workload, unstarted: tuple[object, ...]) -> None:
    """Print remarks on the assumptions behind the figures, where they differ from the log."""
    if work.skipped:
        print_note(
            f"{work.skipped:,} lines skipped: size, submit time or run time missing, or part of a job with its own line"
        )
    if work.refused:
        print_note(f"{work.refused:,} jobs refused: larger than the cluster")
    if work.without_limit:
        print_note(
            f"{work.without_limit:,} jobs without a time limit got their run time as limit; see --limits"
        )
    if unstarted:
        print_note(f"{len(unstarted):,} jobs never started")


def _print(report: ReplayReport, *, as_json: bool) -> None:
    import msgspec

    facts: dict[str, Any] = msgspec.to_builtins(report)
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        spoken = f"  {format_duration(value)}" if name.endswith("_s") and abs(value) >= 60 else ""
        print(f"{name:<22} {_figure(value):>14}{spoken}")


def _figure(value: float) -> str:
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"


def _progress(args: Namespace, done: int) -> Progress | None:
    """Return the progress callback of the next of two replays.

    `done` is the number of finished replays. With --progress, each percentage is printed on its own line.
    """
    if not args.progress:
        return _progress_line()
    shown = -1

    def show(ended: int, total: int) -> None:
        nonlocal shown
        percent = (100 * done + 100 * ended // max(1, total)) // 2
        if percent > shown:
            shown = percent
            print(f"{percent} %", file=sys.stderr, flush=True)

    return show


def _progress_line() -> Progress | None:
    """Return a callback that redraws one line of the terminal, or None without a terminal."""
    if not sys.stderr.isatty():
        return None
    begun = shown = time.monotonic()
    width = os.get_terminal_size(sys.stderr.fileno()).columns

    def show(ended: int, total: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - begun < SHOW_AFTER_S or (now - shown < SHOW_EVERY_S and ended + 256 < total):
            return
        shown = now
        line = f"{ended:,} of {total:,} jobs, {now - begun:.0f} s"
        drawn = "\r" + line[: width - 1].ljust(width - 1) + "\r"
        os.write(sys.stderr.fileno(), drawn.encode())  # sys.stderr replaces control characters

    return show


def _history(args: Namespace) -> int:
    from warpdeck.base.paths import default_paths
    from warpdeck.config import load, read
    from warpdeck.sim.archive import read_archive
    from warpdeck.sim.history import past_jobs, site_of, with_more_gpus
    from warpdeck.sim.policies import settings_of, weighted
    from warpdeck.sim.replay import replay

    paths = default_paths()
    jobs, nodes = read_archive(paths.database)
    past = past_jobs(jobs, since_unix=_day(args.since, -math.inf), until_unix=_day(args.until, math.inf))
    if not past:
        raise UserError("no finished jobs in this time range", "list them with `warpdeck queue --all`")
    site, settings = site_of(load(paths.config).config, nodes)
    now = replay(past, site, settings, progress=_progress(args, 0))
    if args.config:
        site, settings = site_of(_existing(read, args.config).config, nodes)
    if args.add_gpus:
        site = with_more_gpus(site, args.add_gpus)
    tried = weighted(settings_of(args.policy, settings), args.weight)
    then = _replay(args.policy, past, site, tried, _progress(args, 1))
    _compare(now, then, len(past), as_json=args.json)
    return 0


def _existing(read: Callable[[str], Decoded], path: str) -> Decoded:
    try:
        return read(path)
    except FileNotFoundError:
        raise UserError(f"no such file: {path}", "check the path") from None


def _day(text: str, default: float) -> float:
    """Return the local midnight of YYYY-MM-DD."""
    if not text:
        return default
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%d"))
    except (ValueError, OverflowError):
        raise UsageError(f"{text!r} is not a date", "use YYYY-MM-DD") from None


def _compare(now: ReplayResult, then: ReplayResult, jobs: int, *, as_json: bool) -> None:
    import msgspec

    from warpdeck.sim.history import compare

    users = compare(now, then, by=lambda job: job.user)
    accounts = compare(now, then, by=lambda job: job.account or "(none)")
    left = jobs - sum(change.jobs for change in users)
    if as_json:
        both = {"users": users, "accounts": accounts}
        facts: dict[str, Any] = {key: msgspec.to_builtins(value) for key, value in both.items()}
        print_json({"jobs": jobs, "not_started": left, **facts})
        return
    for title, changes in (("USER", users), ("ACCOUNT", accounts)):
        head = [title, "JOBS", "WAITED", "NOW", "THEN", "CHANGE", "SHORTER", "LONGER"]
        print_table(head, [_change_line(change) for change in changes], right=frozenset(range(1, 8)))
        print()
    if left:
        print_note(
            f"{left:,} of {jobs:,} jobs could not start on the current nodes in one of the two simulations"
        )


def _change_line(change: WaitChange) -> list[str]:
    sign = "-" if change.difference_s < 0 else "+"
    waits = (change.really_waited_s, change.now_waits_s, change.then_waits_s)
    return [
        change.name,
        str(change.jobs),
        *(format_duration(wait) for wait in waits),
        sign + format_duration(abs(change.difference_s)),
        str(change.shorter),
        str(change.longer),
    ]


VERBS = (
    Verb(
        "simulate", "Replay a workload log or the site's job history in virtual time and report waiting times.",
        (
            Group(
                Argument("--trace FILE", "a workload log: .csv or .swf, also .gz"),
                Argument("--history", "replay the finished jobs of this site"),
                required=True,
            ),
            Argument("--nodes N", "number of nodes", parse=number(1, MAX_NODES)),
            Argument("--gpus-per-node G", "number of GPUs of each node", parse=number(0, MAX_GPUS_PER_NODE)),
            Argument("--cpus C", "simulate one pool of C CPUs", parse=number(1, MAX_CPUS)),
            Argument(
                "--policy {fcfs,fcfs-easy,conservative,default,portfolio}",
                "a textbook policy, default: the configured policy, or portfolio: see below",
                default="default",
            ),
            Argument("--config FILE", "config.toml to simulate; with --trace only its [scheduler] table is used"),
            Argument("--limits {log,menu,exact}", "origin of the time limits of the jobs, see below", default="log"),
            Argument("--from DATE", "jobs submitted on or after YYYY-MM-DD", into="since"),
            Argument("--to DATE", "jobs submitted before YYYY-MM-DD", into="until"),
            Argument(
                "--add-gpus G",
                "with --history: add G GPUs, on copies of the node with the most GPUs",
                parse=number(0, MAX_GPUS),
                default=0,
            ),
            Argument(
                "--weight NAME=N", "with --history: set the weight of age, fairshare, job_size, partition or qos", repeats=True,
            ),
            Argument("--progress", "print the progress as lines, for programs that run this command"),
            JSON,
        ),
        examples=(
            "warpdeck simulate --trace curie.csv.gz --cpus 93312",
            "warpdeck simulate --trace philly.csv.gz --nodes 28 --gpus-per-node 8 --limits menu --policy fcfs-easy --json",
            "warpdeck simulate --trace curie.csv.gz --cpus 93312 --policy portfolio",
            "warpdeck simulate --history --config new.toml",
            "warpdeck simulate --history --add-gpus 8 --weight fairshare=1000",
        ),
        notes="""\
A workload log is a CSV file with the columns job_id,submit_s,runtime_s and cpus or nodes,gpus (optional: user,
account_or_vc, timelimit_s), or a file in the Standard Workload Format (.swf). Both can be gzipped.
time limits: log    from the log; a job without a limit gets its run time (the output counts these jobs)
             exact  the run time of each job
             menu   run time x 1 to 5 (depending on the job id), rounded up to 10 or 30 min, 1, 4, 12, 24, 48 h,
                    7, 30 or 365 d
portfolio:   the order changes to the one that would have given the shortest waits so far. The order is one of
             easy, shortest, response and response-wide. Each change is printed with its reason.""",
        check=_check, run=_simulate,
    ),
)  # fmt: skip
