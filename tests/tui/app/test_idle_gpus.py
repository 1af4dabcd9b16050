"""The list of allocated but idle GPUs with their users."""

from __future__ import annotations

import time
from pathlib import Path

from tests.tui.app.app_pilot import run_app

from warpdeck.protocol.job_rows import JobRow, UsageRow
from warpdeck.protocol.results import Delta
from warpdeck_tui.viewmodels.site.idle_gpus import idle_jobs, idle_words, waste_row, wastes

NOW = 100_000.0


def job(number: int, *, gpus: int = 1, util: int | None = 0, ran_s: float = 7200, now: float = NOW) -> JobRow:
    return JobRow(
        id=number,
        label=str(number),
        array_job_id=number,
        user="bob",
        name="sleeper",
        state="RUNNING",
        state_short="R",
        start=now - ran_s,
        node_list="gpu01",
        gpus=gpus,
        gpu_util_pct=util,
    )


def test_only_idle_gpus_are_listed_and_the_largest_jobs_first() -> None:
    jobs = [job(1), job(2, gpus=8), job(3, util=60), job(4, gpus=0), job(5, util=None), job(6, ran_s=10)]
    assert [row.id for row in idle_jobs(jobs, NOW)] == [2, 1]


def test_wasted_gpu_hours_are_the_idle_share_of_the_gpu_hours() -> None:
    rows = [job(1), job(2, gpus=8), job(3)]
    used = {1: UsageRow(gpu_idle_pct=100.0), 2: UsageRow(gpu_idle_pct=50.0)}
    found = wastes(rows, used, NOW)
    assert [(waste.row.id, waste.gpu_hours) for waste in found] == [(2, 8.0), (1, 2.0), (3, None)]
    assert [cell.text for cell in waste_row(found[0], now=NOW)[1]] == [
        "2",
        "bob",
        "8",
        "2h00",
        "50%",
        "8.0 h",
        "gpu01  sleeper",
    ]
    assert waste_row(found[2], now=NOW)[1][5].text == "?"
    assert idle_words(found) == "10 GPUs of 3 jobs are idle; 10.0 GPU-hours wasted"
    assert idle_words([]) == "No idle GPUs"


async def test_the_list_of_idle_gpus_opens_from_the_map(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("2")
        await ui.shows("I Idle")
        await ui.press("I")
        await ui.shows("No idle GPUs")
        await ui.press("escape")
        ui.app.board.apply(Delta(jobs=[job(900, gpus=2, now=time.time())]))
        await ui.press("I")
        await ui.shows("2 GPUs of 1 job are idle", "900", "bob", "sleeper")
        dialog = ui.app.screen.query_one(".dialog")
        assert dialog.size.height < 10, "it is as tall as its content"
        await ui.press("escape")
        await ui.shows("color: utilization")
