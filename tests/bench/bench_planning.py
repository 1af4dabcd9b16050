"""Planning benchmarks for pytest-benchmark: CPU time of passes over full clusters, and of passes after one
event.

A plain `pytest` does not collect them because they take minutes. Run `make bench` or
`pytest tests/bench/bench_planning.py --benchmark-timer=time.process_time`.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from warpdeck.policy import Plan, PlannerSettings, PlannerView, plan

from .crowded import NOW, WEIGHTED, Site, crowded_site

EVENT_BUDGET_MS = 5.0
FULL_ROUNDS, LARGE_ROUNDS, EVENT_ROUNDS = 7, 3, 15
SITES: dict[str, dict[str, Any]] = {
    "1,000 full nodes, 1,000 pending": {"nodes": 1000, "pending": 1000},
    "1,000 full nodes, 10,000 pending": {"nodes": 1000, "pending": 10_000},
    "1,000 full nodes, 100,000 pending": {"nodes": 1000, "pending": 100_000},
    "1,000 full nodes, 10,000 pending, with accounts, limits, weights": {
        "nodes": 1000,
        "pending": 10_000,
        "settings": WEIGHTED,
    },
    "1,000 full nodes, 10,000 pending, all --exclusive=user": {
        "nodes": 1000,
        "pending": 10_000,
        "exclusive_users": True,
    },
    "10,000 full nodes, 100,000 pending, 64 reservations": {
        "nodes": 10_000,
        "pending": 100_000,
        "reservations": 64,
    },
}
BUDGETED = "1,000 full nodes, 10,000 pending"
"""The site to which the time budget of one event applies."""


@pytest.fixture(scope="module", params=SITES)
def site(request: pytest.FixtureRequest) -> Site:
    """A site that the tests of this module change one after the other."""
    return Site(**SITES[request.param])


def test_pass_at_1000_nodes_and_10000_pending(benchmark: BenchmarkFixture) -> None:
    view = crowded_site(1000, 10_000)
    told(
        benchmark, "planning pass, 1,000 nodes x 8 GPUs, 10,000 pending", budget_ms=50, peak_mb=peak_mb(view)
    )
    assert timed(benchmark, lambda: plan(view, NOW, PlannerSettings()), FULL_ROUNDS).starts


def test_pass_at_10000_nodes_and_100000_pending(benchmark: BenchmarkFixture) -> None:
    view = crowded_site(10_000, 100_000, reservations=64)
    told(benchmark, "planning pass, 10,000 nodes, 100,000 pending, 64 reservations", budget_ms=500)
    assert timed(benchmark, lambda: plan(view, NOW, PlannerSettings()), LARGE_ROUNDS).starts


def test_nothing_kept(benchmark: BenchmarkFixture, site: Site, request: pytest.FixtureRequest) -> None:
    told(benchmark, f"{where(request)}: nothing kept")
    timed(benchmark, lambda: plan(site.view, NOW, site.settings), LARGE_ROUNDS)


def test_all_told(benchmark: BenchmarkFixture, site: Site, request: pytest.FixtureRequest) -> None:
    told(benchmark, f"{where(request)}: all told", kept_mb=kept_mb(site))
    timed(benchmark, site.full_pass, LARGE_ROUNDS)


@pytest.mark.parametrize("event", ["one submitted", "one ended", "one node changed"])
def test_one_event(
    benchmark: BenchmarkFixture, site: Site, event: str, request: pytest.FixtureRequest
) -> None:
    happen = {
        "one submitted": site.submitted,
        "one ended": site.ended,
        "one node changed": site.node_changed,
    }
    budget = EVENT_BUDGET_MS if where(request) == BUDGETED else None
    told(benchmark, f"{where(request)}: {event}", budget_ms=budget)
    timed(benchmark, happen[event], EVENT_ROUNDS, after=site.settle)


def where(request: pytest.FixtureRequest) -> str:
    """The description of the site."""
    return str(request.node.callspec.params["site"])


def told(benchmark: BenchmarkFixture, what: str, *, budget_ms: float | None = None, **figures: float) -> None:
    """Set the row's name and figures in the table."""
    benchmark.extra_info.update(what=what, budget_ms=budget_ms, **figures)


def timed(
    benchmark: BenchmarkFixture,
    work: Callable[[], Any],
    rounds: int,
    *,
    after: Callable[[], None] | None = None,
) -> Plan:
    """Run the rounds. If the work returns a function, the work is only the preparation and the function is
    timed.

    The garbage collector is off: nothing here creates cycles, and its runs would come at random times.
    """
    gc.collect()
    gc.disable()
    try:
        made: Plan
        if after is None:
            made = benchmark.pedantic(work, rounds=rounds)
        else:
            made = benchmark.pedantic(
                lambda follow: follow(),
                setup=lambda: ((work(),), {}),
                teardown=lambda _: after(),
                rounds=rounds,
            )
    finally:
        gc.enable()
    return made


def peak_mb(view: PlannerView) -> float:
    """Return the peak memory of a pass in MB."""
    tracemalloc.start()
    plan(view, NOW, PlannerSettings())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def kept_mb(site: Site) -> float:
    """Return the memory in MB that the pass cache keeps."""
    tracemalloc.start()
    site.full_pass()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return kept / 1e6
