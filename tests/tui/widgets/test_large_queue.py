"""CPU time and terminal output of an update of the queue with a hundred thousand jobs."""

from __future__ import annotations

import time

from tests.tui.widgets.widget_pilot import STYLES, run_widget
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.jobs.job_columns import DEFAULT_COLUMNS, JobRows, columns_of
from warpdeck_tui.viewmodels.jobs.listing import Choice, Listing
from warpdeck_tui.widgets.virtual_table import VirtualTable

NOW = 1_000_000.0
TICK_BYTES = 4_000
"""Limit of the update each second: the clocks of a screen full of running jobs, one per line."""

FIRST_CPU_S = 0.25
"""Limit of the first page of a hundred thousand jobs. An idle machine needs 35 ms; all jobs take ten times that."""


def job(number: int, **fields: object) -> JobRow:
    base: dict[str, object] = {"id": number, "label": str(number), "array_job_id": number, "user": "ann"}
    return JobRow(**{**base, "name": f"train{number % 97}", "gpus": 8, **fields})  # type: ignore[arg-type]


def running(number: int) -> JobRow:
    return job(
        number, state="RUNNING", state_short="R", start=NOW - 60 * number, gpu_util_pct=90, node_list="gpu01"
    )


async def test_an_update_of_a_hundred_thousand_jobs_writes_only_visible_changes() -> None:
    jobs = {number: running(number) if number <= 10 else job(number) for number in range(1, 100_001)}
    listing = Listing()
    begun = time.process_time()
    listing.follow(jobs, Choice())
    assert time.process_time() - begun < FIRST_CPU_S
    while listing.behind:
        listing.follow(jobs, Choice())
    table = VirtualTable(columns_of(DEFAULT_COLUMNS), STYLES, empty="", marks=True)
    async with run_widget(table) as ui:
        table.update(JobRows(listing, DEFAULT_COLUMNS, now=NOW))
        await ui.settle()
        ui.take_written()
        table.update(JobRows(listing, DEFAULT_COLUMNS, now=NOW + 1))
        await ui.pilot.pause()
        ticked = ui.take_written()
        assert 0 < len(ticked) < TICK_BYTES, len(ticked)
        assert "◌" not in ticked  # waiting jobs have no clock
        jobs[99_999] = job(99_999, priority=-1)
        assert listing.follow(jobs, Choice())
        table.update(JobRows(listing, DEFAULT_COLUMNS, now=NOW + 1))
        await ui.pilot.pause()
        assert ui.take_written() == ""
