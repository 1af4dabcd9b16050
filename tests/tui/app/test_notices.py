"""The desktop hears when a job starts or ends that somebody waits for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.stage import Stage, on_stage
from textual.widgets._toast import ToastHolder

from warpdeck.base.paths import config_dir
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.terminal.terminal_app import MOST_NOTICES
from warpdeck_tui.viewmodels.shell.notifications import bundle, desktop_sequence, event, sentence

WAITS = JobRow(id=7, label="7", array_job_id=7, name="llama")
RUNS = JobRow(id=7, label="7", array_job_id=7, name="llama", state="RUNNING", start=5.0, node_list="gpu01")
ENDED = JobRow(
    id=7,
    label="7",
    array_job_id=7,
    name="llama",
    state="FAILED",
    start=5.0,
    end=9.0,
    exit_code="1:0",
    node_list="gpu01",
)


def test_what_lies_between_two_rows() -> None:
    assert event(WAITS, RUNS) == "started"
    assert event(RUNS, ENDED) == "ended"
    assert event(WAITS, ENDED) == "ended"
    assert event(None, RUNS) == "started", "a task of an array"
    assert event(None, ENDED) == "ended", "a job of a moment"
    assert event(RUNS, RUNS) == event(WAITS, WAITS) == event(ENDED, ENDED) == ""


def test_words() -> None:
    assert sentence("started", RUNS) == "Job 7 llama started on gpu01"
    assert sentence("ended", ENDED).startswith("Job 7 llama ended: exit 1")


def test_many_are_counted() -> None:
    assert bundle([("ended", ENDED)] * 5 + [("started", RUNS)]) == ["1 job started", "5 jobs ended"]


def test_a_name_cannot_give_the_terminal_orders() -> None:
    assert desktop_sequence("a\x1b]0;b\x07c", in_tmux=False) == "\x1b]9;a\ufffd]0;b\ufffdc\x07\x07"


def test_tmux_hands_it_on() -> None:
    assert desktop_sequence("done", in_tmux=True) == "\x1bPtmux;\x1b\x1b]9;done\x07\x1b\\\x07"


def settings(text: str) -> None:
    folder = Path(config_dir())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "app.toml").write_text(text)


async def hears(stage: Stage, *words: str) -> None:
    told: list[str] = []
    await stage.until(
        lambda: told.append(stage.written()) or all(word in "".join(told) for word in words),
        "the desktop is told",
    )


@pytest.fixture(autouse=True)
def no_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)


async def test_of_a_marked_job_and_of_no_other(folder: Path) -> None:
    async with on_stage(folder, writes=True) as stage:
        await stage.cluster.submit("steady")
        await stage.cluster.submit("other")
        await stage.shows("steady", "other", "● R")
        await stage.press("g", "space")
        stage.written()
        await stage.app.core.change("cancel", ["2"])
        await stage.shows("⊘ CA")
        await stage.app.core.change("cancel", ["1"])
        await hears(stage, "\x1b]9;Job 1 steady ended: signal 15 (cancelled) on gpu01\x07\x07")
        assert "Job 2 other" not in stage.notices()


async def test_of_ones_own_jobs_where_that_is_wanted(folder: Path) -> None:
    settings('notify = "own"\n')
    async with on_stage(folder, writes=True, everybody=True) as stage:
        await stage.cluster.submit("theirs", user="nobody")
        await stage.cluster.submit("mine")
        await hears(stage, "\x1b]9;Job 2 mine started on gpu0")
        assert "theirs" not in stage.notices()


async def test_wrong_settings_are_one_notice(folder: Path) -> None:
    settings('notify = "everything"\n')
    async with on_stage(folder) as stage:
        await stage.told("app.toml: Invalid enum value 'everything'")


async def test_of_a_notice_that_is_over_nothing_stays_on_the_screen(folder: Path) -> None:
    async with on_stage(folder, toasts=True) as stage:
        for turn in range(4):
            stage.app.notify(f"notice {turn}")
            stage.app.notify("said again and again")
            await stage.shows(f"notice {turn}", "said again")
        await stage.until(
            lambda: len(stage.app.screen.query(ToastHolder)) == len(stage.app._notifications) == MOST_NOTICES,
            "a holder for each notice",
        )
        await stage.press("question_mark")
        await stage.shows("Help")
        stage.app.clear_notifications()
        await stage.press("escape")
        await stage.until(lambda: not stage.app.screen.query(ToastHolder), "none of the queue's is left")
