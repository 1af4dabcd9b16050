"""What has changed since a job last worked."""

from __future__ import annotations

from pathlib import Path

from tests.tui.app.stage import on_stage
from tests.tui.app.test_views import ended

from warpdeck.model import GpuRequest, Resources
from warpdeck.protocol.job_rows import JobDetail
from warpdeck_tui.viewmodels.jobs.changes import changes_text, last_that_worked
from warpdeck_tui.viewmodels.jobs.job import PLAIN

NONE: tuple[dict[str, str], dict[str, str]] = ({}, {})


def test_the_last_of_its_name_and_user_that_completed_before_it_counts() -> None:
    jobs = [
        ended(1, name="a", state="COMPLETED"),
        ended(2, name="a", state="COMPLETED"),
        ended(3, name="a", state="FAILED"),
        ended(4, name="b", state="COMPLETED"),
        ended(5, name="a", state="COMPLETED", user="bob"),
        ended(9, name="a", state="COMPLETED"),
    ]
    found = last_that_worked(ended(6, name="a"), jobs)
    assert found is not None and found.id == 2
    assert last_that_worked(ended(6, name="none"), jobs) is None


def test_only_what_differs_is_told_and_a_comment_is_no_difference() -> None:
    worked = JobDetail(
        row=ended(1, gpus=4), script="#!/bin/sh\n# old\ntrain --lr 1\n", submit_dir="/home/ann"
    )
    now = JobDetail(row=ended(2, gpus=8), script="#!/bin/sh\n# new\ntrain --lr 1\n", submit_dir="/home/ann")
    text = changes_text(worked, now, code="No differences", variables=NONE)
    assert "-requested: 1 node, 1 CPU, 4 GPUs" in text and "+requested: 1 node, 1 CPU, 8 GPUs" in text
    assert "script" not in text and "folder" not in text and text.endswith("No differences")
    same = changes_text(worked, worked, code="", variables=NONE)
    assert "No changes" in same and "-requested" not in same


def test_variables_that_differ_are_told_and_neither_secrets_nor_what_every_login_has() -> None:
    worked = JobDetail(row=ended(1), script="#!/bin/sh\ntrain\n")
    now = JobDetail(row=ended(2), script="#!/bin/sh\nmodule load cuda\ntrain\n")
    before = {"LR": "0.1", "OLD": "1", "TERM": "xterm", "HF_TOKEN": "a", "SAME": "1", "SSH_TTY": "/dev/pts/1"}
    after = {"LR": "0.3", "NEW": "1", "TERM": "tmux", "HF_TOKEN": "b", "SAME": "1", "SSH_TTY": "/dev/pts/2"}
    text = changes_text(worked, now, code="", variables=(before, after))
    told = [line[line.index("m") + 1 : -len(PLAIN)] for line in text.splitlines() if line[:1] == "\x1b"]
    assert told[1:-1] == [
        "-HF_TOKEN=(hidden)",
        "+HF_TOKEN=(different, hidden)",
        "-LR=0.1",
        "+LR=0.3",
        "+NEW=1",
        "-OLD=1",
        "+script: module load cuda",
    ]


async def test_a_failed_job_is_compared_with_the_one_that_worked(folder: Path) -> None:
    async with on_stage(folder, size=(100, 30)) as stage:
        stage.cluster.ends["llama"] = (0.0, 0)
        await stage.cluster.submit("llama", env={"LR": "0.1"})
        await stage.shows("✓ CD")
        stage.cluster.ends["llama"] = (0.0, 1)
        await stage.cluster.submit(
            "llama", env={"LR": "0.3"}, resources=Resources(gpus=GpuRequest(per_node=2))
        )
        await stage.shows("✗ F")
        stage.app.navigation.open_job("2")
        await stage.shows("job 2", "FAILED")
        await stage.press("W")
        await stage.shows(
            "Changes from job 1 (-) to job 2 (+)",
            "+requested: 1 node, 1 CPU, 2 GPUs",
            "+LR=0.3",
            "no snapshot",
        )
        await stage.press("escape", "escape")
        await stage.hides("Changes from job 1")
        stage.app.navigation.open_job("1")
        await stage.shows("job 1", "COMPLETED")
        await stage.press("W")
        await stage.told("has completed")
