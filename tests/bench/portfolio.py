"""Judge the portfolio of orders: `python -m tests.bench.portfolio [FOLDER] [--kinds] [--jobs N] [--seeds N] [--loads X,Y]`.

With FOLDER, it replays the real logs in it (see `quality.CASES`; the Lublin log with exact limits and with limits from a
menu). With --kinds, it replays synthetic workloads of all kinds, with N seeds. Each workload is replayed at its own load
and with submissions stretched to the loads in --loads (default: 0.85,1,1.15). Each row shows mean wait, mean bounded
slowdown and longest wait of the portfolio and of every single order, as ratios to plain EASY, whose values are printed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from warpdeck.policy import PlannerSettings, PlannerView
from warpdeck.policy.portfolio import EASY, ORDERS, settings_for
from warpdeck.sim.portfolio import replay_portfolio
from warpdeck.sim.replay import ReplayResult, replay
from warpdeck.sim.report import ReplayReport, make_report
from warpdeck.sim.resource_model import Machine
from warpdeck.sim.simjobs import Workload, make_workload
from warpdeck.sim.trace import Trace, read_trace

from .quality import CASES
from .workloads import CHOSEN_ON, HELD_OUT, machine_of, make_trace

KIND_LOAD = 0.75
NO_WAIT_S = 10.0
"""Added to both waits of a ratio. A workload with a shorter mean wait under EASY is skipped."""
NAMES = (*ORDERS, "portfolio")


class Workloads(NamedTuple):
    """A named workload, its machine, and the rule for its limits."""

    name: str
    trace: Trace
    machine: Machine
    limits: str


def logs(folder: Path) -> Iterator[Workloads]:
    """Yield the real logs."""
    for case in CASES:
        trace = read_trace(str(folder / case.file))
        for limits in ("exact", "menu") if case.limits == "exact" else (case.limits,):
            yield Workloads(f"{case.file[:12]} {limits}", trace, case.machine(), limits)


def kinds(jobs: int, seeds: int) -> Iterator[Workloads]:
    """Yield synthetic workloads of all kinds."""
    for kind in (*CHOSEN_ON, *HELD_OUT):
        for seed in range(seeds):
            trace = make_trace(kind, seed=seed, jobs=jobs, load=KIND_LOAD)
            yield Workloads(f"{kind.name} {seed}", trace, machine_of(kind), "menu")


def at_load(trace: Trace, factor: float) -> Trace:
    """Return the log with all submissions moved closer together by this factor."""
    return trace._replace(jobs=tuple(job._replace(submit_s=job.submit_s / factor) for job in trace.jobs))


def reports(work: Workload, machine: Machine) -> dict[str, ReplayReport]:
    """Replay a workload under each single order and under the portfolio."""
    own = msgspec.structs.replace(PlannerSettings(), max_forecasts=0)
    site = PlannerView(nodes=machine.nodes, running=(), pending=())
    found: dict[str, ReplayResult] = {
        order: replay(work.jobs, site, settings_for(order, own, wait_bound_s=None)) for order in ORDERS
    }
    found["portfolio"], _ = replay_portfolio(work.jobs, site, own)
    return {name: make_report(result, machine_units=machine.units) for name, result in found.items()}


def show(name: str, found: dict[str, ReplayReport]) -> None:
    """Print a row."""
    easy = found[EASY]
    figures = [
        f"{(report.mean_wait_s + NO_WAIT_S) / (easy.mean_wait_s + NO_WAIT_S):.2f}"
        f"/{report.mean_bounded_slowdown / easy.mean_bounded_slowdown:.2f}"
        f"/{(report.max_wait_s + NO_WAIT_S) / (easy.max_wait_s + NO_WAIT_S):.2f}"
        for order, report in found.items()
        if order != EASY
    ]
    plain = f"{easy.mean_wait_s:,.0f}/{easy.mean_bounded_slowdown:.1f}/{easy.max_wait_s:,.0f}"
    print(f"{name:<30}{plain:>26}" + "".join(f"{text:>17}" for text in figures), flush=True)


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.portfolio", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--jobs", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--loads", default="0.85,1,1.15")
    args = parser.parse_args(arguments)
    print(f"{'workload x load':<30}{'EASY':>26}" + "".join(f"{name:>17}" for name in NAMES[1:]))
    cases = [
        *(logs(args.folder) if args.folder else ()),
        *(kinds(args.jobs, args.seeds) if args.kinds else ()),
    ]
    for case in cases:
        for load in map(float, args.loads.split(",")):
            work = make_workload(at_load(case.trace, load), case.machine, limits=case.limits)
            found = reports(work, case.machine)
            if found[EASY].mean_wait_s >= NO_WAIT_S:
                show(f"{case.name} x{load:g}", found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
