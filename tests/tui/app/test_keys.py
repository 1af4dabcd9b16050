"""Keys, help, palette and themes on the real screen."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
from tests.tui.app.stage import Stage, on_stage
from textual.binding import Binding
from textual.keys import _character_to_key
from textual.screen import Screen
from textual.widgets import Input

from warpdeck.base.paths import config_dir
from warpdeck_tui.screens.shared.dialogs import Choose, TextPage
from warpdeck_tui.screens.shared.key_line import KeyLine
from warpdeck_tui.table.actions import ACTIONS
from warpdeck_tui.table.bindings import TARGETS, bindings, key_words

PLACE_KEYS = {"queue": (), "nodes": ("2",), "job": ("enter",), "history": ("4",)}
LEAVES = ("app.quit", "app.shell")
"""Not pressed here: they end the app, or need a terminal."""


async def prepared(stage: Stage) -> None:
    """Something to act on, in every place."""
    stage.cluster.ends["over"] = (0.0, 0)
    await stage.cluster.submit("over")
    await stage.shows("✓ CD")
    await stage.cluster.submit_shell()
    await stage.shows("interactive")


@pytest.mark.parametrize("place", PLACE_KEYS)
async def test_every_key_of_the_key_line_works(folder: Path, place: str) -> None:
    done: list[str] = []
    async with on_stage(folder, size=(160, 40)) as stage:
        await prepared(stage)
        await stage.press(*PLACE_KEYS[place])
        await stage.until(lambda: stage.app.screen.place == place, place)  # type: ignore[attr-defined]
        screen = stage.app.screen
        await stage.until(lambda: len(screen.hints()) > 4, "the key line is there")  # type: ignore[attr-defined]
        for hint in screen.hints():  # type: ignore[attr-defined]
            assert f"{hint.key} {hint.words}" in stage.text()
            owner, _, name = hint.command.partition(".")
            if hint.command in LEAVES:
                continue
            target = {"app": stage.app, "screen": screen, "focused": screen.focused}[owner]
            setattr(target, f"action_{name}", lambda command=hint.command: done.append(command))
            key = next(
                binding.key
                for binding in bindings(*TARGETS, place)
                if isinstance(binding, Binding) and binding.action == name
            )
            await stage.press(key.split(",")[0])
            assert done[-1:] == [hint.command]


SIGHTS: dict[str, tuple[str, ...]] = {
    "queue": (),
    "the filter": ("slash",),
    "a question": ("c",),
    "the form": ("n",),
    "help": ("question_mark",),
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
TEXTUALS_OWN = ("ctrl+c", "super+c")
"""Copies what is selected; the app says of it how to leave."""


async def brought_to(stage: Stage, sight: str) -> Screen[Any]:
    """The screen, with a job that runs."""
    job = await stage.cluster.submit("job")
    await stage.shows("● R")
    await stage.press(*SIGHTS[sight])
    if sight == "a text":
        await stage.app.push_screen(TextPage("a text", "words"))
    elif sight == "a choice":
        await stage.app.push_screen(Choose("Which?", [stage.app.board.jobs[job.id]]))
    return stage.app.screen


@pytest.mark.parametrize("sight", SIGHTS)
async def test_a_key_that_means_nothing_there_does_nothing(folder: Path, sight: str) -> None:
    """Textual calls what an app, a screen or a widget has by the name key_... or _key_..., be it a method or not."""
    async with on_stage(folder) as stage:
        screen = await brought_to(stage, sight)
        meant = {key for _, bound in screen._modal_binding_chain for key, _ in bound}
        names = {_character_to_key(char) for char in string.printable if char.isprintable()}
        before = stage.app.screen_stack
        await stage.press(*sorted(names - meant))
        assert stage.app.screen_stack == before


@pytest.mark.parametrize("sight", SIGHTS)
async def test_no_key_means_two_things_wherever_the_focus_is(folder: Path, sight: str) -> None:
    """As Textual has it: from the widget with the focus up to the app, with all that was inherited."""
    async with on_stage(folder) as stage:
        screen = await brought_to(stage, sight)
        for widget in screen.focus_chain or [None]:
            screen.set_focus(widget)
            meanings: dict[str, set[str]] = {}
            for node, bound in screen._modal_binding_chain:
                for key, binding in bound:
                    if isinstance(node, Input) and binding.action.startswith("scroll_"):
                        continue  # one line: Textual lets the key go on
                    meanings.setdefault(key, set()).add(binding.action.rpartition(".")[2])
            twice = {key: sorted(names) for key, names in meanings.items() if len(names) > 1}
            assert not {key: twice[key] for key in twice if key not in TEXTUALS_OWN}, widget


async def test_a_log_is_searched_with_keys_of_ones_own(folder: Path) -> None:
    config = Path(config_dir())
    config.mkdir(parents=True)
    (config / "keys.toml").write_text('[log]\nsearch = "ctrl+f"\nnext_match = "comma"\n')
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        await stage.press("enter")
        await stage.shows("step", "^f Search")
        await stage.press("slash", "ctrl+f", *"loss", "enter")
        await stage.shows("/loss: line")
        before = stage.line(-2)
        await stage.press("comma")
        await stage.until(lambda: stage.line(-2) != before, "the next match")
        await stage.press("escape")
        await stage.hides("/loss")
        assert stage.app.screen.place == "job"  # type: ignore[attr-defined]


async def test_the_palette_searches_the_log(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        await stage.press("enter")
        await stage.shows("step")
        await stage.press("colon")
        await stage.type("search")
        await stage.shows("search forward")
        await stage.press("enter")
        await stage.hides("search forward")
        await stage.type("loss")
        await stage.press("enter")
        await stage.shows("/loss: line")


async def test_help_shows_the_keys_of_the_place_and_closes(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("2", "question_mark")
        await stage.shows("Nodes and GPUs", "Map or list")
        await stage.press("escape")
        await stage.hides("Map or list")
        assert stage.app.screen.place == "nodes"  # type: ignore[attr-defined]


async def test_help_fits_80_columns_without_a_broken_word(folder: Path) -> None:
    async with on_stage(folder, size=(80, 72)) as stage:
        await stage.press("question_mark")
        await stage.shows("Queue")
        assert all(len(line) <= 80 for line in stage.text().splitlines())
        await stage.press("G")
        await stage.shows("Help and text pages", "close the search, then the page")


async def test_the_palette_finds_an_action_and_does_it(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("colon")
        await stage.type("nodes")
        await stage.shows("nodes and GPUs, live")
        await stage.press("enter")
        await stage.until(lambda: getattr(stage.app.screen, "place", "") == "nodes", "the nodes are shown")


async def test_the_palette_has_every_action_of_the_place_with_its_key(folder: Path) -> None:
    async with on_stage(folder) as stage:
        commands = {each.action.title: each.words for each in stage.app.commands(stage.app.screen)}
        expected = [
            each
            for each in ACTIONS
            if each.where in ("queue", "list", "moves", "app") and each.id != "command_palette"
        ]
        assert {each.title for each in expected} == set(commands)
        for each in expected:
            assert commands[each.title] == f"{key_words(each.keys)}   {each.help}"


async def test_a_theme_changes_every_colour_at_once(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("coloured")
        await stage.shows("coloured")
        seen = {}
        themes = stage.app.looks.themes
        for _ in themes:
            style = stage.app.palette["RUNNING"]
            seen[stage.app.theme] = (style, stage.app.screen.styles.background.hex)
            await stage.press("t")
        assert {theme.name for theme in themes} == set(seen)
        ansi = [theme.name for theme in themes if theme.ansi]
        assert len({background for _, background in seen.values()}) == len(themes) - len(ansi) + 1
        assert stage.app.theme == "deck-dark"


async def test_keys_of_ones_own(folder: Path) -> None:
    config = Path(config_dir())
    config.mkdir(parents=True)
    (config / "keys.toml").write_text('[queue]\ncancel = "x"\n')
    async with on_stage(folder) as stage:
        await stage.cluster.submit("job")
        await stage.shows("● R", "x Cancel")
        await stage.press("c")
        assert len(stage.app.screen_stack) == 2
        await stage.press("x")
        await stage.shows("Cancel job 1?")


async def test_a_wrong_file_of_keys_or_a_wrong_theme_is_one_notice(folder: Path) -> None:
    config = Path(config_dir())
    (config / "themes").mkdir(parents=True)
    (config / "keys.toml").write_text("[queue\n")
    (config / "themes" / "mine.toml").write_text('name = "mine"\n')
    async with on_stage(folder) as stage:
        await stage.told("keys.toml: ")
        await stage.told("mine.toml: ")
        await stage.shows("No jobs. Press n to submit one")


async def test_the_key_line_is_drawn_anew_only_when_it_differs(folder: Path) -> None:
    async with on_stage(folder) as stage:
        line = stage.app.screen.query_one(KeyLine)
        before = line.visual
        await stage.cluster.submit("job")
        await stage.shows("● R", "c Cancel")
        changed = line.visual
        assert changed is not before
        stage.app.screen.show_keys()  # type: ignore[attr-defined]
        assert line.visual is changed
