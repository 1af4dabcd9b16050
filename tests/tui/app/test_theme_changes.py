"""Themes while the app runs: preview and selection, and theme files that change, break or disappear."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.color import ColorType
from rich.segment import Segment
from tests.tui.app.app_pilot import AppPilot, run_app
from textual.color import Color
from textual.css.stylesheet import Stylesheet
from textual.geometry import Region

from warpdeck.base.paths import config_dir
from warpdeck.model import GpuRequest, Resources
from warpdeck_tui.screens.shared.deck_screen import DeckScreen
from warpdeck_tui.screens.themes import ThemePicker
from warpdeck_tui.user_files.themes import shipped_folder


def own_theme(text: str, name: str = "mine") -> Path:
    path = Path(config_dir()) / "themes" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def a_theme(**values: str) -> str:
    """Return the shipped dark theme under another name, with these values."""
    text = (shipped_folder() / "deck-dark.toml").read_text().replace('name = "deck-dark"', 'name = "mine"')
    lines = text.splitlines()
    for key, value in values.items():
        at = next(number for number, line in enumerate(lines) if line.startswith(f"{key} ="))
        lines[at] = f'{key} = "{value}"'
    return "\n".join(lines)


def background(ui: AppPilot) -> str:
    return ui.app.screen.styles.background.hex


async def test_a_changed_theme_file_applies_at_once(folder: Path) -> None:
    path = own_theme(a_theme(background="#101010"))
    async with run_app(folder, theme="mine") as ui:
        assert background(ui) == "#101010"
        path.write_text(a_theme(background="#203040", muted="#abcdef"))
        await ui.until(lambda: background(ui) == "#203040", "the new color")
        assert str(ui.app.palette["muted"].color).find("#abcdef") >= 0


async def test_a_broken_theme_file_is_reported_once_and_the_old_theme_stays(folder: Path) -> None:
    path = own_theme(a_theme(background="#101010"))
    async with run_app(folder, theme="mine") as ui:
        path.write_text(a_theme(background="a hole"))
        await ui.shows_notification('background = "a hole" is not a color')
        await ui.app.looks.look_again()
        assert ui.notifications().count("a hole") == 1
        assert background(ui) == "#101010"
        path.write_text(a_theme(background="#989898"))
        await ui.until(lambda: background(ui) == "#989898", "the corrected theme")


async def test_a_removed_theme_file_restores_the_default_theme(folder: Path) -> None:
    path = own_theme(a_theme())
    async with run_app(folder, theme="mine") as ui:
        path.unlink()
        await ui.until(lambda: ui.app.theme == "deck-dark", "the default theme")


async def test_the_picker_shows_each_theme_and_keeps_the_chosen_one(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        first = ui.app.theme
        await ui.press("T")
        await ui.shows("THEME", first, "deck-light")
        await ui.press("end")
        await ui.until(lambda: ui.app.theme == "solarized-light", "the theme under the cursor")
        await ui.press("escape")
        await ui.until(lambda: ui.app.theme == first, "the previous theme")
        await ui.press("T")
        await ui.until(lambda: isinstance(ui.app.screen, ThemePicker), "the picker")
        await ui.press("end", "enter")
        await ui.until(lambda: not isinstance(ui.app.screen, ThemePicker), "the picker gone")
        assert ui.app.theme == "solarized-light"
    async with run_app(folder) as ui:
        assert ui.app.theme == "solarized-light"
    async with run_app(folder, theme="deck-light") as ui:
        assert ui.app.theme == "deck-light"


async def test_a_theme_change_parses_styles_once_and_clears_the_color_cache(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[Stylesheet] = []
    reparse = Stylesheet.reparse

    def counting(sheet: Stylesheet) -> None:
        parsed.append(sheet)
        reparse(sheet)

    async with run_app(folder, theme="deck-dark") as ui:
        await ui.shows("No jobs")
        monkeypatch.setattr(Stylesheet, "reparse", counting)
        before = background(ui)
        Color.parse("#0badca")
        ui.app.looks.use("deck-light")
        misses = Color.parse.cache_info().misses
        Color.parse("#0badca")
        assert Color.parse.cache_info().misses == misses + 1
        await ui.until(lambda: background(ui) != before, "the other background")
        await ui.settle()
        assert len(parsed) == 1


async def test_the_lines_at_the_top_get_the_theme_that_the_picker_previews(folder: Path) -> None:
    async with run_app(folder, theme="deck-dark") as ui:
        await ui.shows("1 Queue")
        await ui.press("T")
        await ui.shows("THEME", "deck-light")
        ui.app.looks.use("nord")
        wanted = ui.app.palette["key"].color
        below = next(screen for screen in ui.app.screen_stack if isinstance(screen, DeckScreen))
        lines = below.query_one("#strip").render_lines
        await ui.until(
            lambda: any(
                each.style is not None and each.style.color == wanted
                for strip in lines(Region(0, 0, 60, 1))
                for each in strip
            ),
            "the key of a screen in the new color",
        )


async def test_an_open_dialog_gets_the_new_theme(folder: Path) -> None:
    async with run_app(folder, theme="deck-dark") as ui:
        await ui.press("question_mark")
        await ui.shows("My jobs or all")
        for theme in ("deck-dark", "deck-light"):
            ui.app.looks.use(theme)
            wanted = ui.app.palette["header"].color
            await ui.until(lambda: wanted in text_colors(ui), theme)  # noqa: B023


def text_colors(ui: AppPilot) -> set[object]:
    """Return all text colors on the front screen."""
    strips = ui.app.screen._compositor.render_strips()
    return {segment.style.color for strip in strips for segment in strip if segment.style is not None}


@pytest.fixture
def few_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 16 colors."""
    monkeypatch.setenv("TERM", "screen")
    monkeypatch.delenv("COLORTERM")


def segment_at(ui: AppPilot, x: int, y: int) -> Segment:
    """Return the segment that contains this cell."""
    strip = ui.app.screen._compositor.render_strips()[y]
    return next(iter(strip.crop(x, x + 1)))


@pytest.mark.usefixtures("few_colors")
@pytest.mark.parametrize("theme", ["", "deck-dark"])
async def test_a_terminal_of_16_colors_uses_its_own_palette(folder: Path, theme: str) -> None:
    """A waiting job must not be red, although red is the nearest of the 16 colors to amber."""
    async with run_app(folder, theme=theme) as ui:
        assert ui.app.theme == (theme or "deck-ansi")
        for name in ("one", "two", "waits"):
            await ui.cluster.submit(name, resources=Resources(gpus=GpuRequest(per_node=4)))
        await ui.shows("\u25cc PD")
        lines = ui.text().splitlines()
        y = next(number for number, line in enumerate(lines) if "\u25cc PD" in line)
        style = segment_at(ui, lines[y].index("\u25cc"), y).style
        assert style is not None and style.color is not None and style.color.name == "yellow"


@pytest.mark.usefixtures("few_colors")
async def test_the_text_cursor_is_visible_with_16_colors(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("slash", "x")
        at = ui.app.cursor_position
        style = segment_at(ui, at.x, at.y).style
        assert style is not None and style.reverse
        assert style.color is None or style.color.is_default
        assert style.bgcolor is None or style.bgcolor.is_default


@pytest.fixture
def many_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 256 colors, as over SSH, which does not forward COLORTERM."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("COLORTERM")


@pytest.mark.usefixtures("many_colors")
async def test_a_terminal_of_256_colors_shows_only_colors_of_its_palette(folder: Path) -> None:
    async with run_app(folder, theme="deck-dark") as ui:
        await ui.cluster.submit("llama")
        await ui.shows("\u25cf R")
        assert background(ui) == "#121212"
        for keys in ((), ("question_mark",), ("escape", "n"), ("escape", "colon")):
            await ui.press(*keys)
            await ui.settle()
            assert not rgb_colors(ui)


@pytest.mark.usefixtures("many_colors")
async def test_the_setting_for_rgb_colors_needs_no_answer(folder: Path) -> None:
    path = Path(config_dir()) / "app.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('colors = "rgb"\n')
    async with run_app(folder, theme="deck-dark") as ui:
        await ui.until(lambda: background(ui) == "#10131B", "the RGB color")
        assert str(ui.app.palette["accent"].color).find("#5ad4e6") >= 0


async def test_the_setting_for_256_colors_takes_precedence_over_colorterm(folder: Path) -> None:
    path = Path(config_dir()) / "app.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('colors = "256"\n')
    async with run_app(folder, theme="deck-dark") as ui:
        await ui.until(lambda: background(ui) == "#121212", "the color of the palette")
        await ui.until(lambda: not rgb_colors(ui), "no RGB color")


def rgb_colors(ui: AppPilot) -> set[str]:
    """Return the colors on the front screen that are no numbers of a palette."""
    styles = [
        segment.style
        for strip in ui.app.screen._compositor.render_strips()
        for segment in strip
        if segment.style
    ]
    colors = {color for style in styles for color in (style.color, style.bgcolor) if color is not None}
    return {str(color) for color in colors if color.type is ColorType.TRUECOLOR}
