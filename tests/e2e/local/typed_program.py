"""A user's program that uses the library.

mypy checks it as strictly as the product, with `assert_type` for the type of each call. The end-to-end tests
run it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import assert_type

import warpdeck
from warpdeck.model import Snapshot
from warpdeck.protocol.job_rows import JobDetail, JobRow, UsageCurves
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.results import Changed, ControllerStatus
from warpdeck.protocol.site_rows import ForecastRow


def ask(deck: warpdeck.Client, *, timeout_s: float) -> str:
    """Use every request of a blocking client, and return the output of the submitted job."""
    job = assert_type(deck.submit(command=["echo", "typed"], time=5, snapshot="none"), warpdeck.Job)
    assert_type(job.logs(), Iterator[str])
    outcome = assert_type(job.wait(timeout_s=timeout_s), warpdeck.Outcome)
    assert_type(outcome.check().rows, list[JobRow])
    assert_type((outcome.ok, outcome.exit_code), tuple[bool, int])
    assert_type((job.id, job.state(), job.notes), tuple[str, str, tuple[str, ...]])
    assert_type((job.row(), job.detail(), job.why()), tuple[JobRow, JobDetail, ForecastRow])
    assert_type((job.metrics(), job.snapshot()), tuple[UsageCurves, Snapshot | None])
    assert_type(deck.wait([job, int(job.id), job.id]), list[warpdeck.Outcome])
    assert_type(deck.jobs(states=["RUNNING"], ids=[1, "2_3"]), list[JobRow])
    assert_type((deck.nodes(), deck.status()), tuple[list[NodeRow], ControllerStatus])
    assert_type(deck.node(deck.nodes()[0].name), NodeRow)
    waiting = deck.submit(command="true", hold=True, snapshot="none")
    assert_type(deck.cancel(waiting), Changed)
    return assert_type(job.output(), bytes).decode()


def call(deck: warpdeck.Client, *, timeout_s: float) -> list[float]:
    """Call functions in jobs. The results have the functions' types."""
    with warpdeck.Executor(deck, time=5, snapshot="none") as pool:
        future = assert_type(pool.submit(len, "four"), warpdeck.CallFuture[int])
        sums = assert_type(pool.map(divide, [1, 2], [2, 4], chunksize=2), Iterator[float])
        results = [*sums, future.result(timeout_s)]
        job = assert_type(future.job, warpdeck.Job | None)
        assert job is not None
    return results


def divide(numerator: float, denominator: float) -> float:
    """A function of the program."""
    return numerator / denominator


async def ask_in_a_loop(deck: warpdeck.AsyncClient) -> list[str]:
    """Submit two jobs at once and return the lines of both."""
    jobs = await asyncio.gather(*(deck.submit(command=f"echo {n}", snapshot="none") for n in range(2)))
    assert_type(jobs, list[warpdeck.AsyncJob])
    assert_type(await deck.wait(jobs), list[warpdeck.Outcome])
    assert_type(await deck.nodes(), list[NodeRow])
    return [line for job in jobs async for line in job.logs(follow=False)]
