"""The differences between a failed job and the last successful one of the same name."""

from __future__ import annotations

from pathlib import Path

from tests.tui.app.app_pilot import run_app
from tests.tui.app.test_viewmodels import ended

from warpdeck.model import GpuRequest, Resources
from warpdeck.protocol.job_rows import JobDetail
from warpdeck_tui.viewmodels.diffs.parsing import FileDiff
from warpdeck_tui.viewmodels.jobs.changes import last_that_worked, option_changes

NONE: tuple[dict[str, str], dict[str, str]] = ({}, {})


def test_the_last_completed_job_of_its_name_and_user_is_found() -> None:
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


def changed(file: FileDiff) -> list[str]:
    return [f"{line.sign}{line.text}" for hunk in file.hunks for line in hunk.lines if line.sign != " "]


def test_only_differences_are_shown_and_comments_are_ignored() -> None:
    worked = JobDetail(
        row=ended(1, gpus=4), script="#!/bin/sh\n# old\ntrain --lr 1\n", submit_dir="/home/ann"
    )
    now = JobDetail(row=ended(2, gpus=8), script="#!/bin/sh\n# new\ntrain --lr 1\n", submit_dir="/home/ann")
    (options,) = option_changes(worked, now, variables=NONE)
    assert options.path == "options"
    assert changed(options) == [
        "-requested: 1 node, 1 CPU, 4 GPUs",
        "+requested: 1 node, 1 CPU, 8 GPUs",
    ]
    assert option_changes(worked, worked, variables=NONE) == []


def test_changed_variables_are_shown_without_secrets_and_login_variables() -> None:
    worked = JobDetail(row=ended(1), script="#!/bin/sh\ntrain\n")
    now = JobDetail(row=ended(1), script="#!/bin/sh\nmodule load cuda\ntrain\n")
    before = {"LR": "0.1", "OLD": "1", "TERM": "xterm", "HF_TOKEN": "a", "SAME": "1", "SSH_TTY": "/dev/pts/1"}
    after = {"LR": "0.3", "NEW": "1", "TERM": "tmux", "HF_TOKEN": "b", "SAME": "1", "SSH_TTY": "/dev/pts/2"}
    environment, script = option_changes(worked, now, variables=(before, after))
    assert changed(environment) == [
        "-HF_TOKEN=(hidden)",
        "+HF_TOKEN=(different, hidden)",
        "-LR=0.1",
        "+LR=0.3",
        "+NEW=1",
        "-OLD=1",
    ]
    assert (script.path, changed(script)) == ("script", ["+module load cuda"])
    assert [line.new for line in script.hunks[0].lines] == [1, 2, 3]


async def test_a_failed_job_is_compared_with_the_last_completed_one(folder: Path) -> None:
    async with run_app(folder, size=(100, 30)) as ui:
        ui.cluster.ends["llama"] = (0.0, 0)
        await ui.cluster.submit("llama", env={"LR": "0.1"})
        await ui.shows("✓ CD")
        ui.cluster.ends["llama"] = (0.0, 1)
        await ui.cluster.submit("llama", env={"LR": "0.3"}, resources=Resources(gpus=GpuRequest(per_node=2)))
        await ui.shows("✗ F")
        ui.app.navigation.open_job("2")
        await ui.shows("job 2", "FAILED", "W What changed", "= Compare")
        await ui.press("W")
        await ui.shows(
            "Changes from job 1 (-) to job 2 (+)",
            "+ requested: 1 node, 1 CPU, 2 GPUs",
            "+ LR=0.3",
            "The code is not compared, because job 2 has no snapshot",
        )
        await ui.press("escape", "escape")
        await ui.hides("Changes from job 1")
        ui.app.navigation.open_job("1")
        await ui.shows("job 1", "COMPLETED")
        await ui.press("W")
        await ui.shows_notification("has completed")
