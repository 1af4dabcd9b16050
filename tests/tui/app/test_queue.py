"""The queue and what can be done from it, on the real screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.stage import Stage, on_stage
from textual.widgets import Input

from warpdeck.base.errors import UserError
from warpdeck.model import JobState
from warpdeck_tui.screens import queue
from warpdeck_tui.user_files.saved_views import View, Views, read_views
from warpdeck_tui.widgets.virtual_table import VirtualTable


async def test_an_empty_queue_says_the_next_step(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.shows("No jobs. Press n to submit one")


async def test_a_job_is_cancelled_only_when_confirmed(folder: Path) -> None:
    async with on_stage(folder) as stage:
        job = await stage.cluster.submit("doomed")
        await stage.shows("doomed", "gpu01")
        await stage.press("c")
        await stage.shows("Cancel job 1?", "$ warpdeck cancel 1")
        await stage.press("n")
        await stage.hides("Cancel job 1?")
        assert stage.job(job).state is JobState.RUNNING
        await stage.press("c")
        await stage.shows("Cancel job 1?")
        await stage.press("y")
        await stage.told("Canceled job 1")
        await stage.shows("⊘ CA")


async def test_a_waiting_job_is_held_and_released_at_once(folder: Path) -> None:
    async with on_stage(folder) as stage:
        job = await stage.cluster.submit("paper", hold=True)
        await stage.shows("held", "U Release")
        assert "H Hold" not in stage.text()
        await stage.press("U")
        await stage.until(lambda: stage.job(job).state is JobState.RUNNING, "it runs")
        await stage.shows("● R")
        assert "U Release" not in stage.line(-1)


async def test_a_verb_that_means_nothing_says_why(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("busy")
        await stage.shows("● R")
        await stage.press("H")
        await stage.told("Job 1 is already running. Only pending jobs can be held")
        await stage.press("a")
        await stage.told("Job 1 has no terminal. Press l to open its log")
        await stage.press("U")
        await stage.told("Job 1 is not held")


async def test_marked_jobs_are_meant_together(folder: Path) -> None:
    async with on_stage(folder) as stage:
        for name in ("one", "two", "three"):
            await stage.cluster.submit(name)
        await stage.shows("three")
        await stage.press("space", "space", "c")
        await stage.shows("Cancel 2 jobs?", "$ warpdeck cancel 1 2")
        await stage.press("y")
        await stage.told("Canceled 2 jobs")


async def test_all_that_a_filter_leaves_is_marked_at_once_and_unmarked(folder: Path) -> None:
    async with on_stage(folder) as stage:
        for name in ("train", "eval", "train"):
            await stage.cluster.submit(name)
        await stage.shows("eval")
        await stage.press("slash", *"train", "enter", "V", "c")
        await stage.shows("Cancel 2 jobs?", "$ warpdeck cancel 1 3")
        await stage.press("n", "V")
        await stage.hides("2 marked")
        await stage.press("c")
        await stage.shows("Cancel job 1?")


async def test_more_than_anybody_reads_is_not_marked_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MOST_MARKED", 1)
    async with on_stage(folder) as stage:
        for name in ("one", "two"):
            await stage.cluster.submit(name)
        await stage.shows("two")
        await stage.press("V")
        await stage.told("Cannot mark 2 rows: the limit is 1. Narrow the list with a filter")
        assert not stage.app.marks


async def test_the_filter_narrows_while_it_is_typed(folder: Path) -> None:
    async with on_stage(folder) as stage:
        for name in ("llama", "whisper"):
            await stage.cluster.submit(name)
        await stage.shows("llama", "whisper")
        await stage.press("slash")
        await stage.shows("Enter Apply")
        await stage.type("whisp")
        await stage.hides("llama")
        await stage.press("enter")
        assert stage.app.screen.focused is not None and stage.app.screen.focused.id == "queue"
        await stage.shows("1 match whisp", "c Cancel")
        await stage.press("escape")
        await stage.shows("llama")


async def test_only_my_jobs_until_everybody_is_asked_for(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("mine")
        await stage.cluster.submit("theirs", user="somebody")
        await stage.shows("mine")
        assert "theirs" not in stage.text()
        await stage.press("u")
        await stage.shows("theirs", "all jobs")


async def test_an_array_is_one_line_that_opens_and_folds(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit_array(tasks=6, at_once=2)
        await stage.shows("1_[0-5]", "2 R 4 PD", "2 running, 4 pending")
        await stage.press("enter")
        await stage.shows("  1_[2-5]", "  1_0", "  1_1")
        await stage.press("j", "j", "z")
        await stage.hides("1_0")
        assert stage.app.screen.query_one(VirtualTable).cursor_key == "array 1"


async def test_an_array_is_cancelled_as_a_whole(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit_array(tasks=6, at_once=2)
        await stage.shows("2 R 4 PD")
        await stage.press("c")
        await stage.shows("Cancel all tasks of array 1?", "$ warpdeck cancel 1", "4 pending tasks")
        await stage.press("y")
        await stage.shows("0 running, 0 pending", "⊘ CA")


async def test_cancelling_the_waiting_tasks_of_an_array_leaves_its_running_ones(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit_array(tasks=6, at_once=2)
        await stage.shows("1_[0-5]", "2 R 4 PD")
        await stage.press("enter")
        await stage.shows("  1_[2-5]", "  1_0", "  1_1")
        stage.app.screen.query_one(VirtualTable).go_to("1")
        await stage.press("c")
        await stage.shows("Cancel 4 pending tasks of array 1?", "$ warpdeck cancel --state PD '1_[2-5]'")
        await stage.shows("2 started tasks will continue")
        await stage.press("y")
        await stage.told("Canceled job 1_[2-5]")
        await stage.shows("2 running, 0 pending")


async def test_the_log_of_an_array_asks_which_task(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit_array(tasks=6, at_once=2)
        await stage.shows("2 R 4 PD")
        await stage.press("l")
        await stage.shows("Select a task of array 1")
        await stage.press("j", "enter")
        await stage.shows("job 1_1", "[Log]", "train")


async def test_an_array_that_waits_as_a_whole_has_no_log_yet(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit_array(tasks=3, at_once=1)
        await stage.shows("1 R 2 PD")
        await stage.press("enter", "G", "enter")
        await stage.shows("[Details]", "JobArrayTaskLimit")
        await stage.press("c")
        await stage.shows("Cancel 2 pending tasks of array 1?", "1 started task will continue")


async def test_the_queue_is_sorted_by_a_column_and_turned_round(folder: Path) -> None:
    async with on_stage(folder) as stage:
        for name in ("beta", "gamma", "alpha"):
            await stage.cluster.submit(name)
        await stage.shows("alpha", "beta", "gamma")
        assert order(stage, "alpha", "beta", "gamma") == ["beta", "gamma", "alpha"]
        await stage.press("s", "s", "s")
        await stage.shows("NAME▲")
        assert order(stage, "alpha", "beta", "gamma") == ["alpha", "beta", "gamma"]
        await stage.press("S")
        await stage.shows("NAME▼")
        assert order(stage, "alpha", "beta", "gamma") == ["gamma", "beta", "alpha"]


async def test_columns_are_chosen_and_kept(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("paper")
        await stage.shows("paper", "USER")
        await stage.press("C")
        await stage.shows("Columns: job state name", "job state name user gpus")
        stage.field("answer").value = "job, nonsense"
        await stage.press("enter")
        await stage.shows("No such column: nonsense. Use one of job state")
        stage.field("answer").value = "name partition job"
        await stage.press("enter")
        await stage.hides("USER", "Columns: ")
        await stage.shows("NAME", "PARTITION", "JOB")
        assert read_views(folder / "home/config/views.json").columns == ("name", "partition", "job")


async def test_a_view_is_saved_and_comes_back_by_a_key(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.cluster.submit("theirs", user="somebody")
        await stage.shows("llama")
        await stage.press("w")
        await stage.told("No saved views")
        await stage.press("u", "slash")
        await stage.type("user:some")
        await stage.press("enter", "s", "W")
        await stage.shows("Save view as")
        await stage.type("others")
        await stage.press("enter")
        await stage.shows("[others] all jobs", "JOB▲")
        await stage.press("w")
        await stage.shows("llama", "jobs of")
        await stage.hides("theirs", "[others]", "JOB▲")
        await stage.press("w")
        await stage.shows("[others]", "theirs", "JOB▲", "1 match user:some")
        assert "llama" not in stage.text()


def test_a_file_of_views_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    path = tmp_path / "views.json"
    assert read_views(path) == Views()
    for text, said in (
        ("{", "Cannot use"),
        ('{"views": {"a": {"sort": "-colour"}}}', "cannot sort by colour"),
        ('{"columns": ["jobb"]}', "No such column: jobb"),
        ('{"views": {"a": {"filtre": "x"}}}', "unknown field `filtre`"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=said):
            read_views(path)
    with pytest.raises(UserError, match="at most"):
        Views().saved("x" * 41, View())


def order(stage: Stage, *words: str) -> list[str]:
    """The words in the order in which the table shows them."""
    table = stage.text().partition("NAME")[2]
    return sorted(words, key=table.index)


async def test_a_paste_never_triggers_keys(folder: Path) -> None:
    from textual import events

    async with on_stage(folder) as stage:
        await stage.cluster.submit("safe")
        await stage.shows("● R")
        stage.app.post_message(events.Paste("cyq\n"))
        await stage.press("j")
        assert len(stage.app.screen_stack) == 2
        await stage.press("slash")
        stage.app.post_message(events.Paste("sa\x1b[31mfe"))
        await stage.until(lambda: stage.app.screen.query_one(Input).value, "the filter has the paste")
        await stage.press("escape")
        await stage.shows("safe")


@pytest.mark.parametrize("name", ["[red]x[/red]", "a\x1b[31mb", "two\nlines", "tab\there", "\u202egnp"])
async def test_names_of_other_people_are_shown_as_text(folder: Path, name: str) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit(name)
        await stage.shows("● R")
        for char in ("\x1b", "\n\x1b", "\u202e"):
            assert char not in stage.text()
        if name.startswith("["):
            await stage.shows(name)
        await stage.press("enter")
        await stage.shows("job 1", "[Log]")
        await stage.press("d", "c")
        await stage.shows("Cancel job 1?")
        assert "\x1b" not in stage.text() and "\u202e" not in stage.text()


async def test_read_only_changes_nothing(folder: Path) -> None:
    async with on_stage(folder, readonly=True) as stage:
        job = await stage.cluster.submit("kept")
        await stage.shows("● R")
        await stage.press("c", "H", "R", "n", "i")
        assert len(stage.app.screen_stack) == 2
        assert stage.job(job).state is JobState.RUNNING
        assert "Cancel" not in stage.line(-1) and "New" not in stage.line(-1) and "q Quit" in stage.line(-1)


async def test_a_filter_that_is_not_understood_says_what_is_wrong(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        await stage.press("slash")
        await stage.type("gpu>x")
        await stage.shows(
            "gpu>x does not compare with a whole number; write such as gpu>4. Press Esc to clear it"
        )
        await stage.press("escape", "slash")
        await stage.type("vit")
        await stage.shows("No jobs match the filter. Press Esc to clear it")
