"""The environment on a job's page: only for the job's user, and without the values of secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.app_pilot import run_app

from warpdeck_tui.viewmodels.jobs.environment import environment_lines


def shown(**variables: str) -> list[str]:
    return ["".join(cell.text for cell in line) for line in environment_lines(variables)[1:]]


@pytest.mark.parametrize(
    "name", ["WANDB_API_KEY", "HF_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "auth"]
)
def test_a_secret_is_shown_without_its_value(name: str) -> None:
    assert shown(**{name: "hunter2"}) == [f"{name}=(hidden)"]


def test_variables_are_sorted_and_their_control_characters_replaced() -> None:
    found = shown(SEED="7", LR="0.1\nx\x1b[31m", PROXY="http://me:pw@host:80/")
    assert found == ["LR=0.1⏎x\ufffd[31m", "PROXY=http://me:***@host:80/", "SEED=7"]
    assert shown(LONG="x" * 5000)[0].endswith("x ...")


async def test_the_details_show_only_the_users_own_variables(folder: Path) -> None:
    async with run_app(folder, size=(100, 50), everybody=True) as ui:
        await ui.cluster.submit("mine", env={"SEED": "7", "HF_TOKEN": "hunter2"})
        await ui.cluster.submit("theirs", user="somebody", env={"SEED": "8"})
        await ui.shows("mine", "theirs")
        await ui.press("g", "enter", "d")
        await ui.shows("job 1", "2 variables", "SEED=7", "HF_TOKEN=(hidden)")
        await ui.press("escape", "j", "enter", "d")
        await ui.shows("job 2", "echo hello")
        assert "SEED" not in ui.text()
