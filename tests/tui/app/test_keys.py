"""Keys, help, palette and themes on the real screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.stage import Stage, on_stage

from warpdeck.paths import config_dir
from warpdeck_tui.actions import ACTIONS, bindings, key_words
from warpdeck_tui.screens.keyline import KeyLine

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
            target = stage.app if owner == "app" else screen
            setattr(target, f"action_{name}", lambda command=hint.command: done.append(command))
            key = next(
                binding.key
                for binding in bindings("app" if owner == "app" else place)
                if binding.action == name
            )
            await stage.press(key.split(",")[0])
            assert done[-1:] == [hint.command]


async def test_help_shows_the_keys_of_the_place_and_closes(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("2", "question_mark")
        await stage.shows("Nodes and GPUs", "Map or list")
        await stage.press("escape")
        await stage.hides("Map or list")
        assert stage.app.screen.place == "nodes"  # type: ignore[attr-defined]


async def test_help_fits_80_columns_without_a_broken_word(folder: Path) -> None:
    async with on_stage(folder, size=(80, 60)) as stage:
        await stage.press("question_mark")
        await stage.shows("Queue")
        assert all(len(line) <= 80 for line in stage.text().splitlines())
        await stage.shows("j k, arrows and pages move")


async def test_the_palette_finds_an_action_and_does_it(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("colon")
        await stage.type("nodes")
        await stage.shows("nodes and GPUs, live")
        await stage.press("enter")
        await stage.until(lambda: getattr(stage.app.screen, "place", "") == "nodes", "the nodes are shown")


async def test_the_palette_has_every_action_of_the_place_with_its_key(folder: Path) -> None:
    async with on_stage(folder) as stage:
        commands = {each.title: each.help for each in stage.app.get_system_commands(stage.app.screen)}
        expected = [
            each for each in ACTIONS if each.where in ("queue", "app") and each.id != "command_palette"
        ]
        assert {each.title for each in expected} == set(commands)
        for each in expected:
            assert commands[each.title] == f"{key_words(each.keys)}   {each.help}"


async def test_a_theme_changes_every_colour_at_once(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("coloured")
        await stage.shows("coloured")
        seen = {}
        for _ in range(3):
            style = stage.app.palette["RUNNING"]
            seen[stage.app.theme] = (style, stage.app.screen.styles.background.hex)
            await stage.press("t")
        assert {"deck-dark", "deck-light", "deck-ansi"} == set(seen)
        assert len({background for _, background in seen.values()}) == 3
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
        await stage.told("keys.toml cannot be used")
        await stage.told("mine.toml cannot be used")
        await stage.shows("no jobs; n submits one")


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
