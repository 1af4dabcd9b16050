"""Keys, help, palette and themes in the running app."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
from tests.tui.app.app_pilot import AppPilot, run_app
from textual import events
from textual.binding import Binding
from textual.keys import _character_to_key
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from warpdeck.base.paths import config_dir
from warpdeck_tui.screens.shared.dialogs import Choose, TextPage
from warpdeck_tui.screens.shared.key_line import KeyLine
from warpdeck_tui.table.actions import ACTIONS
from warpdeck_tui.table.bindings import TARGETS, bindings, key_words

PLACE_KEYS = {"queue": (), "nodes": ("2",), "job": ("enter",), "history": ("4",)}
SKIPPED = ("app.quit", "app.shell")
"""Actions that this test does not perform, as they end the app or need a terminal."""


async def submit_jobs(ui: AppPilot) -> None:
    """Submit jobs so that each context has something to act on."""
    ui.cluster.ends["over"] = (0.0, 0)
    await ui.cluster.submit("over")
    await ui.shows("✓ CD")
    await ui.cluster.submit_shell()
    await ui.shows("shell", "gpu01  interact")


@pytest.mark.parametrize("place", PLACE_KEYS)
async def test_every_key_of_the_key_line_works(folder: Path, place: str) -> None:
    done: list[str] = []
    async with run_app(folder, size=(160, 40)) as ui:
        await submit_jobs(ui)
        await ui.press(*PLACE_KEYS[place])
        await ui.until(lambda: ui.app.screen.place == place, place)  # type: ignore[attr-defined]
        screen = ui.app.screen
        await ui.until(lambda: len(screen.hints()) > 4, "the key line is there")  # type: ignore[attr-defined]
        for hint in screen.hints():  # type: ignore[attr-defined]
            assert f"{hint.key} {hint.words}" in ui.text()
            owner, _, name = hint.command.partition(".")
            if hint.command in SKIPPED:
                continue
            target = {"app": ui.app, "screen": screen, "focused": screen.focused}[owner]
            setattr(target, f"action_{name}", lambda command=hint.command: done.append(command))
            key = next(
                binding.key
                for binding in bindings(*TARGETS, place)
                if isinstance(binding, Binding) and binding.action == name
            )
            await ui.press(key.split(",")[0])
            assert done[-1:] == [hint.command]


SCREENS: dict[str, tuple[str, ...]] = {
    "queue": (),
    "the filter": ("slash",),
    "a question": ("c",),
    "the form": ("n",),
    "help": ("question_mark",),
    "the overview": ("0",),
    "history": ("4",),
    "sessions": ("5",),
    "the map": ("2",),
    "the list of nodes": ("2", "v"),
    "draining": ("2", "d"),
    "adding a node": ("2", "A"),
    "a log": ("enter",),
    "details": ("enter", "d"),
    "code": ("enter", "s"),
    "a text": (),
    "a choice": (),
}
TEXTUAL_KEYS = ("ctrl+c", "super+c")
"""Keys that copy the selection; the app binds them to a hint about leaving."""


async def open_screen(ui: AppPilot, name: str) -> Screen[Any]:
    """Open the screen while a job runs, and return it."""
    job = await ui.cluster.submit("job")
    await ui.shows("● R")
    await ui.press(*SCREENS[name])
    if name == "a text":
        await ui.app.push_screen(TextPage("a text", "words"))
    elif name == "a choice":
        await ui.app.push_screen(Choose("Which?", [ui.app.board.jobs[job.id]]))
    return ui.app.screen


@pytest.mark.parametrize("name", SCREENS)
async def test_an_unbound_key_does_nothing(folder: Path, name: str) -> None:
    """Textual calls any attribute key_... or _key_... of an app, a screen or a widget."""
    async with run_app(folder) as ui:
        screen = await open_screen(ui, name)
        meant = {key for _, bound in screen._modal_binding_chain for key, _ in bound}
        characters = {_character_to_key(char): char for char in string.printable if char.isprintable()}
        before = ui.app.screen_stack
        for key in sorted(characters.keys() - meant):
            ui.app.post_message(events.Key(key, characters[key]))
        await ui.settle()  # now the app has all keys, and it handles one after the other
        await ui.until(lambda: ui.app.keyboard.is_idle, "all keys are handled")
        await ui.settle()
        assert ui.app.screen_stack == before


@pytest.mark.parametrize("name", SCREENS)
async def test_no_key_has_two_actions_for_any_focus(folder: Path, name: str) -> None:
    """Bindings are collected as in Textual, from the focused widget up to the app."""
    async with run_app(folder) as ui:
        screen = await open_screen(ui, name)
        focused: list[Widget | None] = [*screen.focus_chain] or [None]
        for widget in focused:
            screen.set_focus(widget)
            meanings: dict[str, set[str]] = {}
            for node, bound in screen._modal_binding_chain:
                for key, binding in bound:
                    if isinstance(node, Input) and binding.action.startswith(("scroll_", "page_")):
                        continue  # an input has one line, so Textual passes the key on
                    meanings.setdefault(key, set()).add(binding.action.rpartition(".")[2])
            twice = {key: sorted(names) for key, names in meanings.items() if len(names) > 1}
            assert not {key: twice[key] for key in twice if key not in TEXTUAL_KEYS}, widget


async def test_a_log_is_searched_with_the_users_own_keys(folder: Path) -> None:
    config = Path(config_dir())
    config.mkdir(parents=True)
    (config / "keys.toml").write_text('[log]\nsearch = "ctrl+f"\nnext_match = "comma"\n')
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        await ui.press("enter")
        await ui.shows("step", "^f Search")
        await ui.press("slash", "ctrl+f", *"loss", "enter")
        await ui.shows("/loss: line")
        before = ui.line(-3)
        await ui.press("comma")
        await ui.until(lambda: ui.line(-3) != before, "the next match")
        await ui.press("escape")
        await ui.hides("/loss")
        assert ui.app.screen.place == "job"  # type: ignore[attr-defined]


async def test_the_palette_searches_the_log(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        await ui.press("enter")
        await ui.shows("step")
        await ui.press("colon")
        await ui.type("search")
        await ui.shows("search forward")
        await ui.press("enter")
        await ui.hides("search forward")
        await ui.type("loss")
        await ui.press("enter")
        await ui.shows("/loss: line")


async def test_help_shows_the_keys_of_the_screen_and_closes(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("2", "question_mark")
        await ui.shows("Nodes and GPUs", "Color by owner")
        await ui.press("escape")
        await ui.hides("Color by owner")
        assert ui.app.screen.place == "nodes"  # type: ignore[attr-defined]


async def test_help_fits_80_columns(folder: Path) -> None:
    async with run_app(folder, size=(80, 72)) as ui:
        await ui.press("question_mark")
        await ui.shows("Queue")
        assert all(len(line) <= 80 for line in ui.text().splitlines())
        await ui.press("pagedown", "pagedown")
        await ui.shows("Filter by rank")


async def test_the_palette_finds_an_action_and_runs_it(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("colon")
        await ui.type("nodes")
        await ui.shows("nodes and GPUs, live")
        await ui.press("enter")
        await ui.until(lambda: getattr(ui.app.screen, "place", "") == "nodes", "the nodes are shown")


async def test_the_palette_lists_every_action_of_the_screen_with_its_key(folder: Path) -> None:
    async with run_app(folder) as ui:
        commands = {each.action.title: each.words for each in ui.app.commands(ui.app.screen)}
        expected = [
            each
            for each in ACTIONS
            if each.where in ("queue", "list", "moves", "app") and each.id != "command_palette"
        ]
        assert {each.title for each in expected} == set(commands)
        for each in expected:
            assert commands[each.title] == f"{key_words(each.keys)}   {each.help}"


async def test_a_theme_changes_all_colors_at_once(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("coloured")
        await ui.shows("coloured")
        seen = {}
        themes = ui.app.looks.themes
        for _ in themes:
            style = ui.app.palette["RUNNING"]
            seen[ui.app.theme] = (style, ui.app.screen.styles.background.hex)
            await ui.press("t")
        assert {theme.name for theme in themes} == set(seen)
        ansi = [theme.name for theme in themes if theme.ansi]
        assert len({background for _, background in seen.values()}) == len(themes) - len(ansi) + 1
        assert ui.app.theme == "deck-dark"


async def test_the_users_own_keys_replace_the_defaults(folder: Path) -> None:
    config = Path(config_dir())
    config.mkdir(parents=True)
    (config / "keys.toml").write_text('[queue]\ncancel = "x"\n')
    async with run_app(folder) as ui:
        await ui.cluster.submit("job")
        await ui.shows("● R", "x Cancel")
        await ui.press("c")
        assert len(ui.app.screen_stack) == 2
        await ui.press("x")
        await ui.shows("Cancel job 1?")


async def test_an_invalid_key_file_or_theme_shows_one_notification(folder: Path) -> None:
    config = Path(config_dir())
    (config / "themes").mkdir(parents=True)
    (config / "keys.toml").write_text("[queue\n")
    (config / "themes" / "mine.toml").write_text('name = "mine"\n')
    async with run_app(folder) as ui:
        await ui.shows_notification("keys.toml: ")
        await ui.shows_notification("mine.toml: ")
        await ui.shows("No jobs. Press n to submit one")


async def test_the_key_line_is_redrawn_only_when_it_changes(folder: Path) -> None:
    async with run_app(folder) as ui:
        line = ui.app.screen.query_one(KeyLine)
        before = line.visual
        await ui.cluster.submit("job")
        await ui.shows("● R", "c Cancel")
        changed = line.visual
        assert changed is not before
        ui.app.screen.show_keys()  # type: ignore[attr-defined]
        assert line.visual is changed


async def test_ctrl_c_names_the_key_that_quits(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("ctrl+c")
        await ui.shows_notification("Press q to quit. Jobs keep running")
        await ui.press("slash", "ctrl+c")
        await ui.shows_notification("Press Esc, then q to quit. Jobs keep running")
