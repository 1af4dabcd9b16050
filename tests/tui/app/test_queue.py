"""The queue and its actions in the running app."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.app_pilot import AppPilot, run_app
from textual.widgets import Input

from warpdeck.base.errors import UserError
from warpdeck.model import JobState
from warpdeck_tui.screens import queue
from warpdeck_tui.user_files.saved_views import View, Views, read_views
from warpdeck_tui.viewmodels.jobs.column_choice import WORDS
from warpdeck_tui.viewmodels.jobs.job_columns import DEFAULT_COLUMNS, JOB_COLUMNS, PAST_COLUMNS
from warpdeck_tui.widgets.virtual_table import VirtualTable


async def test_an_empty_queue_shows_the_next_step(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.shows("No jobs. Press n to submit one")


async def test_a_job_is_canceled_only_after_confirmation(folder: Path) -> None:
    async with run_app(folder) as ui:
        job = await ui.cluster.submit("doomed")
        await ui.shows("doomed", "gpu01")
        await ui.press("c")
        await ui.shows("Cancel job 1?", "$ warpdeck cancel 1")
        await ui.press("n")
        await ui.hides("Cancel job 1?")
        assert ui.job(job).state is JobState.RUNNING
        await ui.press("c")
        await ui.shows("Cancel job 1?")
        await ui.press("y")
        await ui.shows_notification("Canceled job 1")
        await ui.shows("⊘ CA")


async def test_a_held_job_is_released_at_once(folder: Path) -> None:
    async with run_app(folder) as ui:
        job = await ui.cluster.submit("paper", hold=True)
        await ui.shows("held", "U Release")
        assert "H Hold" not in ui.text()
        await ui.press("U")
        await ui.until(lambda: ui.job(job).state is JobState.RUNNING, "the job runs")
        await ui.shows("● R")
        assert "U Release" not in ui.line(-1)


async def test_an_action_that_does_not_apply_shows_the_reason(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("busy")
        await ui.shows("● R")
        await ui.press("H")
        await ui.shows_notification("Job 1 is already running. Only pending jobs can be held")
        await ui.press("a")
        await ui.shows_notification("Job 1 has no terminal. Press l to open its log")
        await ui.press("U")
        await ui.shows_notification("Job 1 is not held")


async def test_an_action_applies_to_all_marked_jobs(folder: Path) -> None:
    async with run_app(folder) as ui:
        for name in ("one", "two", "three"):
            await ui.cluster.submit(name)
        await ui.shows("three")
        await ui.press("space", "space", "c")
        await ui.shows("Cancel 2 jobs?", "$ warpdeck cancel 1 2")
        await ui.press("y")
        await ui.shows_notification("Canceled 2 jobs")


async def test_all_filtered_jobs_are_marked_and_unmarked_at_once(folder: Path) -> None:
    async with run_app(folder) as ui:
        for name in ("train", "eval", "train"):
            await ui.cluster.submit(name)
        await ui.shows("eval")
        await ui.press("slash", *"train", "enter", "V", "c")
        await ui.shows("Cancel 2 jobs?", "$ warpdeck cancel 1 3")
        await ui.press("n", "V")
        await ui.hides("2 marked")
        await ui.press("c")
        await ui.shows("Cancel job 1?")


async def test_marking_above_the_limit_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "MOST_MARKED", 1)
    async with run_app(folder) as ui:
        for name in ("one", "two"):
            await ui.cluster.submit(name)
        await ui.shows("two")
        await ui.press("V")
        await ui.shows_notification("Cannot mark 2 rows: the limit is 1. Narrow the list with a filter")
        assert not ui.app.marks


async def test_the_filter_applies_while_it_is_typed(folder: Path) -> None:
    async with run_app(folder) as ui:
        for name in ("llama", "whisper"):
            await ui.cluster.submit(name)
        await ui.shows("llama", "whisper")
        await ui.press("slash")
        await ui.shows("Enter Apply")
        await ui.type("whisp")
        await ui.hides("llama")
        await ui.press("enter")
        assert ui.app.screen.focused is not None and ui.app.screen.focused.id == "queue"
        await ui.shows("1 match whisp", "c Cancel")
        await ui.press("escape")
        await ui.shows("llama")


async def test_only_the_users_jobs_are_shown_until_all_are_requested(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("mine")
        await ui.cluster.submit("theirs", user="somebody")
        await ui.shows("mine")
        assert "theirs" not in ui.text()
        await ui.press("u")
        await ui.shows("theirs", "all jobs")


async def test_an_array_is_one_line_that_expands_and_folds(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit_array(tasks=6, at_once=2)
        await ui.shows("1_[0-5]", "2 R 4 PD", "2 running, 4 pending")
        await ui.press("enter")
        await ui.shows("  1_[2-5]", "  1_0", "  1_1")
        await ui.press("j", "j", "z")
        await ui.hides("1_0")
        assert ui.app.screen.query_one(VirtualTable).cursor_key == "array 1"


async def test_an_array_is_canceled_as_a_whole(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit_array(tasks=6, at_once=2)
        await ui.shows("2 R 4 PD")
        await ui.press("c")
        await ui.shows("Cancel all tasks of array 1?", "$ warpdeck cancel 1", "4 pending tasks")
        await ui.shows("Ends 2 running and 4 pending tasks; none stay")
        await ui.press("y")
        await ui.shows("0 running, 0 pending", "⊘ CA")


async def test_canceling_the_waiting_tasks_of_an_array_keeps_running_ones(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit_array(tasks=6, at_once=2)
        await ui.shows("1_[0-5]", "2 R 4 PD")
        await ui.press("enter")
        await ui.shows("  1_[2-5]", "  1_0", "  1_1")
        ui.app.screen.query_one(VirtualTable).go_to("1")
        await ui.press("c")
        await ui.shows("Cancel 4 pending tasks of array 1?", "$ warpdeck cancel --state PD '1_[2-5]'")
        await ui.shows("Ends 4 pending tasks; 2 running tasks stay")
        await ui.press("y")
        await ui.shows_notification("Canceled job 1_[2-5]")
        await ui.shows("2 running, 0 pending")


async def test_thirty_of_38_pending_tasks_are_canceled_with_six_keys(folder: Path) -> None:
    async with run_app(folder, size=(120, 30)) as ui:
        await ui.cluster.submit_array(tasks=46, at_once=8)
        await ui.shows("8 R 38 PD")
        await ui.press("c", "t", "1", "6", "minus")
        await ui.shows("Ends 30 pending tasks; 8 running and 8 pending tasks stay")
        await ui.shows("$ warpdeck cancel --state PD '1_[16-45]'")
        await ui.press("enter")
        await ui.shows_notification("Canceled job 1_[16-45]")
        await ui.shows("8 running, 8 pending")


async def test_only_the_pending_tasks_of_an_array_are_canceled(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit_array(tasks=6, at_once=2)
        await ui.shows("2 R 4 PD")
        await ui.press("c", "w")
        await ui.shows("Cancel 4 pending tasks of array 1?", "Ends 4 pending tasks; 2 running tasks stay")
        await ui.press("y")
        await ui.shows("2 running, 0 pending")


async def test_tasks_that_do_not_exist_are_refused_and_the_text_stays(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit_array(tasks=6, at_once=2)
        await ui.shows("2 R 4 PD")
        await ui.press("c", "t")
        await ui.until(lambda: ui.field("answer").value == "2-5", "the pending tasks in the field")
        await ui.type("9")
        await ui.press("enter")
        await ui.shows("No task 9. The tasks are 0-5")
        await ui.press("backspace")
        await ui.type("0,3")
        await ui.shows("Ends 1 running and 1 pending tasks; 1 running and 3 pending tasks stay")
        await ui.press("enter")
        await ui.shows("2 running, 2 pending")  # another task has started in place of task 0


async def test_the_rows_from_a_mark_to_the_cursor_are_marked(folder: Path) -> None:
    async with run_app(folder) as ui:
        for _ in range(4):
            await ui.cluster.submit()
        await ui.shows("4 running")
        await ui.press("space", "j", "v")
        await ui.shows("3 marked")
        await ui.press("c")
        await ui.shows("Cancel 3 jobs?")


async def test_the_log_of_an_array_requires_a_task(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit_array(tasks=6, at_once=2)
        await ui.shows("2 R 4 PD")
        await ui.press("l")
        await ui.shows("Select a task of array 1")
        await ui.press("j", "enter")
        await ui.shows("job 1_1", "[Log]", "train")


async def test_waiting_tasks_of_an_array_have_no_log(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit_array(tasks=3, at_once=1)
        await ui.shows("1 R 2 PD")
        await ui.press("enter", "G", "enter")
        await ui.shows("[Details]", "JobArrayTaskLimit")
        await ui.press("c")
        await ui.shows("Cancel 2 pending tasks of array 1?", "Ends 2 pending tasks; 1 running task stays")


async def test_the_queue_is_sorted_by_a_column_and_reversed(folder: Path) -> None:
    async with run_app(folder) as ui:
        for name in ("beta", "gamma", "alpha"):
            await ui.cluster.submit(name)
        await ui.shows("alpha", "beta", "gamma")
        assert order(ui, "alpha", "beta", "gamma") == ["beta", "gamma", "alpha"]
        await ui.press("s", "s", "s")
        await ui.shows("NAME▲")
        assert order(ui, "alpha", "beta", "gamma") == ["alpha", "beta", "gamma"]
        await ui.press("S")
        await ui.shows("NAME▼")
        assert order(ui, "alpha", "beta", "gamma") == ["gamma", "beta", "alpha"]


async def test_columns_are_selected_and_saved(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("paper")
        await ui.shows("paper", "USER")
        await ui.press("C")
        await ui.shows("✓ USER", "  PARTITION", "Apply")
        await ui.press("j", "j", "j", "space")
        await ui.shows("▌  USER")
        await ui.press("K", "K", "K", "space")
        await ui.until(lambda: ui.app.navigation.queue.columns[0] == "user", "USER is the first column")  # type: ignore[union-attr]
        await ui.press("enter")
        await ui.hides("Apply")
        shown = read_views(folder / "home/config/views.json").columns
        assert shown == ("user", *(name for name in DEFAULT_COLUMNS if name != "user"))
        assert ui.text().index("USER") < ui.text().index("JOB")


async def test_canceled_columns_are_restored_and_one_column_always_stays(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("paper")
        await ui.shows("paper", "USER")
        await ui.press("C", *(["space", "j"] * len(DEFAULT_COLUMNS)))
        await ui.shows_notification("A list needs at least one column")
        await ui.press("escape")
        await ui.hides("Apply")
        assert ui.app.navigation.queue.columns == DEFAULT_COLUMNS  # type: ignore[union-attr]
        await ui.shows("USER", "paper")
        await ui.press("C", "space", "D", "enter")
        await ui.until(lambda: ui.app.navigation.queue.columns == DEFAULT_COLUMNS, "the default columns")  # type: ignore[union-attr]


async def test_the_columns_of_the_history_are_selected_and_saved(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("4", "C")
        await ui.shows("✓ ACCOUNT", "  QOS", "Apply")
        await ui.hides("PRIO")
        await ui.press("space", "enter")
        await ui.hides("Apply")
        assert read_views(folder / "home/config/views.json").past_columns == PAST_COLUMNS[1:]
        await ui.press("1", "4")
        await ui.shows("STATE", "ACCOUNT")
        await ui.hides(" JOB ")
        await ui.press("C", "D", "enter")
        await ui.shows(" JOB ")


def test_every_column_has_a_description() -> None:
    assert set(WORDS) == set(JOB_COLUMNS)


async def test_a_view_is_saved_and_restored_by_a_key(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.cluster.submit("theirs", user="somebody")
        await ui.shows("llama")
        await ui.press("w")
        await ui.shows_notification("No saved views")
        await ui.press("u", "slash")
        await ui.type("user:some")
        await ui.press("enter", "s", "W")
        await ui.shows("Save view as")
        await ui.type("others")
        await ui.press("enter")
        await ui.shows("[others] all jobs", "JOB▲")
        await ui.press("w")
        await ui.shows("llama", "jobs of")
        await ui.hides("theirs", "[others]", "JOB▲")
        await ui.press("w")
        await ui.shows("[others]", "theirs", "JOB▲", "1 match user:some")
        assert "llama" not in ui.text()


def test_an_invalid_file_of_views_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "views.json"
    assert read_views(path) == Views()
    for text, message in (
        ("{", "Cannot use"),
        ('{"views": {"a": {"sort": "-colour"}}}', "cannot sort by colour"),
        ('{"columns": ["jobb"]}', "No such column: jobb"),
        ('{"views": {"a": {"filtre": "x"}}}', "unknown field `filtre`"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            read_views(path)
    with pytest.raises(UserError, match="at most"):
        Views().saved("x" * 41, View())


def order(ui: AppPilot, *words: str) -> list[str]:
    """Return the words in the order of the table."""
    table = ui.text().partition("NAME")[2]
    return sorted(words, key=table.index)


async def test_a_paste_never_triggers_keys(folder: Path) -> None:
    from textual import events

    async with run_app(folder) as ui:
        await ui.cluster.submit("safe")
        await ui.shows("● R")
        ui.app.post_message(events.Paste("cyq\n"))
        await ui.press("j")
        assert len(ui.app.screen_stack) == 2
        await ui.press("slash")
        ui.app.post_message(events.Paste("sa\x1b[31mfe"))
        await ui.until(lambda: ui.app.screen.query_one(Input).value, "the filter has the paste")
        await ui.press("escape")
        await ui.shows("safe")


@pytest.mark.parametrize("name", ["[red]x[/red]", "a\x1b[31mb", "two\nlines", "tab\there", "\u202egnp"])
async def test_names_of_other_people_are_shown_as_text(folder: Path, name: str) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit(name)
        await ui.shows("● R")
        for char in ("\x1b", "\n\x1b", "\u202e"):
            assert char not in ui.text()
        if name.startswith("["):
            await ui.shows(name)
        await ui.press("enter")
        await ui.shows("job 1", "[Log]")
        await ui.press("d", "c")
        await ui.shows("Cancel job 1?")
        assert "\x1b" not in ui.text() and "\u202e" not in ui.text()


async def test_readonly_mode_changes_nothing(folder: Path) -> None:
    async with run_app(folder, readonly=True) as ui:
        job = await ui.cluster.submit("kept")
        await ui.shows("● R")
        await ui.press("c", "H", "R", "n", "i")
        assert len(ui.app.screen_stack) == 2
        assert ui.job(job).state is JobState.RUNNING
        assert "Cancel" not in ui.line(-1) and "New" not in ui.line(-1) and "q Quit" in ui.line(-1)


async def test_an_invalid_filter_shows_the_error(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        await ui.press("slash")
        await ui.type("gpu>x")
        await ui.shows(
            "gpu>x does not compare with a whole number; write such as gpu>4. Press Esc to clear it"
        )
        await ui.press("escape", "slash")
        await ui.type("vit")
        await ui.shows("No jobs match the filter. Press Esc to clear it")
