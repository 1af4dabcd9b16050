"""Action log, as command lines: shown, copied, taken back."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
from pathlib import Path

import pytest
from msgspec import UNSET
from tests.tui.app.stage import on_stage

from warpdeck.base.errors import UserError
from warpdeck.base.paths import config_dir
from warpdeck.model import ArraySpec, GpuRequest, Resources
from warpdeck_tui.data.action_log import MOST_KEPT, ActionLog, Undo
from warpdeck_tui.terminal import clipboard
from warpdeck_tui.terminal.clipboard import FILE_NAME
from warpdeck_tui.viewmodels.jobs.limits import limit_change


async def nothing() -> None:
    """Takes nothing back."""


def test_what_can_be_taken_back_is_taken_back_once_and_the_latest_first() -> None:
    chronicle = ActionLog(clock=lambda: 0.0)
    chronicle.add("warpdeck hold 1", Undo("warpdeck release 1", nothing))
    chronicle.add("warpdeck hold 2", Undo("warpdeck release 2", nothing))
    chronicle.add("warpdeck cancel 3")
    taken = [chronicle.take() for _ in range(3)]
    assert [done.command if done else "" for done in taken] == ["warpdeck hold 2", "warpdeck hold 1", ""]


def test_what_was_refused_makes_room_for_the_others_and_is_there_by_its_key() -> None:
    chronicle = ActionLog(clock=lambda: 0.0)
    for number in (1, 2):
        chronicle.add(f"warpdeck hold {number}", Undo(f"warpdeck release {number}", nothing))
    second = chronicle.take()
    assert second is not None
    chronicle.give_back(second, is_refused=False)
    assert chronicle.take() == second, "nobody answered: it is the next one still"
    chronicle.give_back(second, is_refused=True)
    assert [line[2].text for _, line in chronicle.rows()] == ["refused", "yes"]
    first = chronicle.take()
    assert first is not None and first.command == "warpdeck hold 1"
    assert chronicle.take() is None
    again = chronicle.take(second.key)
    assert again is not None and again.undo == second.undo
    assert chronicle.take(second.key) is None, "it is asked for once"


def test_the_chronicle_has_an_end() -> None:
    chronicle = ActionLog(clock=lambda: 0.0)
    for number in range(MOST_KEPT + 5):
        chronicle.add(f"warpdeck cancel {number}")
    assert len(list(chronicle)) == MOST_KEPT and chronicle.command("1") == ""
    key, cells = chronicle.rows()[0]
    assert chronicle.command(key) == cells[1].text == f"warpdeck cancel {MOST_KEPT + 4}"


async def test_a_hold_is_taken_back_and_both_are_in_the_log(folder: Path) -> None:
    async with on_stage(folder) as stage:
        for _ in range(2):
            await stage.cluster.submit("large", resources=Resources(gpus=GpuRequest(per_node=4)))
        await stage.cluster.submit("waits")
        await stage.shows("● R", "◌ PD")
        await stage.press("G", "H")
        await stage.told("Held job 3")
        await stage.press("Z")
        await stage.told("Undone: warpdeck release 3")
        await stage.press("at")
        await stage.shows("Action log", "warpdeck hold 3", "warpdeck release 3")
        await stage.press("y")
        await stage.told("Copied warpdeck release 3")
        await stage.press("escape")
        await stage.hides("Action log")


async def test_what_is_too_late_to_be_taken_back_says_so(folder: Path) -> None:
    async with on_stage(folder) as stage:
        stage.cluster.ends["first"] = (0.0, 0)
        job = await stage.cluster.submit("first", hold=True)
        await stage.shows("◌ PD")
        await stage.press("U")
        await stage.until(lambda: stage.job(job).is_finished, "the job is over")
        await stage.until(lambda: list(stage.app.chronicle), "the app has heard that it was released")
        await stage.press("Z")
        await stage.told("job 1 has ended")
        await stage.told("Press @, then Z to try again")
        assert [done.command for done in stage.app.chronicle] == ["warpdeck release 1"]
        await stage.press("at")
        await stage.shows("refused", "Z Undo")
        stage.app.clear_notifications()
        await stage.press("Z")
        await stage.told("job 1 has ended")
        await stage.shows("refused")


async def test_what_nobody_answered_is_asked_for_again(folder: Path) -> None:
    async with on_stage(folder) as stage:
        for name in ("first", "second"):
            await stage.cluster.submit(name, resources=Resources(gpus=GpuRequest(per_node=4)))
        await stage.cluster.submit("waits")
        await stage.shows("\u25cc PD")
        await stage.press("G", "H")
        await stage.told("Held job 3")
        await stage.cluster.stop()
        await stage.shows("reconnecting")
        await stage.press("Z")
        await stage.told("Press Z to try again")
        await stage.cluster.start()
        await stage.hides("reconnecting")
        await stage.press("at", "Z")
        await stage.told("Undone: warpdeck release 3")
        await stage.shows("warpdeck release 3")


async def test_a_drain_is_taken_back(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("2", "d")
        await stage.shows("Reason for draining gpu01")
        await stage.type("fans")
        await stage.press("enter")
        await stage.until(lambda: stage.app.board.nodes["gpu01"].state == "drained", "it is drained")
        await stage.until(lambda: list(stage.app.chronicle), "the app has heard that it was done")
        await stage.press("Z")
        await stage.until(lambda: stage.app.board.nodes["gpu01"].state == "idle", "it is back")
        await stage.press("at")
        await stage.shows("warpdeck node drain gpu01 fans", "warpdeck node resume gpu01")


async def test_a_time_limit_is_changed_by_a_key_and_taken_back(folder: Path) -> None:
    async with on_stage(folder, size=(100, 24)) as stage:
        await stage.cluster.submit("first", time_limit_s=7200)
        await stage.cluster.submit("second", time_limit_s=3600)
        await stage.cluster.submit("endless")
        await stage.shows("endless")
        await stage.press("V", "L")
        await stage.shows("Time limit of 3 jobs", "$ scontrol update JobId=1,2,3 TimeLimit=TIME")
        await stage.press("escape", "escape", "space", "space", "L")
        await stage.shows("Time limit of 2 jobs")
        await stage.type("+x")
        await stage.press("enter")
        await stage.shows("'x' is not a time")
        stage.field("answer").value = "+30"
        await stage.press("enter")
        await stage.told("Changed the time limit of 2 jobs")
        state = stage.cluster.controller.state
        assert [state.jobs[number].time_limit_s for number in (1, 2)] == [9000, 5400]
        await stage.press("Z")
        await stage.told(
            "Undone: scontrol update JobId=1 TimeLimit=2:00:00; scontrol update JobId=2 TimeLimit=1:00:00"
        )
        assert [state.jobs[number].time_limit_s for number in (1, 2)] == [7200, 3600]
        await stage.press("at")
        await stage.shows("scontrol update JobId=1,2 TimeLimit=+30")


async def test_a_limit_that_nobody_had_asked_for_is_changed_for_good(folder: Path) -> None:
    async with on_stage(folder, size=(100, 24)) as stage:
        await stage.cluster.submit("endless")
        await stage.shows("endless")
        await stage.press("colon", *"limit", "space", "1")
        await stage.shows("Limit job 1")
        await stage.press("enter")
        await stage.shows("Time limit of job 1")
        await stage.type("1:00:00")
        await stage.press("enter")
        await stage.told("Changed the time limit of job 1")
        await stage.press("Z")
        await stage.told("Nothing to undo")


async def test_a_priority_is_changed_by_a_key_and_taken_back(folder: Path) -> None:
    async with on_stage(folder, size=(100, 24)) as stage:
        jobs = stage.cluster.controller.state.jobs

        def asked() -> list[tuple[int | None, int]]:
            return [(jobs[number].request.priority, jobs[number].request.nice) for number in (3, 4)]

        for name in ("one", "two", "third"):
            await stage.cluster.submit(name, resources=Resources(gpus=GpuRequest(per_node=4)))
        await stage.cluster.submit("sweep", nice=7, array=ArraySpec(ranges=((0, 3, 1),)))
        await stage.shows("third", "sweep")
        await stage.press("P")
        await stage.told("Job 1 is not pending (RUNNING)")
        await stage.press("V", "P")
        await stage.shows("Priority of 2 jobs", "$ scontrol update 'JobId=3,4_[0-3]' Nice=100")
        await stage.type("soon")
        await stage.press("enter")
        await stage.shows("Invalid priority 'soon'. Enter nice=100, or a number such as 5000")
        stage.field("answer").value = "nice=50"
        await stage.press("enter")
        await stage.told("Changed the priority of 2 jobs")
        assert asked() == [(None, 50), (None, 50)]
        await stage.press("P")
        await stage.shows("nice=50")
        stage.field("answer").value = "5000"
        await stage.press("enter")
        await stage.until(
            lambda: asked() == [(5000, 0), (5000, 0)], "a number in the place of what is computed"
        )
        await stage.until(lambda: len(list(stage.app.chronicle)) == 2, "the app has heard")
        await stage.press("Z")
        await stage.told("Undone: warpdeck release 3 '4_[0-3]'; scontrol update 'JobId=3,4_[0-3]' Nice=50")
        assert asked() == [(None, 50), (None, 50)]
        await stage.press("Z")
        await stage.told("scontrol update JobId=3 Nice=0; scontrol update 'JobId=4_[0-3]' Nice=7")
        assert asked() == [(None, 0), (None, 7)]


@pytest.mark.parametrize(
    ("text", "limit_s", "more_s"),
    [("90", 5400, 0), ("1-0", 86_400, 0), ("+1:00:00", UNSET, 3600), ("-30", UNSET, -1800), ("-1", None, 0)],
)
def test_a_limit_is_written_as_scontrol_takes_it(text: str, limit_s: object, more_s: int) -> None:
    change = limit_change(text)
    assert (change.time_limit_s, change.time_limit_more_s) == (limit_s, more_s)


@pytest.mark.parametrize("text", ["+", "-0", "+UNLIMITED", "soon"])
def test_a_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        limit_change(text)


async def test_a_cancel_cannot_be_taken_back_and_says_so(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("job")
        await stage.shows("● R")
        await stage.press("c")
        await stage.shows("Cancel job 1?")
        await stage.press("y")
        await stage.shows("⊘ CA")
        await stage.press("Z")
        await stage.told("Nothing to undo")


async def test_the_command_of_a_question_and_of_a_job_is_copied(folder: Path) -> None:
    copied = Path(config_dir()) / FILE_NAME
    async with on_stage(folder) as stage:
        await stage.cluster.submit("job")
        await stage.shows("● R")
        await stage.press("Y")
        await stage.told("Copied warpdeck show 1")
        assert stage.app.clipboard == "warpdeck show 1"
        assert copied.read_text() == "warpdeck show 1\n"
        assert stat.S_IMODE(copied.stat().st_mode) == 0o600
        await stage.press("c")
        await stage.shows("Cancel job 1?")
        await stage.press("Y")
        await stage.told("Copied warpdeck cancel 1")
        await stage.press("escape", "2", "Y")
        await stage.told("Copied warpdeck node show gpu01")


async def test_readonly_has_no_undo(folder: Path) -> None:
    async with on_stage(folder, readonly=True) as stage:
        stage.app.chronicle.add("warpdeck hold 1", Undo("warpdeck release 1", nothing))
        await stage.press("Z")
        await stage.told("Undo is disabled")
        stage.app.clear_notifications()
        await stage.press("at", "Z")
        await stage.told("Undo is disabled")
        assert stage.app.chronicle.take() is not None


def tmux(socket: Path, *words: str) -> str:
    argv = ["tmux", "-S", str(socket), "-f", "/dev/null", *words]
    return subprocess.run(argv, check=True, timeout=20, capture_output=True, text=True).stdout


@pytest.mark.tmux
async def test_in_tmux_its_buffer_has_what_was_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket = folder / "tmux"
    await asyncio.to_thread(tmux, socket, "new-session", "-d", "cat")
    try:
        monkeypatch.setenv("TMUX", f"{socket},1,0")
        places = await clipboard.keep("ein Wörtchen", environ=os.environ)
        assert await asyncio.to_thread(tmux, socket, "show-buffer") == "ein Wörtchen"
        assert "the tmux buffer" in places
    finally:
        await asyncio.to_thread(tmux, socket, "kill-server")
