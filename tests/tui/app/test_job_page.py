"""A job's page: log, details, GPUs, events, and what happens while it is looked at."""

from __future__ import annotations

from pathlib import Path

from tests.tui.app.stage import on_stage
from tests.tui.app.test_views import NOW, row, running

from warpdeck.model import ArraySpec, GpuRequest, Resources
from warpdeck.protocol.job_rows import JobDetail
from warpdeck_tui.viewmodels.jobs.job import neighbour, writing_nodes


async def test_the_log_is_live(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        await stage.press("enter")
        await stage.shows("job 1", "[Log]", "gpu01: llama on 1 x NVIDIA H100")
        await stage.shows("step      8")


async def test_a_log_is_read_to_its_end_and_the_end_is_told(folder: Path) -> None:
    async with on_stage(folder) as stage:
        stage.cluster.ends["short"] = (1.0, 1)
        await stage.cluster.submit("short")
        await stage.shows("short")
        await stage.press("enter")
        await stage.shows("FAILED", "exit 1 on gpu01", "CUDA out of memory")


async def test_a_waiting_job_says_why_in_full(folder: Path) -> None:
    async with on_stage(folder, size=(80, 24)) as stage:
        for name in ("big-1", "big-2", "big-3"):
            await stage.cluster.submit(
                name, resources=Resources(gpus=GpuRequest(per_node=4)), time_limit_s=3600
            )
        await stage.shows("big-3", "◌ PD")
        await stage.press("G", "l")
        await stage.shows("PENDING", "[Log]", "No log: the job has not started", "expected start in about")
        await stage.press("escape", "enter")
        await stage.shows("[Details]", "reason Resources:")
        text = " ".join(stage.text().split())
        assert "waits for 4 GPUs, 1 CPU on one node: best is gpu0" in text and "with 0 GPUs free" in text


async def test_a_waiting_job_says_who_is_ahead_and_what_would_start_it_now(folder: Path) -> None:
    async with on_stage(folder, size=(100, 40)) as stage:
        for name, gpus in (("big-1", 4), ("big-2", 2), ("big-3", 4), ("big-4", 4)):
            asked = Resources(gpus=GpuRequest(per_node=gpus))
            await stage.cluster.submit(name, resources=asked, time_limit_s=3600)
        await stage.shows("big-4", "◌ PD")
        await stage.press("G", "enter", "d")
        await stage.shows("ahead 1 job: 3 of", "helps it starts now with --gpus-per-node=2")


async def test_every_pane_has_its_key_and_tab_goes_round(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("panes", time_limit_s=600)
        await stage.shows("● R")
        await stage.press("enter")
        for key, words in (
            ("d", ("[Details]", "10:00", "script")),
            ("p", ("[GPUs]", "UUIDs", "GPU-gpu01-0")),
            ("s", ("[Code]", "No snapshot")),
            ("e", ("[Events]", "submitted by", "running on gpu01")),
            ("l", ("[Log]",)),
        ):
            await stage.press(key)
            await stage.shows(*words)
        for name in ("[Metrics]", "[Details]", "[GPUs]", "[Code]", "[Events]", "[Log]"):
            await stage.press("tab")
            await stage.shows(name)
        await stage.press("shift+tab")
        await stage.shows("[Events]")
        await stage.press("escape")
        await stage.shows("jobs of")


async def test_what_cannot_be_compared_says_so(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("bare")
        await stage.shows("● R")
        await stage.press("enter")
        await stage.shows("job 1")
        assert "D Diff" not in stage.line(-1)
        await stage.press("D")
        await stage.told("no snapshot to compare")


async def test_cancel_and_requeue_from_the_page(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("again")
        await stage.shows("● R")
        await stage.press("enter")
        await stage.shows("RUNNING", "c Cancel")
        await stage.press("c", "y")
        await stage.shows("CANCELLED", "R Requeue")
        await stage.press("R")
        await stage.shows("Requeue job 1?")
        await stage.press("y")
        await stage.shows("RUNNING")


async def test_three_returns_to_the_job_that_was_looked_at(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("seen")
        await stage.shows("● R")
        await stage.press("enter")
        await stage.shows("[Log]")
        await stage.press("2")
        await stage.shows("NODE")
        await stage.press("3")
        await stage.shows("job 1", "[Log]")


async def test_history_holds_what_has_ended(folder: Path) -> None:
    async with on_stage(folder) as stage:
        stage.cluster.ends["fails"] = (0.0, 3)
        await stage.cluster.submit("fails")
        await stage.cluster.submit("theirs", user="somebody")
        await stage.shows("✗ F")
        await stage.press("4")
        await stage.shows("history", "fails", "exit 3 on gpu01")
        await stage.press("enter")
        await stage.shows("job 1", "FAILED")
        await stage.press("escape", "escape")
        await stage.shows("jobs of")


def test_the_next_task_is_the_nearest_that_has_begun() -> None:
    tasks = [row(10 + at, array_task_id=at, start=NOW) for at in (0, 1, 4)]
    tasks += [row(20, array_task_id=2), row(21)]
    four, zero = tasks[2], tasks[0]
    assert neighbour(tasks[1], tasks, 1) == four
    assert neighbour(four, tasks, -1) == tasks[1]
    assert neighbour(four, tasks, 1) is None
    assert neighbour(zero, tasks, -1) is None


def test_only_commands_write_on_every_node() -> None:
    runs = running(node_list="n[1-3]")
    assert writing_nodes(JobDetail(row=runs, argv=["hostname"])) == ["n1", "n2", "n3"]
    assert writing_nodes(JobDetail(row=runs, script="#!/bin/sh\n")) == []
    assert writing_nodes(None) == []


async def test_where_both_outputs_are_one_file_there_is_no_other(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        await stage.press("enter", "d")
        await stage.shows("[Details]", "stdout")
        await stage.press("o")
        await stage.told("stdout and stderr of this job are one file")
        await stage.press("l")
        await stage.shows("[Log]")


async def test_the_tasks_of_an_array_are_gone_through_at_the_same_output(folder: Path) -> None:
    async with on_stage(folder, size=(100, 24)) as stage:
        await stage.cluster.submit("sweep", array=ArraySpec(ranges=((0, 2, 1),), throttle=3), error="err-%a")
        await stage.shows("3 R")
        await stage.press("z", "j", "enter")
        await stage.shows("job 1_", "[Log]", "] Task")
        await stage.press(*["left_square_bracket"] * 4)
        await stage.until(lambda: "first started task" in stage.notices(), "the beginning")
        await stage.press("o", "right_square_bracket")
        await stage.shows("job 1_1 ", "[Stderr]")
        await stage.press("right_square_bracket")
        await stage.shows("job 1_2 ", "[Stderr]")
        await stage.press("right_square_bracket")
        await stage.told("This is the last started task")
        await stage.press("escape")
        await stage.shows("jobs of")


async def test_the_log_of_each_node_of_a_command_has_its_key(folder: Path) -> None:
    async with on_stage(folder, size=(100, 24)) as stage:
        two = Resources(nodes_min=2, nodes_max=2)
        await stage.cluster.submit("hosts", argv=("hostname",), resources=two)
        await stage.shows("● R")
        await stage.press("enter")
        await stage.shows("gpu01", "O Node")
        await stage.press("O")
        await stage.shows("[Log on gpu02]", "gpu02: hosts")
        await stage.press("O")
        await stage.shows("[Log on gpu01]")
