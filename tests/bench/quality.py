"""python -m tests.bench.quality FOLDER: the planner on real workload logs, beside an independent simulator's figures.

The logs are not part of the repository: CEA Curie (Parallel Workloads Archive), a Lublin model log (deep-batch-scheduler)
and one virtual cluster of Microsoft Philly, as CSV under the names below. Ratios below 1 are better than plain EASY's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from warpdeck.policy import Settings, View
from warpdeck.sim.machine import GpuNodes, Machine, Pool
from warpdeck.sim.policies import NAMES, settings_of
from warpdeck.sim.replay import replay
from warpdeck.sim.report import Report, make_report
from warpdeck.sim.simjobs import make_workload
from warpdeck.sim.trace import read_trace


class Case(NamedTuple):
    """A log, its machine and limits, and the yardstick: policy -> (mean wait in s, mean bounded slowdown)."""

    file: str
    limits: str
    machine: Callable[[], Machine]
    yardstick: dict[str, tuple[float, float]]


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


def measure(folder: Path, case: Case, policy: str) -> Report:
    """One replay."""
    machine = case.machine()
    work = make_workload(read_trace(str(folder / case.file)), machine, limits=case.limits)
    site = View(nodes=machine.nodes, running=(), pending=())
    played = replay(work.jobs, site, settings_of(policy, Settings()))
    return make_report(played, machine_units=machine.units, refused=work.refused, skipped=work.skipped)


def figures(report: Report) -> tuple[float, float, float, float]:
    """Mean, 95th percentile and maximum wait, and slowdown."""
    return (report.mean_wait_s, report.p95_wait_s, report.max_wait_s, report.mean_bounded_slowdown)


def show(case: Case, policy: str, report: Report, easy: Report | None) -> None:
    """A line: the figures, and how far they are from the yardstick, or what they are of plain EASY's."""
    text = f"{case.file[:22]:<23}{policy:<13}" + "".join(f"{value:>13,.1f}" for value in figures(report))
    if policy in case.yardstick:
        mean, slowdown = case.yardstick[policy]
        off = max(abs(report.mean_wait_s / mean - 1), abs(report.mean_bounded_slowdown / slowdown - 1))
        text += f"   {off:.2%} off the yardstick"
    elif easy is not None:
        ratios = [one / other for one, other in zip(figures(report), figures(easy), strict=True)]
        text += "   x " + " / ".join(f"{ratio:.2f}" for ratio in ratios) + " of EASY's"
    print(f"{text}   {report.cpu_s:.0f} s", flush=True)


def main() -> int:
    """Every policy on every log."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    print(f"{'log':<23}{'policy':<13}{'mean wait':>13}{'p95':>13}{'max':>13}{'slowdown':>13}")
    for case in CASES:
        easy: Report | None = None
        for policy in NAMES:
            report = measure(Path(sys.argv[1]), case, policy)
            easy = report if policy == "fcfs-easy" else easy
            show(case, policy, report, easy)
    return 0


if __name__ == "__main__":
    sys.exit(main())
