"""The table of actions: keys are unambiguous in each context, and each action is explained and implemented."""

from __future__ import annotations

import pytest
from textual.dom import DOMNode

from warpdeck_tui.app import DeckApp
from warpdeck_tui.screens.admin import AdminScreen
from warpdeck_tui.screens.forms.shell import ShellSize, ShellWait
from warpdeck_tui.screens.forms.submit import FormLine, NewJob, ScriptText
from warpdeck_tui.screens.forms.sweep import SweepGrid
from warpdeck_tui.screens.help import KeyHelp
from warpdeck_tui.screens.history import HistoryScreen
from warpdeck_tui.screens.job import JobScreen
from warpdeck_tui.screens.node_add import NodeAdd
from warpdeck_tui.screens.node_page import NodeScreen
from warpdeck_tui.screens.nodes import NodesScreen
from warpdeck_tui.screens.overview import OverviewScreen
from warpdeck_tui.screens.queue import QueueScreen
from warpdeck_tui.screens.reserve import Reserve
from warpdeck_tui.screens.rule import RuleForm
from warpdeck_tui.screens.runs import RunsScreen
from warpdeck_tui.screens.sessions import SessionsScreen
from warpdeck_tui.screens.shared.column_picker import ColumnPicker
from warpdeck_tui.screens.shared.deck_screen import TextPane
from warpdeck_tui.screens.shared.dialogs import Ask, Choose, Confirm, DonePage, Fill, HelpPage, TextPage
from warpdeck_tui.screens.shared.diff_page import DiffPage
from warpdeck_tui.screens.shared.jobs.confirm_tasks import ConfirmTasks
from warpdeck_tui.screens.shared.jobs.job_list import FilterLine
from warpdeck_tui.screens.usage import UsagePage
from warpdeck_tui.screens.welcome import WelcomeScreen
from warpdeck_tui.table.actions import ACTIONS, MEETINGS, PLACES, Action
from warpdeck_tui.table.bindings import actions_at, clashes, key_line
from warpdeck_tui.viewmodels.shell.help_layout import help_of
from warpdeck_tui.widgets.cell_grid import CellGrid
from warpdeck_tui.widgets.log.view import LogView
from warpdeck_tui.widgets.panel_table import ChartPane
from warpdeck_tui.widgets.scrolled_lines import ScrolledLines
from warpdeck_tui.widgets.virtual_table import VirtualTable

OWNERS: dict[str, tuple[type[DOMNode], ...]] = {
    "app": (DeckApp,),
    "overview": (OverviewScreen,),
    "welcome": (WelcomeScreen,),
    "queue": (QueueScreen,),
    "nodes": (NodesScreen,),
    "node": (NodeScreen,),
    "job": (JobScreen,),
    "history": (HistoryScreen,),
    "runs": (RunsScreen,),
    "sessions": (SessionsScreen,),
    "admin": (AdminScreen,),
    "reserve": (Reserve,),
    "rule": (RuleForm,),
    "log": (LogView,),
    "grid": (CellGrid,),
    "list": (VirtualTable, ChartPane),
    "moves": (LogView, CellGrid, VirtualTable, TextPane, ScrolledLines, ChartPane),
    "filter": (FilterLine,),
    "confirm": (Confirm,),
    "tasks": (ConfirmTasks,),
    "ask": (Ask,),
    "form": (FormLine,),
    "script": (ScriptText,),
    "sweep": (SweepGrid,),
    "shell": (ShellSize,),
    "wait": (ShellWait,),
    "add": (NodeAdd,),
    "choose": (Choose,),
    "columns": (ColumnPicker,),
    "fill": (Fill,),
    "done": (DonePage,),
    "help": (KeyHelp,),
    "page": (HelpPage, TextPage),
    "usage": (UsagePage,),
    "diff": (DiffPage,),
}
"""The classes that bind the keys of a context and implement its actions."""


def test_no_key_has_two_actions_in_one_context() -> None:
    assert clashes(ACTIONS) == []


def test_a_key_conflict_is_detected_and_named() -> None:
    taken = ACTIONS[0]._replace(where="queue", id="other", keys="c")
    assert clashes([*ACTIONS, taken]) == ["c means both cancel and other in queue"]
    everywhere = ACTIONS[0]._replace(where="app", id="other", keys="l")
    assert {words.rpartition(" ")[2] for words in clashes([*ACTIONS, everywhere])} == {
        "overview",
        "queue",
        "job",
        "history",
        "nodes",
        "runs",
    }


def test_every_action_has_a_title_and_a_help_text() -> None:
    for action in ACTIONS:
        assert action.title and action.help, action
        assert not action.help.endswith("."), action


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: f"{action.where}.{action.id}")
def test_every_action_is_bound_and_implemented(action: Action) -> None:
    for owner in OWNERS[action.where]:
        held = {each.id for each in owner._merge_bindings().key_to_bindings[action.keys.split(",")[0]]}
        assert f"{action.where}.{action.id}" in held
        screen = {"form": NewJob, "script": NewJob, "shell": ShellSize}.get(action.where, QueueScreen)
        target = {"app": DeckApp, "screen": screen}.get(action.call.partition(".")[0], owner)
        name = action.runs.partition("(")[0].rpartition(".")[2]
        assert callable(getattr(target, f"action_{name}", None))


def test_every_context_has_owners_and_belongs_to_a_combination() -> None:
    met = {place for meeting in MEETINGS for place in meeting}
    assert set(OWNERS) == set(PLACES) == met == {action.where for action in ACTIONS}


def test_the_help_page_starts_with_the_global_keys_and_lists_all_actions() -> None:
    shown = help_of(("job", "log"), {})
    assert [section.title for section in shown.sections[:3]] == [
        PLACES["app"],
        PLACES["moves"],
        PLACES["job"],
    ]
    assert sum(len(section.entries) for section in shown.sections) == len(ACTIONS)


def test_the_key_line_fits_the_width_and_keeps_help_and_quit() -> None:
    for place in ("queue", "nodes", "job", "history"):
        for width in (200, 80, 40, 20):
            hints = key_line(actions_at(place, "app"), {}, width)
            assert {"app.help", "app.quit"} <= {hint.command for hint in hints}
            text = " " + "  ".join(f"{hint.key} {hint.words}" for hint in hints)
            assert len(text) <= width or len(hints) == 2
