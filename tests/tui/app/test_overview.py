"""The overview: the rows of its panels, its layout, and the pages that its rows open."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.tui.app.app_pilot import ME, AppPilot, run_app

from warpdeck.protocol.job_rows import JobRow, WhyRow
from warpdeck.protocol.node_rows import GpuRow, NodeEventRow, NodeRow, ProcessRow
from warpdeck.protocol.results import Delta, Timeline
from warpdeck_tui.screens.history import HistoryScreen
from warpdeck_tui.screens.job import JobScreen
from warpdeck_tui.screens.node_page import NodeScreen
from warpdeck_tui.screens.nodes import NodesScreen
from warpdeck_tui.screens.overview import OverviewScreen
from warpdeck_tui.screens.queue import QueueScreen
from warpdeck_tui.viewmodels.nodes.timeline import Range
from warpdeck_tui.viewmodels.overview import capacity
from warpdeck_tui.viewmodels.overview.failures import failures, mostly
from warpdeck_tui.viewmodels.overview.links import Link, PanelRows, link_of
from warpdeck_tui.viewmodels.overview.my_jobs import my_jobs
from warpdeck_tui.viewmodels.overview.trouble import nodes_in_trouble
from warpdeck_tui.viewmodels.overview.unused import unused_gpus, unused_sessions
from warpdeck_tui.viewmodels.overview.waiting import median_wait_s, waiting
from warpdeck_tui.viewmodels.site.cluster_totals import Totals

NOW = 1_000_000_000.0
HOUR_S = 3600.0


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def job(number: int, state: str = "RUNNING", **fields: Any) -> JobRow:
    base = {"id": number, "label": str(number), "array_job_id": number, "user": "ann", "partition": "gpu"}
    return JobRow(**{**base, "state": state, "gpus": 1, **fields})


def texts(panel: PanelRows) -> list[list[str]]:
    return [[cell[0] for cell in cells] for _, cells in panel.rows]


def words(panel: PanelRows) -> str:
    return "".join(cell.text for cell in panel.title)


def test_a_row_names_the_page_that_it_opens() -> None:
    link = Link("history", "state:F reason:exit")
    assert link_of(link.key) == link
    assert link_of("") is None


def test_my_jobs_are_ordered_by_their_end_their_start_and_the_time_since_their_end() -> None:
    jobs = [
        job(1, start=NOW - HOUR_S, time_limit_s=7200, gpu_util_pct=80),
        job(2, start=NOW - HOUR_S, time_limit_s=3900, gpu_util_pct=1),
        job(3, "PENDING", why=WhyRow(expected_start=NOW + 7200)),
        job(4, "PENDING", why=WhyRow(expected_start=NOW + 60)),
        job(5, "PENDING", held=True),
        job(6, "COMPLETED", end=NOW - 120),
        job(7, user="bob"),
    ]
    panel = my_jobs(jobs, "ann", NOW)
    assert [key for key, _ in panel.rows] == ["job 2", "job 1", "job 4", "job 3", "job 5", "job 6"]
    assert [row[5] for row in texts(panel)] == [
        "5m left", "1h00 left", "in about 1m", "in about 2h00", "held", "2m ago",
    ]  # fmt: skip
    assert words(panel) == "My jobs  2 running, 3 waiting"
    assert len(my_jobs(jobs, None, NOW).rows) == 7


def test_the_waiting_time_of_a_partition_counts_each_task_and_no_held_job() -> None:
    jobs = [
        job(1, "PENDING", submit=NOW - 60, tasks_pending=5),
        job(2, "PENDING", submit=NOW - 7200, why=WhyRow(expected_start=NOW + 600)),
        job(3, "PENDING", submit=NOW - 9000, held=True),
        job(4, "PENDING", submit=NOW - 600, partition="cpu", gpus=0),
    ]
    panel = waiting(jobs, NOW)
    assert texts(panel)[:2] == [
        ["cpu", "1", "·", "10m", "10m", "?"],
        ["gpu", "6", "6", "1m", "2h00", "≈10m"],
    ]
    assert [key for key, _ in panel.rows] == [
        "queue state:PD part:cpu", "queue state:PD part:gpu", "queue state:PD", "job 2", "job 4", "job 1",
    ]  # fmt: skip
    assert words(panel) == "Waiting now  7 jobs, 1 held"
    assert median_wait_s([jobs[0], jobs[1]], NOW) == 60


def test_failures_are_counted_by_cause_for_the_last_day() -> None:
    def ended(number: int, state: str, ago_s: float, **fields: Any) -> JobRow:
        return job(number, state, end=NOW - ago_s, **fields)

    jobs = [
        ended(1, "FAILED", 60, exit_code="1:0"),
        ended(2, "FAILED", 70, exit_code="1:0"),
        ended(3, "FAILED", 80, exit_code="2:0"),
        ended(4, "FAILED", 90, exit_code="0:11"),
        ended(5, "FAILED", 100, exit_code="0:53", exit_cause="launch_failed"),
        ended(6, "OUT_OF_MEMORY", 110, exit_code="0:9", exit_cause="oom"),
        ended(7, "TIMEOUT", 120),
        ended(8, "NODE_FAIL", 130, node_list="gpu03"),
        ended(9, "TIMEOUT", 90_000),
    ]
    panel = failures(jobs, None, NOW)
    rows = texts(panel)
    heading = [row[0] for row in rows].index("latest")
    assert {row[0]: (row[1], row[3]) for row in rows[:heading]} == {
        "exit code": ("3", "exit 1 2x, exit 2"),
        "signal": ("1", "signal 11"),
        "did not start": ("1", "ann"),
        "out of memory": ("1", "ann"),
        "time limit": ("1", "ann"),
        "node failure": ("1", "gpu03"),
    }
    assert panel.rows[0][0] == "history state:F reason:exit !reason:launch_failed", (
        "the most frequent comes first"
    )
    assert [key for key, _ in panel.rows[heading + 1 :]] == [f"job {number}" for number in range(1, 9)]
    assert words(panel) == "Failures, last 24 hours  8  all users"
    assert failures(None, "ann", NOW).empty == "Loading..."
    assert failures(None, "ann", NOW, problem="no history here").empty == "no history here"
    assert mostly(["a", "b", "a", "", "c", "d"]) == "a 2x, b, c"


def test_idle_and_blocked_gpus_name_their_users() -> None:
    stranger = ProcessRow(pid=1, user="dave", command="jupyter", mem_bytes=1)
    gpu = GpuRow(index=3, uuid="GPU-3", name="H100", type="h100", mem_bytes=1)
    held = GpuRow(
        index=4, uuid="GPU-4", name="H100", type="h100", mem_bytes=1, blocked="in use", processes=[stranger]
    )
    node = NodeRow(name="gpu04", gpus=[gpu, held])
    idle = job(8, start=NOW - 7200, gpus=4, gpu_util_pct=1, node_list="gpu01")
    busy = job(9, start=NOW - 7200, gpu_util_pct=90)
    panel = unused_gpus([idle, busy], [node], NOW)
    assert texts(panel) == [
        ["4", "ann", "8", "1% busy, runs 2h00  gpu01"],
        ["1", "dave", "gpu04", "in use"],
    ]
    assert [key for key, _ in panel.rows] == ["job 8", "node gpu04"]
    assert words(panel) == "Idle and blocked GPUs  4 idle, 1 blocked"


def test_jobs_without_readings_are_not_called_busy() -> None:
    busy, unknown = job(9, start=NOW - 7200, gpu_util_pct=90), job(10, start=NOW - 7200, gpu_util_pct=None)
    assert unused_gpus([busy], [], NOW).empty == "No GPU is idle or blocked"
    assert (
        unused_gpus([busy, unknown], [], NOW).empty
        == "Idle GPUs are unknown: 1 job with GPUs has no readings"
    )


def test_a_site_without_gpus_shows_sessions_that_nobody_uses() -> None:
    session = job(
        8, start=NOW - 7200, gpus=0, cpus=4, interactive=True, idle_since=NOW - 3600, node_list="n1"
    )
    assert texts(unused_sessions([session], NOW)) == [["4", "ann", "8", "unattended 1h00  n1"]]


def test_nodes_in_trouble_come_before_the_events_of_the_day() -> None:
    nodes = [
        NodeRow(name="gpu01", state="idle"),
        NodeRow(name="gpu02", state="drained", reason="a fan", reason_at=NOW - 3600, jobs=["7"]),
        NodeRow(name="gpu03", state="down", at=NOW - 60),
    ]
    events = [
        NodeEventRow(at=NOW - 7200, kind="down", node="gpu05", text="no route"),
        NodeEventRow(at=NOW - 7000, kind="up", node="gpu05"),
        NodeEventRow(at=NOW - 6000, kind="job", node="gpu05", job="7", gpus=8),
    ]
    panel = nodes_in_trouble(nodes, events, NOW)
    assert texts(panel)[:2] == [
        ["gpu03", "down", "1m", "·", "no connection"],
        ["gpu02", "drained", "1h00", "1", "a fan"],
    ]
    assert [row[:2] for row in texts(panel)[2:]] == [["events"], ["gpu05", "back"], ["gpu05", "down"]]
    assert panel.rows[-1][0] == f"map {NOW - 7200:.0f} gpu05"
    assert words(panel) == "Nodes in trouble  1 down, 1 drained"


def test_the_chart_shows_the_shares_of_all_gpus() -> None:
    told = Timeline(
        since=NOW - 86_400, until=NOW, gpus=10, allocated=[0.0, 5.0, 10.0], util_pct=[None, 50.0, None]
    )
    assert capacity.of_timeline(told) == capacity.Capacity(
        Range(NOW - 86_400, NOW), [None, 50.0, 100.0], [None, 25.0, None]
    )


def test_the_time_before_the_first_known_data_stays_empty() -> None:
    told = Timeline(
        since=NOW - 86_400,
        until=NOW,
        gpus=10,
        allocated=[0.0, 0.0, 0.0, 5.0],
        util_pct=[None, None, 0.0, 50.0],
    )
    found = capacity.of_timeline(told)
    assert (found.allocated, found.busy) == ([None, None, 0.0, 50.0], [None, None, 0.0, 25.0])
    jobs = [job(1, start=NOW - 600, cpus=4)]
    used = capacity.of_jobs(jobs, Range(NOW - 160.0 * 60, NOW), Totals(cpus=8), known_from=0.0)
    assert list(used.allocated[-12:-9]) == [None, None, 50.0]


def test_without_a_timeline_the_jobs_tell_the_allocated_cpus() -> None:
    shown = Range(NOW - 160.0 * 60, NOW)
    jobs = [
        job(1, start=NOW - 600, cpus=4),
        job(2, "COMPLETED", start=NOW - 9000, end=NOW - 570, cpus=4),
        job(3, "PENDING"),
    ]
    found = capacity.of_jobs(jobs, shown, Totals(cpus=8), known_from=NOW - 1200)
    assert list(found.allocated[-21:-18]) == [None, 50.0, 50.0]
    assert list(found.allocated[-11:-8]) == [50.0, 75.0, 50.0]


def test_the_chart_has_two_axes_at_any_size(in_utc: None) -> None:
    day = capacity.Capacity(Range(NOW - 86_400, NOW), [50.0] * 160, [25.0] * 160)
    for width, height in ((40, 5), (75, 7), (120, 30)):
        lines = [
            "".join(text for text, _ in line)
            for line in capacity.chart(day, problem="", width=width, height=height)
        ]
        assert len(lines) == height
        assert all(len(line) == width for line in lines)
        assert lines[0].startswith("100%┤") and lines[-2].startswith("  0%┤")
        assert lines[-1].endswith("now") and ":00" in lines[-1]
    assert capacity.chart(None, problem="no data", width=40, height=9)[3][0].text.strip() == "no data"


def test_the_title_of_the_chart_tells_the_present_values() -> None:
    gpus = Totals(gpus=10, held_gpus=5, measured_gpus=5, util_sum=250)
    assert "".join(cell.text for cell in capacity.title(gpus)) == (
        "GPUs, last 24 hours  ━ 50% allocated  ━ 25% busy"
    )
    cpus = Totals(cpus=8, cpus_used=2, measured_cpus=8, load_sum=160)
    assert "".join(cell.text for cell in capacity.title(cpus)) == (
        "CPUs, last 24 hours  ━ 25% allocated  ━ 20% busy"
    )


async def open_overview(ui: AppPilot) -> OverviewScreen:
    await ui.press("0")
    await ui.shows("0 Overview", "last 24 hours", "now")
    assert isinstance(ui.app.screen, OverviewScreen)
    return ui.app.screen


async def test_each_row_opens_its_page(folder: Path) -> None:
    async with run_app(folder, size=(200, 50)) as ui:
        ui.cluster.ends["broken"] = (0.0, 3)
        running = await ui.cluster.submit("llama")
        await ui.cluster.submit("broken")
        await ui.shows("exit 3")
        await ui.app.core.node_drain("gpu02", reason="a fan")
        await ui.shows("drained 1")
        await open_overview(ui)
        await ui.shows("My jobs  1 running", "llama", "No job is waiting", "exit code", "a fan")
        await ui.press("enter")
        await ui.until(lambda: isinstance(ui.app.screen, JobScreen), "the page of the job")
        await ui.shows(f"job {running.label()}  llama")
        await ui.press("escape", "tab", "tab", "enter")
        await ui.until(lambda: isinstance(ui.app.screen, HistoryScreen), "the history")
        await ui.shows("state:F reason:exit", "broken", "exit 3")
        await ui.press("escape", "escape")
        await ui.until(lambda: isinstance(ui.app.screen, OverviewScreen), "the overview")
        await ui.press("tab", "tab", "enter")
        await ui.until(lambda: isinstance(ui.app.screen, NodeScreen), "the page of the node")
        await ui.shows("node gpu02")
        await ui.press("escape", "tab", "enter")
        await ui.until(lambda: isinstance(ui.app.screen, NodesScreen), "the map")


async def test_the_cursor_goes_on_to_the_next_panel_at_the_end_of_a_panel(folder: Path) -> None:
    async with run_app(folder, size=(120, 40)) as ui:
        await ui.cluster.submit("llama")
        await ui.cluster.submit("vast", user="bob")
        await ui.shows("llama")
        screen = await open_overview(ui)
        await ui.shows("My jobs  1 running")
        assert screen.focused is not None and screen.focused.id == "mine-rows"
        await ui.press("j")
        assert screen.focused.id == "waiting-rows"
        await ui.press("k", "k")
        assert screen.focused.id == "chart"
        await ui.press("right")
        await ui.press("u")
        await ui.shows("Jobs of all users  2 running", "vast")
        await ui.press("escape")
        await ui.until(lambda: isinstance(ui.app.screen, QueueScreen), "the queue")


async def test_a_row_about_waiting_jobs_opens_the_filtered_queue(folder: Path) -> None:
    async with run_app(folder, size=(120, 40)) as ui:
        await ui.cluster.submit_array(tasks=20, at_once=2)
        await ui.shows("18 PD")
        await open_overview(ui)
        await ui.shows("Waiting now  18 jobs")
        await ui.press("tab", "enter")
        await ui.until(lambda: isinstance(ui.app.screen, QueueScreen), "the queue")
        await ui.shows("match state:PD part:")


async def test_the_panels_are_below_each_other_on_a_small_terminal(folder: Path) -> None:
    async with run_app(folder, size=(80, 24)) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("llama")
        screen = await open_overview(ui)
        await ui.shows("My jobs", "llama")
        await ui.press("shift+tab", "shift+tab")
        await ui.shows("Nodes in trouble", "All nodes accept jobs")
        frames = [screen.query_one(f"#{name}") for name in ("capacity", "mine", "waiting", "failures")]
        assert len({frame.region.x for frame in frames}) == 1
        await ui.pilot.resize_terminal(200, 50)
        await ui.until(lambda: len({frame.region.x for frame in frames}) == 3, "four columns")


async def test_the_last_day_is_requested_once_a_minute_and_only_in_front(folder: Path) -> None:
    async with run_app(folder, size=(120, 40)) as ui:
        asked: list[float] = []
        timeline = ui.app.core.timeline

        async def counted(since: float, until: float, *, steps: int) -> Timeline:
            asked.append(until)
            return await timeline(since, until, steps=steps)

        ui.app.core.timeline = counted  # type: ignore[method-assign]
        screen = await open_overview(ui)
        await ui.until(lambda: len(asked) == 1, "one request")
        for _ in range(3):
            screen._tick()
        await ui.settle()
        await ui.press("1")
        screen._day._asked_at = None
        screen._tick()
        ui.app.board.apply(Delta())
        await ui.settle()
        assert len(asked) == 1


async def test_the_overview_is_the_first_screen_if_the_user_wants_it(folder: Path) -> None:
    config = folder / "home" / "config"
    config.mkdir(parents=True)
    (config / "app.toml").write_text('start = "overview"\n')
    async with run_app(folder) as ui:
        assert isinstance(ui.app.screen, OverviewScreen)
        await ui.shows("No jobs of yours. Press n to submit one")
        await ui.press("1")
        await ui.until(lambda: isinstance(ui.app.screen, QueueScreen), "the queue")
    async with run_app(folder, at=("queue", "")) as ui:
        assert isinstance(ui.app.screen, QueueScreen)


async def test_hostile_names_are_shown_as_text(folder: Path) -> None:
    async with run_app(folder, size=(120, 40)) as ui:
        await ui.cluster.submit("[b]x\x1b[2J", user=ME)
        await ui.shows("[b]x")
        await open_overview(ui)
        await ui.shows("[b]x\N{REPLACEMENT CHARACTER}[2J")
