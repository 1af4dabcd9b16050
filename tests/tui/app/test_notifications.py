"""Desktop notifications about the start and the end of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.app_pilot import AppPilot, run_app
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


def test_the_event_follows_from_two_versions_of_a_row() -> None:
    assert event(WAITS, RUNS) == "started"
    assert event(RUNS, ENDED) == "ended"
    assert event(WAITS, ENDED) == "ended"
    assert event(None, RUNS) == "started", "a task of an array"
    assert event(None, ENDED) == "ended", "a job of a moment"
    assert event(RUNS, RUNS) == event(WAITS, WAITS) == event(ENDED, ENDED) == ""


def test_notification_texts_name_job_and_event() -> None:
    assert sentence("started", RUNS) == "Job 7 llama started on gpu01"
    assert sentence("ended", ENDED).startswith("Job 7 llama ended: exit 1")


def test_many_events_are_counted() -> None:
    assert bundle([("ended", ENDED)] * 5 + [("started", RUNS)]) == ["1 job started", "5 jobs ended"]


def test_a_job_name_cannot_control_the_terminal() -> None:
    assert desktop_sequence("a\x1b]0;b\x07c", in_tmux=False) == "\x1b]9;a\ufffd]0;b\ufffdc\x07\x07"


def test_a_notification_passes_through_tmux() -> None:
    assert desktop_sequence("done", in_tmux=True) == "\x1bPtmux;\x1b\x1b]9;done\x07\x1b\\\x07"


def settings(text: str) -> None:
    folder = Path(config_dir())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "app.toml").write_text(text)


async def desktop_receives(ui: AppPilot, *words: str) -> None:
    output: list[str] = []
    await ui.until(
        lambda: output.append(ui.written()) or all(word in "".join(output) for word in words),
        "the desktop is notified",
    )


@pytest.fixture(autouse=True)
def no_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)


async def test_only_marked_jobs_cause_notifications(folder: Path) -> None:
    async with run_app(folder, writes=True) as ui:
        await ui.cluster.submit("steady")
        await ui.cluster.submit("other")
        await ui.shows("steady", "other", "● R")
        await ui.press("g", "space")
        ui.written()
        await ui.app.core.change("cancel", ["2"])
        await ui.shows("⊘ CA")
        await ui.app.core.change("cancel", ["1"])
        await desktop_receives(ui, "\x1b]9;Job 1 steady ended: signal 15 (cancelled) on gpu01\x07\x07")
        assert "Job 2 other" not in ui.notifications()


async def test_the_users_own_jobs_cause_notifications_if_configured(folder: Path) -> None:
    settings('notify = "own"\n')
    async with run_app(folder, writes=True, everybody=True) as ui:
        await ui.cluster.submit("theirs", user="nobody")
        await ui.cluster.submit("mine")
        await desktop_receives(ui, "\x1b]9;Job 2 mine started on gpu0")
        assert "theirs" not in ui.notifications()


async def test_invalid_settings_show_one_notification(folder: Path) -> None:
    settings('notify = "everything"\n')
    async with run_app(folder) as ui:
        await ui.shows_notification("app.toml: Invalid enum value 'everything'")


async def test_an_expired_notification_leaves_nothing_on_the_screen(folder: Path) -> None:
    async with run_app(folder, toasts=True) as ui:
        for turn in range(4):
            ui.app.notify(f"notice {turn}")
            ui.app.notify("said again and again")
            await ui.shows(f"notice {turn}", "said again")
        await ui.until(
            lambda: len(ui.app.screen.query(ToastHolder)) == len(ui.app._notifications) == MOST_NOTICES,
            "a holder for each notice",
        )
        await ui.press("question_mark")
        await ui.shows("Help")
        ui.app.clear_notifications()
        await ui.press("escape")
        await ui.until(lambda: not ui.app.screen.query(ToastHolder), "no notification of the queue is left")
