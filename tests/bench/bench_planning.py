"""Benchmark planning passes over full clusters, and passes after one event, by CPU time.

The benchmarks need pytest-benchmark. A plain `pytest` does not collect them because they take minutes.
Run `make bench` or `pytest tests/bench/bench_planning.py --benchmark-timer=time.process_time`.
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
    """Return a site that the tests of this module change in turn."""
    return Site(**SITES[request.param])


def test_pass_at_1000_nodes_and_10000_pending(benchmark: BenchmarkFixture) -> None:
    view = crowded_site(1000, 10_000)
    set_row(
        benchmark, "planning pass, 1,000 nodes x 8 GPUs, 10,000 pending", budget_ms=50, peak_mb=peak_mb(view)
    )
    assert timed(benchmark, lambda: plan(view, NOW, PlannerSettings()), FULL_ROUNDS).starts


def test_pass_at_10000_nodes_and_100000_pending(benchmark: BenchmarkFixture) -> None:
    view = crowded_site(10_000, 100_000, reservations=64)
    set_row(benchmark, "planning pass, 10,000 nodes, 100,000 pending, 64 reservations", budget_ms=500)
    assert timed(benchmark, lambda: plan(view, NOW, PlannerSettings()), LARGE_ROUNDS).starts


def test_pass_without_a_cache(
    benchmark: BenchmarkFixture, site: Site, request: pytest.FixtureRequest
) -> None:
    set_row(benchmark, f"{site_name(request)}: without a cache")
    timed(benchmark, lambda: plan(site.view, NOW, site.settings), LARGE_ROUNDS)


def test_pass_that_explains_all_waiting_jobs(
    benchmark: BenchmarkFixture, site: Site, request: pytest.FixtureRequest
) -> None:
    set_row(benchmark, f"{site_name(request)}: all waiting jobs explained", kept_mb=kept_mb(site))
    timed(benchmark, site.full_pass, LARGE_ROUNDS)


@pytest.mark.parametrize("event", ["one submitted", "one ended", "one node changed"])
def test_pass_after_one_event(
    benchmark: BenchmarkFixture, site: Site, event: str, request: pytest.FixtureRequest
) -> None:
    events = {
        "one submitted": site.submitted,
        "one ended": site.ended,
        "one node changed": site.node_changed,
    }
    budget = EVENT_BUDGET_MS if site_name(request) == BUDGETED else None
    set_row(benchmark, f"{site_name(request)}: {event}", budget_ms=budget)
    timed(benchmark, events[event], EVENT_ROUNDS, after=site.settle)


def site_name(request: pytest.FixtureRequest) -> str:
    """Return the name of the site."""
    return str(request.node.callspec.params["site"])


def set_row(
    benchmark: BenchmarkFixture, what: str, *, budget_ms: float | None = None, **figures: float
) -> None:
    """Set the name and the figures of the row in the table."""
    benchmark.extra_info.update(what=what, budget_ms=budget_ms, **figures)


def timed(
    benchmark: BenchmarkFixture,
    work: Callable[[], Any],
    rounds: int,
    *,
    after: Callable[[], None] | None = None,
) -> Plan:
    """Run and time the rounds.

    If `after` is given, the work only prepares and returns a function, and the function is timed.
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
