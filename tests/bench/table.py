"""Print measured rows with their budgets and the values of other schedulers on the same machine."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

COLUMNS = ("quantity", "median", "spread", "n", "budget", "", "Slurm", "HyperQueue")
WIDTHS = (50, 12, 14, 4, 9, 5, 20, 20)
NOT_INSTALLED = "not installed"


@dataclass(frozen=True)
class Measured:
    """Readings of one quantity, in the unit of its row."""

    readings: Sequence[float]

    @property
    def median(self) -> float:
        return statistics.median(self.readings)

    @property
    def spread(self) -> str:
        """The smallest and the largest reading, "" if there is only one."""
        if len(self.readings) < 2:
            return ""
        return f"{_number(min(self.readings))}-{_number(max(self.readings))}"


@dataclass(frozen=True)
class Line:
    """A quantity. `more_is_better` is for rates. `slurm` and `hyperqueue` are keys of the same quantity there."""

    what: str
    unit: str
    budget: float | None = None
    more_is_better: bool = False
    slurm: str = ""
    hyperqueue: str = ""

    def verdict(self, value: float) -> str:
        """Return "ok" if the value is within the budget, else "OVER"; "" without a budget."""
        if self.budget is None:
            return ""
        is_within = value >= self.budget if self.more_is_better else value <= self.budget
        return "ok" if is_within else "OVER"


PeerReadings = dict[str, float]
"""The median of each quantity measured with another scheduler, by key; empty if it is not installed."""


class Table:
    """Prints rows, and remembers those that missed their budget."""

    def __init__(self, *, slurm: PeerReadings, hyperqueue: PeerReadings) -> None:
        self._slurm = slurm
        self._hyperqueue = hyperqueue
        self.missed: list[str] = []

    def head(self) -> None:
        """Print the machine and the column headers."""
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
        print(
            f"{_processor()}, {os.cpu_count()} CPUs, {platform.release()}, Python {platform.python_version()}"
        )
        print(f"load average at the start: {load}; x N after a peer's reading: ours is N times better\n")
        print(_row(COLUMNS), flush=True)

    def add_slurm(self, readings: PeerReadings) -> None:
        """Add readings of Slurm that were taken later."""
        self._slurm = self._slurm | readings

    def add(self, line: Line, found: Measured) -> None:
        """Print one row."""
        value = found.median
        verdict = line.verdict(value)
        if verdict == "OVER":
            self.missed.append(line.what)
        budget = "" if line.budget is None else f"{'>=' if line.more_is_better else '<='} {line.budget:g}"
        cells = (
            line.what,
            f"{_number(value)} {line.unit}",
            found.spread,
            str(len(found.readings)),
            budget,
            verdict,
            _peer_cell(self._slurm, line.slurm, value, line),
            _peer_cell(self._hyperqueue, line.hyperqueue, value, line),
        )
        print(_row(cells), flush=True)

    def left_out(self, line: Line, reason: str) -> None:
        """Print a row that cannot be measured here."""
        print(_row((line.what, f"left out: {reason}")), flush=True)

    def foot(self) -> None:
        """Print the machine's load during the run, and the rows that missed their budget."""
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
        print(f"\nload average at the end: {load}")
        print("over budget: " + ("; ".join(self.missed) or "nothing"), flush=True)


def timed(work: Callable[[], object], runs: int, *, scale: float = 1e3) -> Measured:
    """Measure the time of each run in milliseconds, after one warm-up run."""
    work()
    found = []
    for _ in range(runs):
        begun = time.perf_counter()
        work()
        found.append((time.perf_counter() - begun) * scale)
    return Measured(found)


def cpu_timed(work: Callable[[], object], runs: int) -> Measured:
    """Measure the CPU time of each run in milliseconds."""
    found = []
    for _ in range(runs):
        begun = time.process_time()
        work()
        found.append((time.process_time() - begun) * 1e3)
    return Measured(found)


def _peer_cell(peer: PeerReadings, key: str, value: float, line: Line) -> str:
    """Return the other scheduler's reading, and the factor by which ours is better."""
    if not key:
        return ""
    if not peer:
        return NOT_INSTALLED
    other = peer.get(key)
    if other is None:
        return "not measured"
    better = value / other if line.more_is_better else other / value
    return f"{_number(other)} {line.unit}, x {better:.3g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 1 else f"{value:.2f}"


def _row(cells: Sequence[str]) -> str:
    last = len(cells) - 1
    padded = [
        cell.rjust(width) if index in (1, 2, 3, 4) and last > 1 else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(cells, WIDTHS, strict=False))
    ]
    return "  ".join(padded).rstrip()


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for text in file:
            if text.startswith("model name"):
                return text.partition(":")[2].strip()
    return platform.machine()
