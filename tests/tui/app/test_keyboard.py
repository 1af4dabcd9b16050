"""Whatever is typed or pasted, however fast: each key means what it means after all that the one before has done."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from tests.tui.app.stage import Stage, on_stage
from textual import events
from textual.keys import _character_to_key
from textual.widgets import Input

from warpdeck_tui.screens.queue import QueueScreen
from warpdeck_tui.screens.shared.dialogs import Ask
from warpdeck_tui.screens.shared.job_list import FilterLine
from warpdeck_tui.terminal.keyboard import PATIENCE_S
from warpdeck_tui.viewmodels.jobs.form import Sheet
from warpdeck_tui.viewmodels.jobs.verbs import NO_JOB
from warpdeck_tui.widgets.log.view import LogView

NAMED = {"\n": "enter", "\t": "tab", "\x1b": "escape"}
FULL_OF_VERBS = "qcyHRU q:Zidn"
"""Each letter of it would do something, were it taken for a key."""


def burst(stage: Stage, text: str) -> None:
    """All at once, before the app has seen the first of them."""
    for char in text:
        name = NAMED.get(char) or _character_to_key(char)
        stage.app.post_message(events.Key(name, char if char.isprintable() else None))


OPENERS = {
    "filter": ("/", FilterLine),
    "palette": (":", Input),
    "save a view": ("W", Input),
    "columns": ("C", Input),
    "new job": ("n", Input),
    "drain a node": ("2d", Input),
    "add a node": ("2A", Input),
    "export": ("4E", Input),
    "filter of the history": ("4/", FilterLine),
}


@pytest.mark.parametrize("opener", OPENERS)
async def test_what_is_typed_behind_the_key_that_opens_a_line_stands_in_it(folder: Path, opener: str) -> None:
    keys, kind = OPENERS[opener]
    async with on_stage(folder) as stage:
        stage.cluster.ends["over"] = (0.0, 0)
        await stage.cluster.submit("over")
        await stage.shows("✓ CD")
        if keys[0] == "4":
            await stage.press("4")
            await stage.shows("history:", "over")
            keys = keys[1:]
        burst(stage, keys + FULL_OF_VERBS)
        await stage.until(lambda: isinstance(stage.app.focused, kind), "the line has the focus")
        line = stage.app.focused
        assert isinstance(line, Input)
        await stage.until(
            lambda: line.value.endswith(FULL_OF_VERBS), f"all of it in the line, not {line.value!r}"
        )
        assert stage.app.is_running and len(stage.cluster.controller.state.jobs) == 1


async def test_a_search_of_the_log_may_be_typed_ahead(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        burst(stage, "\n/" + FULL_OF_VERBS)
        await stage.until(lambda: stage.app.screen.query(LogView), "the job's page")
        await stage.shows("/" + FULL_OF_VERBS)


async def test_a_whole_order_may_be_typed_ahead(folder: Path) -> None:
    """Filter, keep it, go to the other job, and hold it: the letters mean what they would mean if each were waited for."""
    async with on_stage(folder) as stage:
        for name in ("alpha", "beta-one", "beta-two"):
            await stage.cluster.submit(name, hold=True)
        await stage.shows("alpha", "beta-two")
        burst(stage, "/beta\njc")
        await stage.shows("Cancel job 3?")
        burst(stage, "y")
        await stage.told("Cancel")
        await stage.until(lambda: stage.app.board.jobs[3].end is not None, "the second of them is cancelled")
        assert stage.app.board.jobs[2].end is None


async def test_keys_behind_a_dialog_that_is_answered_are_for_the_screen(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        burst(stage, "cn2")  # cancel it? no; then the nodes
        await stage.shows("gpu01", "metric: utilization")


async def test_a_dialog_goes_once_whatever_ends_it_at_the_same_time(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("question_mark")
        await stage.shows("Help")
        page = stage.app.screen
        page.dismiss(None)
        page.dismiss(None)
        await stage.shows("No jobs. Press n to submit one")
        assert isinstance(stage.app.screen, QueueScreen)


async def test_a_key_without_anything_under_the_cursor_says_so(folder: Path) -> None:
    async with on_stage(folder) as stage:
        for key in ("ctrl+n", "A", "a", "Y", "c"):
            await stage.press(key)
            await stage.told(NO_JOB)
            stage.app.clear_notifications()


async def test_a_form_that_comes_late_says_so_and_disturbs_no_dialog(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("question_mark")
        await stage.shows("Help")
        stage.app.forms.open(Sheet())
        await stage.told("The form was not opened")
        await stage.shows("Help")


PASTED = FULL_OF_VERBS + "\nyes\r" + FULL_OF_VERBS
LISTS = {
    "queue": (),
    "nodes": ("2",),
    "list of nodes": ("2", "v"),
    "node": ("2", "p"),
    "log": ("enter",),
    "metrics": ("enter", "m"),
    "details": ("enter", "d"),
    "history": ("4",),
    "sessions": ("5",),
    "help": ("question_mark",),
    "a question": ("c",),
    "action log": ("at",),
}


@pytest.mark.parametrize("place", LISTS)
async def test_a_paste_is_no_key(folder: Path, place: str) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        await stage.press(*LISTS[place])
        await stage.pilot.pause()
        before = (list(stage.app.screen_stack), stage.app.focused, stage.app.everybody)
        stage.app.post_message(events.Paste(PASTED))
        await stage.press("f24")
        await stage.pilot.pause()
        assert (list(stage.app.screen_stack), stage.app.focused, stage.app.everybody) == before
        assert stage.app.is_running and stage.app.board.jobs[1].state == "RUNNING"


async def test_a_paste_into_a_line_is_its_first_line_and_submits_nothing(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("W")
        await stage.until(lambda: isinstance(stage.app.focused, Input), "a line")
        stage.app.post_message(events.Paste("mine\nand more"))
        await stage.until(lambda: stage.field("answer").value == "mine", "the first line of it")
        await stage.told("Only the first of 2 lines was pasted")
        assert isinstance(stage.app.screen, Ask)


@pytest.mark.parametrize("newline", ["\n", "\r", "\r\n"])
async def test_a_command_that_goes_on_in_the_next_line_is_pasted_whole(folder: Path, newline: str) -> None:
    async with on_stage(folder) as stage:
        await stage.press("W")
        await stage.until(lambda: isinstance(stage.app.focused, Input), "a line")
        stage.app.post_message(events.Paste(f"python train.py \\{newline}    --lr 0.1{newline}"))
        await stage.until(lambda: stage.field("answer").value == "python train.py --lr 0.1", "all of it")
        assert not stage.notices()


async def test_a_widget_that_goes_does_not_keep_the_keyboard(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("2")
        await stage.shows("gpu01")
        burst(stage, "1")
        stage.app.action_show_queue()
        burst(stage, "4")
        await stage.shows("history:")
        burst(stage, "1")
        await stage.until(lambda: isinstance(stage.app.screen, QueueScreen), "the queue")


async def test_keys_wait_for_one_that_takes_long_on_a_busy_machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def passes_on_late(_: object, event: events.Key) -> None:
        begun_s = time.process_time()
        while event.character == "/" and time.process_time() - begun_s < 1.3 * PATIENCE_S:
            await asyncio.sleep(0)

    async with on_stage(folder) as stage:
        line = stage.app.screen.query_one(FilterLine)
        monkeypatch.setattr(type(stage.app.focused), "on_key", passes_on_late, raising=False)
        burst(stage, "/" + FULL_OF_VERBS)
        await stage.until(lambda: line.value == FULL_OF_VERBS, "all of it in the line")
