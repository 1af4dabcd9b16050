"""Judge the planner by workload logs: `python -m tests.bench.quality [FOLDER]`.

With FOLDER, it replays real logs and compares the results with those of an independent simulator. Without it, it
compares the default policy with plain EASY on synthetic workloads of many kinds, in four minutes. The logs are not
part of the repository: CEA Curie (Parallel Workloads Archive), a Lublin model log (deep-batch-scheduler) and one
virtual cluster of Microsoft Philly, as CSV under the names below. Ratios below 1 are better than plain EASY.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from warpdeck.policy import PlannerSettings, PlannerView
from warpdeck.sim.policies import TEXTBOOK, settings_of
from warpdeck.sim.replay import replay
from warpdeck.sim.report import ReplayReport, make_report
from warpdeck.sim.resource_model import GpuNodes, Machine, Pool
from warpdeck.sim.simjobs import make_workload
from warpdeck.sim.trace import read_trace

from .workloads import CHOSEN_ON, HELD_OUT, LOADS, Kind, machine_of, make_trace

JOBS, SEEDS = 1500, 1
NO_WAIT_S = 10.0
"""A workload with a shorter mean wait under EASY is skipped. Both waits of a ratio are increased by this time."""


class Case(NamedTuple):
    """A log, its machine and its time limits.

    `reference` contains the values of the independent simulator: policy -> (mean wait in s, mean bounded slowdown).
    """

    file: str
    limits: str
    machine: Callable[[], Machine]
    reference: dict[str, tuple[float, float]]


CASES = (
    Case(
        "cea_curie_2011_slurm_sample.csv.gz",
        "log",
        lambda: Pool(93_312),
        {"fcfs": (4245, 186.16), "fcfs-easy": (391, 5.07), "conservative": (502, 5.80)},
    ),
    Case(
        "lublin_256_new2.csv.gz",
        "exact",
        lambda: Pool(256),
        {"fcfs": (1_172_120, 54_575), "fcfs-easy": (9704, 256.6), "conservative": (9659, 239.6)},
    ),
    Case(
        "philly_2017_vc_ee9e8c.csv.gz",
        "menu",
        lambda: GpuNodes(28, gpus_per_node=8),
        {"fcfs": (12_225, 12.06), "fcfs-easy": (7350, 12.49)},
    ),
)


def measure(folder: Path, case: Case, policy: str) -> ReplayReport:
    """Run one replay."""
    machine = case.machine()
    workload = make_workload(read_trace(str(folder / case.file)), machine, limits=case.limits)
    site = PlannerView(nodes=machine.nodes, running=(), pending=())
    played = replay(workload.jobs, site, settings_of(policy, PlannerSettings()))
    return make_report(
        played, machine_units=machine.units, refused=workload.refused, skipped=workload.skipped
    )


def figures(report: ReplayReport) -> tuple[float, float, float, float]:
    """Return mean, 95th percentile and maximum of the waits, and the slowdown."""
    return (report.mean_wait_s, report.p95_wait_s, report.max_wait_s, report.mean_bounded_slowdown)


def show(case: Case, policy: str, report: ReplayReport, easy: ReplayReport | None) -> None:
    """Print a row: the figures, and their ratio to the reference values or to plain EASY."""
    text = f"{case.file[:22]:<23}{policy:<13}" + "".join(f"{value:>13,.1f}" for value in figures(report))
    if policy in case.reference:
        mean, slowdown = case.reference[policy]
        off = max(abs(report.mean_wait_s / mean - 1), abs(report.mean_bounded_slowdown / slowdown - 1))
        text += f"   {off:.2%} off the reference"
    elif easy is not None:
        ratios = [mine / other for mine, other in zip(figures(report), figures(easy), strict=True)]
        text += "   x " + " / ".join(f"{ratio:.2f}" for ratio in ratios) + " of EASY's"
    print(f"{text}   {report.cpu_s:.0f} s", flush=True)


class Ratios(NamedTuple):
    """Ratios of the default policy to plain EASY."""

    mean_wait: float
    p95_wait: float
    max_wait: float
    slowdown: float


def compare(
    kind: Kind, *, limits: str, load: float, seed: int, jobs: int, own: PlannerSettings
) -> Ratios | None:
    """Run both policies on one synthetic workload. Return None if jobs hardly wait."""
    machine = machine_of(kind)
    work = make_workload(make_trace(kind, seed=seed, jobs=jobs, load=load), machine, limits=limits)
    site = PlannerView(nodes=machine.nodes, running=(), pending=())
    easy, default = (
        make_report(replay(work.jobs, site, settings_of(policy, own)), machine_units=machine.units)
        for policy in ("fcfs-easy", "default")
    )
    if easy.mean_wait_s < NO_WAIT_S:
        return None
    mean, p95, most = (
        (mine + NO_WAIT_S) / (theirs + NO_WAIT_S)
        for mine, theirs in zip(figures(default)[:3], figures(easy)[:3], strict=True)
    )
    return Ratios(mean, p95, most, default.mean_bounded_slowdown / easy.mean_bounded_slowdown)


def together(found: Sequence[Ratios]) -> Ratios:
    """Return the geometric means of the ratios."""
    return Ratios(
        *(math.exp(sum(math.log(ratio) for ratio in of) / len(of)) for of in zip(*found, strict=True))
    )


def judge(title: str, kinds: Sequence[Kind]) -> None:
    """Compare the default with EASY on synthetic workloads, with one row per kind and one for all."""
    print(
        f"{title:<26}{'mean wait':>12}{'p95':>8}{'max':>8}{'slowdown':>10}   longest wait: worst, longer than EASY's"
    )
    every: list[Ratios] = []
    for kind in kinds:
        made = [
            compare(kind, limits=limits, load=load, seed=seed, jobs=JOBS, own=PlannerSettings())
            for seed in range(SEEDS)
            for limits, load in LOADS
        ]
        found = [ratios for ratios in made if ratios is not None]
        every += found
        if found:
            _show_ratios(kind.name, found)
    _show_ratios("all", every)


def _show_ratios(name: str, found: Sequence[Ratios]) -> None:
    mean, p95, longest, slowdown = together(found)
    longer = sum(ratios.max_wait > 1 for ratios in found)
    text = f"{name:<26}{mean:>12.2f}{p95:>8.2f}{longest:>8.2f}{slowdown:>10.2f}"
    print(f"{text}   {max(ratios.max_wait for ratios in found):.2f}, {longer} of {len(found)}", flush=True)


def replay_logs(folder: Path) -> None:
    """Replay every log with every policy."""
    print(f"{'log':<23}{'policy':<13}{'mean wait':>13}{'p95':>13}{'max':>13}{'slowdown':>13}")
    for case in CASES:
        easy: ReplayReport | None = None
        for policy in (*TEXTBOOK, "default"):
            report = measure(folder, case, policy)
            easy = report if policy == "fcfs-easy" else easy
            show(case, policy, report, easy)


def main() -> int:
    """Replay the logs if a folder is given, else synthetic workloads."""
    if len(sys.argv) > 2:
        print(__doc__, file=sys.stderr)
        return 2
    if len(sys.argv) == 2:
        replay_logs(Path(sys.argv[1]))
        return 0
    print("the default policy compared with plain EASY on synthetic workloads: ratios below 1 are better\n")
    judge("kinds used for tuning", CHOSEN_ON)
    print()
    judge("kinds used only for judging", HELD_OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
