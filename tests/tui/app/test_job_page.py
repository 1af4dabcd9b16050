"""A job's page: log, details, GPUs and events, also while the job changes."""

from __future__ import annotations

from pathlib import Path

from tests.tui.app.app_pilot import run_app
from tests.tui.app.test_viewmodels import NOW, ended, row, running, words

from warpdeck.model import ArraySpec, GpuRequest, Resources
from warpdeck.protocol.job_rows import CurveRow, GpuUse, JobDetail, JobEvent
from warpdeck_tui.viewmodels.job_page.events import events, kind, plain_words
from warpdeck_tui.viewmodels.job_page.gpus import Sources, gpu_page
from warpdeck_tui.viewmodels.jobs.job import neighbour, writing_nodes


async def test_the_log_shows_new_lines_at_once(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        await ui.press("enter")
        await ui.shows("job 1", "[Log]", "gpu01: llama on 1 x NVIDIA H100")
        await ui.shows("step      8")


async def test_the_log_is_read_to_its_end_and_the_exit_is_shown(folder: Path) -> None:
    async with run_app(folder) as ui:
        ui.cluster.ends["short"] = (1.0, 1)
        await ui.cluster.submit("short")
        await ui.shows("short")
        await ui.press("enter")
        await ui.shows("FAILED", "exit 1 on gpu01", "CUDA out of memory")


async def test_a_waiting_job_shows_its_full_reason(folder: Path) -> None:
    async with run_app(folder, size=(80, 24)) as ui:
        for name in ("big-1", "big-2", "big-3"):
            await ui.cluster.submit(name, resources=Resources(gpus=GpuRequest(per_node=4)), time_limit_s=3600)
        await ui.shows("big-3", "◌ PD")
        await ui.press("G", "l")
        await ui.shows("PENDING", "[Log]", "No log: the job has not started", "expected start in about")
        await ui.press("escape", "enter")
        await ui.shows("[Details]", "reason Resources:")
        text = " ".join(ui.text().replace("│", " ").split())
        assert "needs 4 GPUs on one node; best is gpu0" in text and "with 0 free" in text


async def test_a_waiting_job_shows_the_jobs_ahead_and_helpful_changes(folder: Path) -> None:
    async with run_app(folder, size=(100, 40)) as ui:
        for name, gpus in (("big-1", 4), ("big-2", 2), ("big-3", 4), ("big-4", 4)):
            resources = Resources(gpus=GpuRequest(per_node=gpus))
            await ui.cluster.submit(name, resources=resources, time_limit_s=3600)
        await ui.shows("big-4", "◌ PD")
        await ui.press("G", "enter", "d")
        await ui.shows("ahead 1 job: 3 of", "helps it starts now with --gpus-per-node=2")


async def test_every_pane_has_a_key_and_tab_cycles_through_the_panes(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("panes", time_limit_s=600)
        await ui.shows("● R")
        await ui.press("enter")
        for key, words in (
            ("d", ("[Details]", "Requested", "10:00", "Where and when")),
            ("G", ("Script", "echo hello")),
            ("p", ("[GPUs]", "1 GPU", "UTILIZATION", "gpu01:0", "°C")),
            ("s", ("[Code]", "No snapshot")),
            ("e", ("[Events]", "submitted by", "running on gpu01")),
            ("l", ("[Log]",)),
        ):
            await ui.press(key)
            await ui.shows(*words)
        for name in ("[Metrics]", "[Details]", "[GPUs]", "[Code]", "[Events]", "[Log]"):
            await ui.press("tab")
            await ui.shows(name)
        await ui.press("shift+tab")
        await ui.shows("[Events]")
        await ui.press("escape")
        await ui.shows("jobs of")


async def test_a_job_without_a_snapshot_cannot_be_compared(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("bare")
        await ui.shows("● R")
        await ui.press("enter")
        await ui.shows("job 1")
        assert "D Diff" not in ui.line(-1)
        await ui.press("D")
        await ui.shows_notification("no snapshot to compare")


async def test_a_job_is_canceled_and_requeued_from_its_page(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("again")
        await ui.shows("● R")
        await ui.press("enter")
        await ui.shows("RUNNING", "c Cancel")
        await ui.press("c", "y")
        await ui.shows("CANCELLED", "R Requeue")
        await ui.press("R")
        await ui.shows("Requeue job 1?")
        await ui.press("y")
        await ui.shows("RUNNING")


async def test_the_key_3_returns_to_the_last_opened_job(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("seen")
        await ui.shows("● R")
        await ui.press("enter")
        await ui.shows("[Log]")
        await ui.press("2")
        await ui.shows("NODE")
        await ui.press("3")
        await ui.shows("job 1", "[Log]")


async def test_the_history_lists_ended_jobs(folder: Path) -> None:
    async with run_app(folder) as ui:
        ui.cluster.ends["fails"] = (0.0, 3)
        await ui.cluster.submit("fails")
        await ui.cluster.submit("theirs", user="somebody")
        await ui.shows("✗ F")
        await ui.press("4")
        await ui.shows("history", "fails", "exit 3 on gpu01")
        await ui.press("enter")
        await ui.shows("job 1", "FAILED")
        await ui.press("escape", "escape")
        await ui.shows("jobs of")


def test_the_next_task_is_the_nearest_started_one() -> None:
    tasks = [row(10 + at, array_task_id=at, start=NOW) for at in (0, 1, 4)]
    tasks += [row(20, array_task_id=2), row(21)]
    four, zero = tasks[2], tasks[0]
    assert neighbour(tasks[1], tasks, 1) == four
    assert neighbour(four, tasks, -1) == tasks[1]
    assert neighbour(four, tasks, 1) is None
    assert neighbour(zero, tasks, -1) is None


def test_only_commands_have_a_log_on_every_node() -> None:
    runs = running(node_list="n[1-3]")
    assert writing_nodes(JobDetail(row=runs, argv=["hostname"])) == ["n1", "n2", "n3"]
    assert writing_nodes(JobDetail(row=runs, script="#!/bin/sh\n")) == []
    assert writing_nodes(None) == []


async def test_a_job_with_one_output_file_has_no_separate_stderr(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        await ui.press("enter", "d")
        await ui.shows("[Details]", "stdout")
        await ui.press("o")
        await ui.shows_notification("stdout and stderr of this job are one file")
        await ui.press("l")
        await ui.shows("[Log]")


async def test_stepping_through_array_tasks_keeps_the_selected_output(folder: Path) -> None:
    async with run_app(folder, size=(100, 24)) as ui:
        await ui.cluster.submit("sweep", array=ArraySpec(ranges=((0, 2, 1),), throttle=3), error="err-%a")
        await ui.shows("3 R")
        await ui.press("z", "j", "enter")
        await ui.shows("job 1_", "[Log]", "] Task")
        await ui.press(*["left_square_bracket"] * 4)
        await ui.until(lambda: "first started task" in ui.notifications(), "the beginning")
        await ui.press("o", "right_square_bracket")
        await ui.shows("job 1_1 ", "[Stderr]")
        await ui.press("right_square_bracket")
        await ui.shows("job 1_2 ", "[Stderr]")
        await ui.press("right_square_bracket")
        await ui.shows_notification("This is the last started task")
        await ui.press("escape")
        await ui.shows("jobs of")


async def test_a_key_switches_between_the_logs_of_a_commands_nodes(folder: Path) -> None:
    async with run_app(folder, size=(100, 24)) as ui:
        two = Resources(nodes_min=2, nodes_max=2)
        await ui.cluster.submit("hosts", argv=("hostname",), resources=two)
        await ui.shows("● R")
        await ui.press("enter")
        await ui.shows("gpu01", "O Node")
        await ui.press("O")
        await ui.shows("[Log on gpu02]", "gpu02: hosts")
        await ui.press("O")
        await ui.shows("[Log on gpu01]")


def test_events_have_kinds_durations_and_plain_words() -> None:
    job = running(submit=NOW - 720, start=NOW - 600)
    history = [
        JobEvent(at=NOW - 720, text="submitted by ann"),
        JobEvent(at=NOW - 600, text="running on gpu01"),
        JobEvent(at=NOW - 60, text="ended FAILED, exit 1: out of disk"),
    ]
    detail = JobDetail(row=job, events=history)
    lines = [words(line).rstrip() for line in events(detail, now=NOW, width=80)]
    assert lines[0].split()[:2] == ["waited", "2m"] and lines[1].split()[:2] == ["ran", "10m"]
    assert lines[2:4] == ["", "WHEN                 AGO    AFTER  WHAT"]
    assert lines[4].endswith("12m           ◌ submitted by ann")
    assert lines[5].endswith("10m      +2m  ● running on gpu01")
    assert lines[6].endswith("1m      +9m  ✗ failed: exit 1: out of disk")
    assert lines[7].endswith("+1m  ● running")
    assert kind("ended COMPLETED, exit 0") == ("✓", "COMPLETED")
    assert kind("changed by ann: nice") == ("·", "muted")
    assert plain_words("ended COMPLETED, exit 0") == "completed"


def test_the_gpus_of_an_ended_job_have_mean_and_maximum() -> None:
    job = ended(gpus=1, start=NOW - 100)
    gpu = GpuUse(node="gpu01", index=0, uuid="GPU-1", mem_bytes=80 << 30)
    curve = CurveRow(
        node="gpu01", begin=NOW - 100, step_s=10.0, columns={"gpu_util_pct": (0.0, 50.0, None, 100.0)}
    )
    lines = [
        words(line)
        for line in gpu_page(JobDetail(row=job, gpus=[gpu]), Sources({}, curves=[curve]), width=90)
    ]
    text = "\n".join(lines)
    assert "gpu01:0    GPU-1" in text and "?" not in text
    assert "last   100%   mean    50%   max   100%" in text
    assert max(map(len, lines)) <= 90
    missing = Sources({}, told="gpu01 does not answer")
    assert "gpu01 does not answer" in words(gpu_page(JobDetail(row=job, gpus=[gpu]), missing, width=90)[-1])


async def test_the_details_are_in_two_columns_on_a_wide_terminal(folder: Path) -> None:
    async with run_app(folder, size=(140, 40)) as ui:
        await ui.cluster.submit("wide", time_limit_s=600)
        await ui.shows("● R")
        await ui.press("enter", "d")
        await ui.shows("Requested", "Where and when", "Limits and priority")
        (line,) = [line for line in ui.text().splitlines() if "Requested" in line]
        assert "Where and when" in line
        await ui.pilot.resize_terminal(80, 24)
        await ui.until(
            lambda: not any("Requested" in each and "Where" in each for each in ui.text().splitlines()),
            "one column",
        )


async def test_a_failed_job_opens_with_the_cause(folder: Path) -> None:
    async with run_app(folder, size=(120, 40)) as ui:
        ui.cluster.ends["short"] = (0.0, 1)
        await ui.cluster.submit("short")
        await ui.shows("✗ F")
        await ui.press("enter")
        await ui.shows("[Details]", "Why it failed", "cause GPU out of memory", "last lines of the output")
        await ui.press("l")
        await ui.shows("[Log]")
