"""The dialogs that open an interactive shell: its size, what is free, and the wait for its start."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.app_pilot import AppPilot, run_app
from textual import events
from textual.drivers.headless_driver import HeadlessDriver

from warpdeck.base.errors import UserError
from warpdeck.model import GpuRequest, JobState, Resources
from warpdeck.protocol.job_rows import JobRow, WhyRow
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck_tui.user_files.shell_choice import keep_shell_choice, read_shell_choice
from warpdeck_tui.viewmodels.shell.new_shell import (
    check_option,
    free_words,
    options_of,
    values_of,
    wait_lines,
)

NOW = 1_700_000_000.0


@pytest.fixture
def lends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the test's terminal be handed over, as a real one can be."""
    monkeypatch.setattr(HeadlessDriver, "can_suspend", True)


def node(name: str, *, free: int, held: int = 0, state: str = "mixed") -> NodeRow:
    gpus = [
        GpuRow(
            index=number,
            uuid=f"{name}-{number}",
            name="H100",
            type="h100",
            mem_bytes=80,
            job="1" * (number < held),
        )
        for number in range(free + held)
    ]
    return NodeRow(name=name, state=state, gpus=gpus, cpus=8, cpus_used=2)


def test_the_nodes_with_most_free_gpus_come_first() -> None:
    nodes = [node("gpu01", free=1, held=3), node("gpu02", free=3), node("gpu03", free=4, state="drained")]
    assert free_words(nodes) == "gpu02 has 3 free GPUs, gpu01 1"
    assert free_words([node("gpu01", free=0, held=4)]) == "No GPU is free; the shell waits until one is"
    assert free_words([node(f"gpu{number}", free=1) for number in range(6)]).endswith(
        "gpu3 1, and 2 nodes more"
    )
    assert free_words([node("cpu01", free=0)]) == "6 CPUs of 8 free"


def test_the_size_becomes_options_and_back() -> None:
    options = options_of({"gpus": "h100:2", "time": "", "partition": "dev"})
    assert options == ["--gpus=h100:2", "--partition=dev"]
    assert values_of([*options, "--qos=high"]) == {"gpus": "h100:2", "partition": "dev"}
    check_option("time", "1:00:00")
    with pytest.raises(UserError):
        check_option("time", "soon")


def test_a_waiting_session_says_why() -> None:
    why = WhyRow(code="Resources", sentence="needs a GPU", expected_start=NOW + 3600)
    row = JobRow(id=3, label="3", array_job_id=3, submit=NOW - 65, why=why)
    reason, starts, waits = wait_lines(row, "3", now=NOW)
    assert (reason, waits) == ("needs a GPU", "waiting for 1m")
    assert starts.startswith("starts about") and starts.endswith("(in 1 h)")
    assert wait_lines(None, "3", now=NOW) == ["Starting session 3"]


def test_the_last_choice_is_kept(folder: Path) -> None:
    assert read_shell_choice() is None
    keep_shell_choice(["--gpus=2", "--partition=a b"])
    assert read_shell_choice() == ["--gpus=2", "--partition=a b"]


async def fill_cluster(ui: AppPilot) -> None:
    for number in (1, 2):
        whole = Resources(gpus=GpuRequest(per_node=4))
        await ui.cluster.submit(f"big-{number}", resources=whole, time_limit_s=3600)
    await ui.shows("2 running")


async def test_a_session_that_waits_says_why_and_is_announced_when_it_is_ready(
    folder: Path, lends: None
) -> None:
    async with run_app(folder) as ui:
        await ui.press("i")
        await ui.shows(
            "Open a shell", "gpu01 has 4 free GPUs, gpu02 4", "starts now on gpu01", "run --pty --gpus=1"
        )
        await ui.press("escape")
        await fill_cluster(ui)
        await ui.press("i")
        await ui.shows("Open a shell", "No GPU is free", "starts about")
        assert ui.field("gpus").value == "1"
        await ui.press("enter")
        await ui.shows("Session 3", "waiting for", "Esc Leave it waiting", "c Cancel session")
        await ui.press("escape")
        await ui.shows_notification("Session 3 keeps waiting. The app tells when it is ready")
        await ui.app.core.change("cancel", ["1"])
        await ui.shows_notification("Session 3 is ready: a attaches")


async def test_a_session_that_waits_is_canceled_with_a_key(folder: Path, lends: None) -> None:
    async with run_app(folder) as ui:
        await fill_cluster(ui)
        await ui.press("i")
        await ui.shows("Open a shell")
        await ui.type("2")
        await ui.press("down")
        await ui.type("30")
        await ui.press("enter")
        await ui.shows("Session 3", "waiting for")
        wait = ui.app.screen
        await ui.until(
            lambda: wait.check_action("cancel_session", ()), "keys are no longer meant for the shell"
        )
        await ui.press("c")
        await ui.until(lambda: _states(ui)[2] is JobState.CANCELLED, "the session is canceled")
        await ui.press("i")
        await ui.shows("Open a shell", "run --pty --gpus=2 --time=30 $SHELL")


def _states(ui: AppPilot) -> list[JobState]:
    return [job.state for job in ui.cluster.controller.state.jobs.values()]


async def test_the_partition_is_chosen_from_a_list_with_what_is_free(folder: Path, lends: None) -> None:
    async with run_app(folder) as ui:
        await ui.press("i")
        await ui.shows("gpu01 has 4 free GPUs")
        await ui.press("down", "down")
        await ui.shows("PARTITION", "main", "8 of 8 GPUs free")
        await ui.hides("gpu01 has 4 free GPUs")
        await ui.press("space", "enter")
        await ui.shows("run --pty --gpus=1 --partition=main $SHELL")
        await ui.press("space", "escape", "up")
        await ui.shows("gpu01 has 4 free GPUs", "Open a shell")
        await ui.press("escape")
        await ui.hides("Open a shell")


async def test_a_size_that_is_not_understood_is_reported_at_its_field(folder: Path, lends: None) -> None:
    async with run_app(folder) as ui:
        await ui.press("i")
        await ui.shows("Open a shell")
        await ui.press("down")
        await ui.type("soon")
        await ui.press("enter")
        await ui.until(lambda: ui.app.screen.query_one("#time-error").display, "the time is refused")
        assert not ui.cluster.controller.state.jobs


async def test_two_keys_open_a_shell_even_if_they_are_typed_at_once(folder: Path, lends: None) -> None:
    async with run_app(folder) as ui:
        await fill_cluster(ui)
        ui.app.post_message(events.Key("i", "i"))
        ui.app.post_message(events.Key("enter", "\r"))
        await ui.shows("Session 3", "waiting for")
