"""The action log lists actions as command lines, which can be copied and undone."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
from pathlib import Path

import pytest
from msgspec import UNSET
from tests.tui.app.app_pilot import run_app

from warpdeck.base.errors import UserError
from warpdeck.base.paths import config_dir
from warpdeck.model import ArraySpec, GpuRequest, JobId, Resources
from warpdeck_tui.data.action_log import MOST_KEPT, ActionLog, Undo
from warpdeck_tui.terminal import clipboard
from warpdeck_tui.terminal.clipboard import FILE_NAME
from warpdeck_tui.viewmodels.jobs.limits import limit_change


async def nothing() -> None:
    """Undo nothing."""


def test_actions_are_undone_once_and_the_latest_first() -> None:
    action_log = ActionLog(clock=lambda: 0.0)
    action_log.add("warpdeck hold 1", Undo("warpdeck release 1", nothing))
    action_log.add("warpdeck hold 2", Undo("warpdeck release 2", nothing))
    action_log.add("warpdeck cancel 3")
    undone = [action_log.take() for _ in range(3)]
    assert [done.command if done else "" for done in undone] == ["warpdeck hold 2", "warpdeck hold 1", ""]


def test_a_refused_undo_is_skipped_and_can_be_retried_by_its_key() -> None:
    action_log = ActionLog(clock=lambda: 0.0)
    for number in (1, 2):
        action_log.add(f"warpdeck hold {number}", Undo(f"warpdeck release {number}", nothing))
    second = action_log.take()
    assert second is not None
    action_log.give_back(second, is_refused=False)
    assert action_log.take() == second, "without an answer it is still the next one"
    action_log.give_back(second, is_refused=True)
    assert [line[2].text for _, line in action_log.rows()] == ["refused", "yes"]
    first = action_log.take()
    assert first is not None and first.command == "warpdeck hold 1"
    assert action_log.take() is None
    again = action_log.take(second.key)
    assert again is not None and again.undo == second.undo
    assert action_log.take(second.key) is None, "it is returned only once"


def test_the_action_log_is_limited() -> None:
    action_log = ActionLog(clock=lambda: 0.0)
    for number in range(MOST_KEPT + 5):
        action_log.add(f"warpdeck cancel {number}")
    assert len(list(action_log)) == MOST_KEPT and action_log.command("1") == ""
    key, cells = action_log.rows()[0]
    assert action_log.command(key) == cells[1].text == f"warpdeck cancel {MOST_KEPT + 4}"


async def test_a_hold_is_undone_and_both_actions_are_logged(folder: Path) -> None:
    async with run_app(folder) as ui:
        for _ in range(2):
            await ui.cluster.submit("large", resources=Resources(gpus=GpuRequest(per_node=4)))
        await ui.cluster.submit("waits")
        await ui.shows("● R", "◌ PD")
        await ui.press("G", "H")
        await ui.shows_notification("Held job 3")
        await ui.press("Z")
        await ui.shows_notification("Undone: warpdeck release 3")
        await ui.press("at")
        await ui.shows("Action log", "warpdeck hold 3", "warpdeck release 3")
        await ui.press("y")
        await ui.shows_notification("Copied warpdeck release 3")
        await ui.press("escape")
        await ui.hides("Action log")


async def test_an_undo_that_is_too_late_is_refused_with_the_reason(folder: Path) -> None:
    async with run_app(folder) as ui:
        ui.cluster.ends["first"] = (0.0, 0)
        job = await ui.cluster.submit("first", hold=True)
        await ui.shows("◌ PD")
        await ui.press("U")
        await ui.until(lambda: ui.job(job).is_finished, "the job is over")
        await ui.until(lambda: list(ui.app.chronicle), "the app has received the release")
        await ui.press("Z")
        await ui.shows_notification("job 1 has ended")
        await ui.shows_notification("Press @, then Z to try again")
        assert [done.command for done in ui.app.chronicle] == ["warpdeck release 1"]
        await ui.press("at")
        await ui.shows("refused", "Z Undo")
        ui.app.clear_notifications()
        await ui.press("Z")
        await ui.shows_notification("job 1 has ended")
        await ui.shows("refused")


async def test_an_undo_without_an_answer_can_be_repeated(folder: Path) -> None:
    async with run_app(folder) as ui:
        for name in ("first", "second"):
            await ui.cluster.submit(name, resources=Resources(gpus=GpuRequest(per_node=4)))
        await ui.cluster.submit("waits")
        await ui.shows("\u25cc PD")
        await ui.press("G", "H")
        await ui.shows_notification("Held job 3")
        await ui.cluster.stop()
        await ui.shows("reconnecting")
        await ui.press("Z")
        await ui.shows_notification("Press Z to try again")
        await ui.cluster.start()
        await ui.hides("reconnecting")
        await ui.press("at", "Z")
        await ui.shows_notification("Undone: warpdeck release 3")
        await ui.shows("warpdeck release 3")


async def test_a_drain_is_undone(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("2", "d")
        await ui.shows("Reason for draining gpu01")
        await ui.type("fans")
        await ui.press("enter")
        await ui.until(lambda: ui.app.board.nodes["gpu01"].state == "drained", "it is drained")
        await ui.until(lambda: list(ui.app.chronicle), "the app has received the drain")
        await ui.press("Z")
        await ui.until(lambda: ui.app.board.nodes["gpu01"].state == "idle", "it is back")
        await ui.press("at")
        await ui.shows("warpdeck node drain gpu01 fans", "warpdeck node resume gpu01")


async def test_a_time_limit_is_changed_and_undone(folder: Path) -> None:
    async with run_app(folder, size=(100, 24)) as ui:
        await ui.cluster.submit("first", time_limit_s=7200)
        await ui.cluster.submit("second", time_limit_s=3600)
        await ui.cluster.submit("endless")
        await ui.shows("endless")
        await ui.press("V", "L")
        await ui.shows("Time limit of 3 jobs", "$ scontrol update JobId=1,2,3 TimeLimit=TIME")
        await ui.press("escape", "escape", "space", "space", "L")
        await ui.shows("Time limit of 2 jobs")
        await ui.type("+x")
        await ui.press("enter")
        await ui.shows("'x' is not a time")
        ui.field("answer").value = "+30"
        await ui.press("enter")
        await ui.shows_notification("Changed the time limit of 2 jobs")
        state = ui.cluster.controller.state
        assert [state.jobs[JobId(number)].time_limit_s for number in (1, 2)] == [9000, 5400]
        await ui.press("Z")
        await ui.shows_notification(
            "Undone: scontrol update JobId=1 TimeLimit=2:00:00; scontrol update JobId=2 TimeLimit=1:00:00"
        )
        assert [state.jobs[JobId(number)].time_limit_s for number in (1, 2)] == [7200, 3600]
        await ui.press("at")
        await ui.shows("scontrol update JobId=1,2 TimeLimit=+30")


async def test_a_change_of_a_default_time_limit_cannot_be_undone(folder: Path) -> None:
    async with run_app(folder, size=(100, 24)) as ui:
        await ui.cluster.submit("endless")
        await ui.shows("endless")
        await ui.press("colon", *"limit", "space", "1")
        await ui.shows("Time limit of job 1")
        await ui.press("enter")
        await ui.shows("Time limit of job 1")
        await ui.type("1:00:00")
        await ui.press("enter")
        await ui.shows_notification("Changed the time limit of job 1")
        await ui.press("Z")
        await ui.shows_notification("Nothing to undo")


async def test_a_priority_is_changed_and_undone(folder: Path) -> None:
    async with run_app(folder, size=(100, 24)) as ui:
        jobs = ui.cluster.controller.state.jobs

        def requested() -> list[tuple[int | None, int]]:
            return [
                (jobs[number].request.priority, jobs[number].request.nice) for number in (JobId(3), JobId(4))
            ]

        for name in ("one", "two", "third"):
            await ui.cluster.submit(name, resources=Resources(gpus=GpuRequest(per_node=4)))
        await ui.cluster.submit("sweep", nice=7, array=ArraySpec(ranges=((0, 3, 1),)))
        await ui.shows("third", "sweep")
        await ui.press("P")
        await ui.shows_notification("Job 1 is not pending (RUNNING)")
        await ui.press("V", "P")
        await ui.shows("Priority of 2 jobs", "$ scontrol update 'JobId=3,4_[0-3]' Nice=100")
        await ui.type("soon")
        await ui.press("enter")
        await ui.shows("Invalid priority 'soon'. Enter nice=100, or a number such as 5000")
        ui.field("answer").value = "nice=50"
        await ui.press("enter")
        await ui.shows_notification("Changed the priority of 2 jobs")
        assert requested() == [(None, 50), (None, 50)]
        await ui.press("P")
        await ui.shows("nice=50")
        ui.field("answer").value = "5000"
        await ui.press("enter")
        await ui.until(
            lambda: requested() == [(5000, 0), (5000, 0)], "the fixed priority replaces the computed one"
        )
        await ui.until(lambda: len(list(ui.app.chronicle)) == 2, "the app has received the changes")
        await ui.press("Z")
        await ui.shows_notification(
            "Undone: warpdeck release 3 '4_[0-3]'; scontrol update 'JobId=3,4_[0-3]' Nice=50"
        )
        assert requested() == [(None, 50), (None, 50)]
        await ui.press("Z")
        await ui.shows_notification("scontrol update JobId=3 Nice=0; scontrol update 'JobId=4_[0-3]' Nice=7")
        assert requested() == [(None, 0), (None, 7)]


@pytest.mark.parametrize(
    ("text", "limit_s", "more_s"),
    [("90", 5400, 0), ("1-0", 86_400, 0), ("+1:00:00", UNSET, 3600), ("-30", UNSET, -1800), ("-1", None, 0)],
)
def test_a_time_limit_is_entered_as_for_scontrol(text: str, limit_s: object, more_s: int) -> None:
    change = limit_change(text)
    assert (change.time_limit_s, change.time_limit_more_s) == (limit_s, more_s)


@pytest.mark.parametrize("text", ["+", "-0", "+UNLIMITED", "soon"])
def test_an_invalid_time_limit_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        limit_change(text)


async def test_a_cancellation_cannot_be_undone(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("job")
        await ui.shows("● R")
        await ui.press("c")
        await ui.shows("Cancel job 1?")
        await ui.press("y")
        await ui.shows("⊘ CA")
        await ui.press("Z")
        await ui.shows_notification("Nothing to undo")


async def test_the_command_of_a_dialog_and_of_a_job_is_copied(folder: Path) -> None:
    copied = Path(config_dir()) / FILE_NAME
    async with run_app(folder) as ui:
        await ui.cluster.submit("job")
        await ui.shows("● R")
        await ui.press("Y")
        await ui.shows_notification("Copied warpdeck show 1")
        assert ui.app.clipboard == "warpdeck show 1"
        assert copied.read_text() == "warpdeck show 1\n"
        assert stat.S_IMODE(copied.stat().st_mode) == 0o600
        await ui.press("c")
        await ui.shows("Cancel job 1?")
        await ui.press("Y")
        await ui.shows_notification("Copied warpdeck cancel 1")
        await ui.press("escape", "2", "Y")
        await ui.shows_notification("Copied warpdeck node show gpu01")


async def test_undo_is_disabled_in_readonly_mode(folder: Path) -> None:
    async with run_app(folder, readonly=True) as ui:
        ui.app.chronicle.add("warpdeck hold 1", Undo("warpdeck release 1", nothing))
        await ui.press("Z")
        await ui.shows_notification("Undo is disabled")
        ui.app.clear_notifications()
        await ui.press("at", "Z")
        await ui.shows_notification("Undo is disabled")
        assert ui.app.chronicle.take() is not None


def tmux(socket: Path, *words: str) -> str:
    argv = ["tmux", "-S", str(socket), "-f", "/dev/null", *words]
    return subprocess.run(argv, check=True, timeout=20, capture_output=True, text=True).stdout


@pytest.mark.tmux
async def test_copied_text_is_in_the_tmux_buffer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket = folder / "tmux"
    await asyncio.to_thread(tmux, socket, "new-session", "-d", "cat")
    try:
        monkeypatch.setenv("TMUX", f"{socket},1,0")
        places = await clipboard.keep("ein Wörtchen", environ=os.environ)
        assert await asyncio.to_thread(tmux, socket, "show-buffer") == "ein Wörtchen"
        assert "the tmux buffer" in places
    finally:
        await asyncio.to_thread(tmux, socket, "kill-server")
