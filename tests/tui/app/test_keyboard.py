"""Fast typing and pasting: each key takes effect after all effects of the previous key."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.tui.app.app_pilot import AppPilot, run_app
from textual import events
from textual.keys import _character_to_key
from textual.widgets import Input

from warpdeck_tui.screens.queue import QueueScreen
from warpdeck_tui.screens.shared.dialogs import Ask
from warpdeck_tui.screens.shared.jobs.job_list import FilterLine
from warpdeck_tui.terminal.keyboard import PATIENCE_S, SCHEDULER_STATISTICS, busy_s
from warpdeck_tui.viewmodels.job_form.form import Sheet
from warpdeck_tui.viewmodels.jobs.verbs import NO_JOB
from warpdeck_tui.widgets.log.view import LogView

NAMED = {"\n": "enter", "\t": "tab", "\x1b": "escape"}
LETTERS_WITH_ACTIONS = "qcyHRU q:Zidn"
"""Text in which each letter is also the key of an action."""


def burst(ui: AppPilot, text: str) -> None:
    """Send all keys at once, before the app has processed the first one."""
    for char in text:
        name = NAMED.get(char) or _character_to_key(char)
        ui.app.post_message(events.Key(name, char if char.isprintable() else None))


OPENERS = {
    "filter": ("/", FilterLine),
    "palette": (":", Input),
    "save a view": ("W", Input),
    "new job": ("n", Input),
    "drain a node": ("2d", Input),
    "add a node": ("2A", Input),
    "export": ("4E", Input),
    "filter of the history": ("4/", FilterLine),
}


@pytest.mark.parametrize("opener", OPENERS)
async def test_keys_typed_after_the_opening_key_go_into_the_input_line(folder: Path, opener: str) -> None:
    keys, kind = OPENERS[opener]
    async with run_app(folder) as ui:
        ui.cluster.ends["over"] = (0.0, 0)
        await ui.cluster.submit("over")
        await ui.shows("✓ CD")
        if keys[0] == "4":
            await ui.press("4")
            await ui.shows("history:", "over")
            keys = keys[1:]
        burst(ui, keys + LETTERS_WITH_ACTIONS)
        await ui.until(lambda: isinstance(ui.app.focused, kind), "the line has the focus")
        line = ui.app.focused
        assert isinstance(line, Input)
        await ui.until(
            lambda: line.value.endswith(LETTERS_WITH_ACTIONS), f"all of it in the line, not {line.value!r}"
        )
        assert ui.app.is_running and len(ui.cluster.controller.state.jobs) == 1


async def test_keys_typed_after_the_opening_key_go_into_the_list_of_columns(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.shows("No jobs", "USER")
        burst(ui, "Cjjj ")
        await ui.shows("▌  USER")
        await ui.press("escape")
        await ui.hides("▌  USER")


async def test_a_log_search_may_be_typed_ahead(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        burst(ui, "\n/" + LETTERS_WITH_ACTIONS)
        await ui.until(lambda: ui.app.screen.query(LogView), "the job's page")
        await ui.shows("/" + LETTERS_WITH_ACTIONS)


async def test_a_sequence_of_actions_may_be_typed_ahead(folder: Path) -> None:
    """The keys filter the queue, apply the filter, move to the second match and cancel it."""
    async with run_app(folder) as ui:
        for name in ("alpha", "beta-one", "beta-two"):
            await ui.cluster.submit(name, hold=True)
        await ui.shows("alpha", "beta-two")
        burst(ui, "/beta\njc")
        await ui.shows("Cancel job 3?")
        burst(ui, "y")
        await ui.shows_notification("Cancel")
        await ui.until(lambda: ui.app.board.jobs[3].end is not None, "the second match is canceled")
        assert ui.app.board.jobs[2].end is None


async def test_keys_after_the_answer_to_a_dialog_go_to_the_screen(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        burst(ui, "cn2")  # cancel, answer no, then open the nodes
        await ui.shows("gpu01", "color: utilization")


async def test_a_dialog_dismissed_twice_closes_once(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("question_mark")
        await ui.shows("Help")
        page = ui.app.screen
        page.dismiss(None)
        page.dismiss(None)
        await ui.shows("No jobs. Press n to submit one")
        assert isinstance(ui.app.screen, QueueScreen)


async def test_a_key_without_a_selected_job_shows_a_notification(folder: Path) -> None:
    async with run_app(folder) as ui:
        for key in ("ctrl+n", "A", "a", "Y", "c"):
            await ui.press(key)
            await ui.shows_notification(NO_JOB)
            ui.app.clear_notifications()


async def test_a_form_that_is_ready_late_does_not_cover_a_dialog(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("question_mark")
        await ui.shows("Help")
        ui.app.forms.open(Sheet())
        await ui.shows_notification("The form was not opened")
        await ui.shows("Help")


PASTED = LETTERS_WITH_ACTIONS + "\nyes\r" + LETTERS_WITH_ACTIONS
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
async def test_a_paste_triggers_no_keys(folder: Path, place: str) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        await ui.press(*LISTS[place])
        await ui.pilot.pause()
        before = (list(ui.app.screen_stack), ui.app.focused, ui.app.everybody)
        ui.app.post_message(events.Paste(PASTED))
        await ui.press("f24")
        await ui.pilot.pause()
        assert (list(ui.app.screen_stack), ui.app.focused, ui.app.everybody) == before
        assert ui.app.is_running and ui.app.board.jobs[1].state == "RUNNING"


async def test_a_paste_into_an_input_line_keeps_its_first_line_only(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("W")
        await ui.until(lambda: isinstance(ui.app.focused, Input), "a line")
        ui.app.post_message(events.Paste("mine\nand more"))
        await ui.until(lambda: ui.field("answer").value == "mine", "the first line of it")
        await ui.shows_notification("Only the first of 2 lines was pasted")
        assert isinstance(ui.app.screen, Ask)


@pytest.mark.parametrize("newline", ["\n", "\r", "\r\n"])
async def test_a_command_with_continued_lines_is_pasted_completely(folder: Path, newline: str) -> None:
    async with run_app(folder) as ui:
        await ui.press("W")
        await ui.until(lambda: isinstance(ui.app.focused, Input), "a line")
        ui.app.post_message(events.Paste(f"python train.py \\{newline}    --lr 0.1{newline}"))
        await ui.until(lambda: ui.field("answer").value == "python train.py --lr 0.1", "all of it")
        assert not ui.notifications()


async def test_a_removed_widget_does_not_keep_the_keyboard(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("2")
        await ui.shows("gpu01")
        burst(ui, "1")
        ui.app.action_show_queue()
        burst(ui, "4")
        await ui.shows("history:")
        burst(ui, "1")
        await ui.until(lambda: isinstance(ui.app.screen, QueueScreen), "the queue")


def test_waiting_for_a_cpu_counts_as_busy() -> None:
    """Else an app that computes on an overloaded machine would count as idle."""
    allowed = os.sched_getaffinity(0)
    cpu = {min(allowed)}
    os.sched_setaffinity(0, cpu)
    with subprocess.Popen([sys.executable, "-IS", "-c", "while True: pass"]) as competitor:
        try:
            begun_s, busy_before_s = time.monotonic(), busy_s()
            while time.monotonic() - begun_s < PATIENCE_S / 2:
                pass
            took_s, was_busy_s = time.monotonic() - begun_s, busy_s() - busy_before_s
        finally:
            competitor.kill()
            os.sched_setaffinity(0, allowed)
    assert was_busy_s > 0.9 * took_s or not os.path.exists(SCHEDULER_STATISTICS)


async def test_keys_wait_for_a_slow_key_on_a_busy_machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def delay_key(_: object, event: events.Key) -> None:
        begun_s = time.monotonic()
        while event.character == "/" and time.monotonic() - begun_s < 1.3 * PATIENCE_S:
            await asyncio.sleep(0)

    async with run_app(folder) as ui:
        line = ui.app.screen.query_one(FilterLine)
        monkeypatch.setattr(type(ui.app.focused), "on_key", delay_key, raising=False)
        burst(ui, "/" + LETTERS_WITH_ACTIONS)
        await ui.until(lambda: line.value == LETTERS_WITH_ACTIONS, "all of it in the line")
