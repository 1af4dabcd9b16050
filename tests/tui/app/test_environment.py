"""A job's variables on its page: its own user's alone, and secrets by their names alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.stage import on_stage

from warpdeck_tui.viewmodels.jobs.environment import environment_lines


def shown(**variables: str) -> list[str]:
    return ["".join(cell.text for cell in line) for line in environment_lines(variables)[2:]]


@pytest.mark.parametrize(
    "name", ["WANDB_API_KEY", "HF_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "auth"]
)
def test_a_secret_is_shown_by_its_name_alone(name: str) -> None:
    assert shown(**{name: "hunter2"}) == [f"  {name}=(hidden)"]


def test_variables_are_shown_by_name_and_do_nothing_to_the_terminal() -> None:
    found = shown(SEED="7", LR="0.1\nx\x1b[31m", PROXY="http://me:pw@host:80/")
    assert found == ["  LR=0.1⏎x\ufffd[31m", "  PROXY=http://me:***@host:80/", "  SEED=7"]
    assert shown(LONG="x" * 5000)[0].endswith("x ...")


async def test_the_details_have_ones_own_variables_and_nobody_elses(folder: Path) -> None:
    async with on_stage(folder, size=(100, 50), everybody=True) as stage:
        await stage.cluster.submit("mine", env={"SEED": "7", "HF_TOKEN": "hunter2"})
        await stage.cluster.submit("theirs", user="somebody", env={"SEED": "8"})
        await stage.shows("mine", "theirs")
        await stage.press("g", "enter", "d")
        await stage.shows("job 1", "environment   2 variables", "SEED=7", "HF_TOKEN=(hidden)")
        await stage.press("escape", "j", "enter", "d")
        await stage.shows("job 2", "script")
        assert "SEED" not in stage.text()
