"""Themes while the app runs: chosen by their looks, kept, changed under its feet, and broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.segment import Segment
from tests.tui.app.stage import Stage, on_stage
from textual.color import Color
from textual.css.stylesheet import Stylesheet

from warpdeck.base.paths import config_dir
from warpdeck.model import GpuRequest, Resources
from warpdeck_tui.screens.themes import ThemePicker
from warpdeck_tui.user_files.themes import shipped_folder


def own_theme(text: str, name: str = "mine") -> Path:
    path = Path(config_dir()) / "themes" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def a_theme(**values: str) -> str:
    """The shipped dark one under another name, with other values."""
    text = (shipped_folder() / "deck-dark.toml").read_text().replace('name = "deck-dark"', 'name = "mine"')
    lines = text.splitlines()
    for key, value in values.items():
        at = next(number for number, line in enumerate(lines) if line.startswith(f"{key} ="))
        lines[at] = f'{key} = "{value}"'
    return "\n".join(lines)


def background(stage: Stage) -> str:
    return stage.app.screen.styles.background.hex


async def test_a_changed_theme_is_worn_at_once(folder: Path) -> None:
    path = own_theme(a_theme(background="#101010"))
    async with on_stage(folder, theme="mine") as stage:
        assert background(stage) == "#101010"
        path.write_text(a_theme(background="#203040", muted="#abcdef"))
        await stage.until(lambda: background(stage) == "#203040", "the new colour")
        assert str(stage.app.palette["muted"].color).find("#abcdef") >= 0


async def test_a_theme_that_is_broken_is_told_once_and_what_it_said_stays(folder: Path) -> None:
    path = own_theme(a_theme(background="#101010"))
    async with on_stage(folder, theme="mine") as stage:
        path.write_text(a_theme(background="a hole"))
        await stage.told('background = "a hole" is not a color')
        await stage.app.looks.look_again()
        assert stage.notices().count("a hole") == 1
        assert background(stage) == "#101010"
        path.write_text(a_theme(background="#989898"))
        await stage.until(lambda: background(stage) == "#989898", "the corrected one")


async def test_a_theme_that_goes_is_followed_by_the_usual_one(folder: Path) -> None:
    path = own_theme(a_theme())
    async with on_stage(folder, theme="mine") as stage:
        path.unlink()
        await stage.until(lambda: stage.app.theme == "deck-dark", "the usual theme")


async def test_the_picker_shows_each_theme_and_keeps_the_chosen_one(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        first = stage.app.theme
        await stage.press("T")
        await stage.shows("THEME", first, "deck-light")
        await stage.press("end")
        await stage.until(lambda: stage.app.theme == "deck-safe", "the theme under the cursor")
        await stage.press("escape")
        await stage.until(lambda: stage.app.theme == first, "the theme of before")
        await stage.press("T")
        await stage.until(lambda: isinstance(stage.app.screen, ThemePicker), "the picker")
        await stage.press("end", "enter")
        await stage.until(lambda: not isinstance(stage.app.screen, ThemePicker), "the picker gone")
        assert stage.app.theme == "deck-safe"
    async with on_stage(folder) as stage:
        assert stage.app.theme == "deck-safe"
    async with on_stage(folder, theme="deck-light") as stage:
        assert stage.app.theme == "deck-light"


async def test_a_theme_that_comes_is_parsed_once_and_nothing_is_kept_of_other_colours(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[Stylesheet] = []
    reparse = Stylesheet.reparse

    def counting(sheet: Stylesheet) -> None:
        parsed.append(sheet)
        reparse(sheet)

    async with on_stage(folder, theme="deck-dark") as stage:
        await stage.shows("No jobs")
        monkeypatch.setattr(Stylesheet, "reparse", counting)
        before = background(stage)
        Color.parse("#0badca")
        stage.app.looks.use("deck-light")
        misses = Color.parse.cache_info().misses
        Color.parse("#0badca")
        assert Color.parse.cache_info().misses == misses + 1
        await stage.until(lambda: background(stage) != before, "the other ground")
        await stage.settle()
        assert len(parsed) == 1


async def test_a_dialog_that_is_open_wears_the_theme_that_comes(folder: Path) -> None:
    async with on_stage(folder, theme="deck-dark") as stage:
        await stage.press("question_mark")
        await stage.shows("My jobs or all")
        for theme in ("deck-dark", "deck-light"):
            stage.app.looks.use(theme)
            wanted = stage.app.palette["header"].color
            await stage.until(lambda: wanted in colours(stage), theme)  # noqa: B023


def colours(stage: Stage) -> set[object]:
    """What is written in, anywhere on the screen in front."""
    strips = stage.app.screen._compositor.render_strips()
    return {segment.style.color for strip in strips for segment in strip if segment.style is not None}


@pytest.fixture
def few_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 16 colors."""
    monkeypatch.setenv("TERM", "screen")
    monkeypatch.delenv("COLORTERM")


def segment_at(stage: Stage, x: int, y: int) -> Segment:
    """What the terminal would get for that cell."""
    strip = stage.app.screen._compositor.render_strips()[y]
    return next(iter(strip.crop(x, x + 1)))


@pytest.mark.usefixtures("few_colours")
@pytest.mark.parametrize("theme", ["", "deck-dark"])
async def test_sixteen_colours_are_the_terminals_own(folder: Path, theme: str) -> None:
    """The nearest of the 16 to an amber is red, and who waits has not failed."""
    async with on_stage(folder, theme=theme) as stage:
        assert stage.app.theme == (theme or "deck-ansi")
        for name in ("one", "two", "waits"):
            await stage.cluster.submit(name, resources=Resources(gpus=GpuRequest(per_node=4)))
        await stage.shows("\u25cc PD")
        lines = stage.text().splitlines()
        y = next(number for number, line in enumerate(lines) if "\u25cc PD" in line)
        style = segment_at(stage, lines[y].index("\u25cc"), y).style
        assert style is not None and style.color is not None and style.color.name == "yellow"


@pytest.mark.usefixtures("few_colours")
async def test_the_cursor_of_a_line_of_text_is_seen_on_sixteen_colours(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("slash", "x")
        at = stage.app.cursor_position
        style = segment_at(stage, at.x, at.y).style
        assert style is not None and style.reverse
        assert style.color is None or style.color.is_default
        assert style.bgcolor is None or style.bgcolor.is_default
