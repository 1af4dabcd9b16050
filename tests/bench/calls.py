"""Rate of function calls through `warpdeck.Executor`, and their cost for the controller and the program."""

from __future__ import annotations

import os
import time

import warpdeck

from .rig import Rig, cpu_s, rss_mb
from .table import Line, Measured, Table

CALLS = 1000
TOGETHER = 20
"""Number of calls that share a job in the second row."""

ALONE = Line(f"Executor.map of {CALLS:,} small functions, each a job", "/s", more_is_better=True)
SHARED = Line(
    f"Executor.map of {CALLS:,} small functions, chunksize={TOGETHER}", "/s", budget=100, more_is_better=True
)
CONTROLLER_CPU = Line(f"controller's CPU for {CALLS:,} calls, each a job", "s")
PROGRAM_CPU = Line(f"the program's own CPU for {CALLS:,} calls, each a job", "s")
CONTROLLER_MEMORY = Line(f"{CALLS:,} calls, each a job, in the controller", "MB")


def measure(table: Table, rig: Rig) -> None:
    """Measure both ways, and the cost of the first.

    `len` needs no pickled code, so only the round trip is measured.
    """
    pid = rig.controller_pid()
    with warpdeck.Client(rig.home.path) as deck:
        calls_a_second(deck, CALLS // 10, chunksize=TOGETHER)
        before_s, before_mb, own_s = cpu_s(pid), rss_mb(pid), time.process_time()
        table.add(ALONE, Measured([calls_a_second(deck, CALLS, chunksize=1)]))
        table.add(CONTROLLER_CPU, Measured([cpu_s(pid) - before_s]))
        table.add(CONTROLLER_MEMORY, Measured([rss_mb(pid) - before_mb]))
        table.add(PROGRAM_CPU, Measured([time.process_time() - own_s]))
        rates = [calls_a_second(deck, CALLS, chunksize=TOGETHER) for _ in range(3)]
        table.add(SHARED, Measured(rates))


def calls_a_second(deck: warpdeck.Client, calls: int, *, chunksize: int) -> float:
    """Return calls per second, from the call of `map` to the last result."""
    with warpdeck.Executor(deck, snapshot="none", cwd="/tmp", env={"PATH": os.environ["PATH"]}) as pool:
        begun = time.perf_counter()
        results = list(pool.map(len, [str(number) for number in range(calls)], chunksize=chunksize))
        taken_s = time.perf_counter() - begun
    assert sum(results) == sum(len(str(number)) for number in range(calls))
    return calls / taken_s
