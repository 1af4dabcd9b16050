"""A real Textual app around one widget, whose terminal is a list: what would be written to it can be counted and read."""

from __future__ import annotations

import io
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, Literal, TypeVar

from rich.console import Console
from textual.app import App, ComposeResult
from textual.drivers.headless_driver import HeadlessDriver
from textual.message import Message
from textual.pilot import Pilot
from textual.widget import Widget

from tests.support.waiting import comes
from warpdeck_tui.user_files.themes import load_theme, shipped_folder, text_styles, to_textual

THEME = load_theme(shipped_folder() / "deck-dark.toml")
STYLES = text_styles(THEME)
Colours = Literal["truecolor", "256", "standard"] | None
_HARMLESS = re.compile(
    r"\x1b\[[0-9;]*[mH]|\x1b\[\?[0-9;]*[hl]|\x1b\[\?2026\$p|\x1b\[>[0-9;]*u|\x1b\[<u|\x1b\]22;[a-z]+\x07"
)
"""Colours, cursor places, and what Textual itself says: modes, and the mouse pointer's shape."""
W = TypeVar("W", bound=Widget)


class Recorder(HeadlessDriver):
    """A terminal that only remembers."""

    written: list[str]

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        self.written.append(data)

    def start_application_mode(self) -> None:
        self.written = []
        super().start_application_mode()


class Stage(App[None], Generic[W]):
    """The widget over the whole screen."""

    CSS = "Screen > * { height: 1fr; } LogView, VirtualTable, CellGrid { overflow-x: hidden; scrollbar-size: 0 1; }"

    def __init__(self, widget: W, *, colours: Colours) -> None:
        super().__init__(driver_class=Recorder)
        self.console = Console(
            color_system=colours,
            file=io.StringIO(),
            force_terminal=True,
            legacy_windows=False,
            highlight=False,
        )
        self.widget = widget
        self.heard: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_mount(self) -> None:
        self.register_theme(to_textual(THEME))
        self.theme = THEME.name
        self.widget.focus()

    def post_message(self, message: Message) -> bool:
        self.heard.append(message)
        return super().post_message(message)


class Player(Generic[W]):
    """What a test does with a stage."""

    def __init__(self, app: Stage[W], pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self.widget = app.widget

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    def rows(self) -> list[str]:
        """The widget's lines as text."""
        return [self.widget.render_line(y).text for y in range(self.widget.size.height)]

    def screen(self) -> list[str]:
        """The whole screen's lines, scroll bars and all."""
        return [strip.text for strip in self.app.screen._compositor.render_strips()]

    async def painted(self) -> str:
        """The first that is written to the terminal from here on."""
        return await comes(self.take_written, what="something is painted")

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Waits for the condition; what is on the screen is said if it does not come."""
        await comes(condition, what=lambda: f"{what or condition} never came:\n" + "\n".join(self.rows()))
        await self.pilot.pause()

    async def shows(self, words: str) -> None:
        await self.until(lambda: any(words in row for row in self.rows()), repr(words))

    async def settle(self) -> None:
        """Until nothing more is written."""
        await self.pilot.pause()
        while self.take_written():
            await self.pilot.pause()

    def take_written(self) -> str:
        """What was written since the last call."""
        driver = self.app._driver
        assert isinstance(driver, Recorder)
        text = "".join(driver.written)
        driver.written.clear()
        return text


def obeyed(written: str) -> str:
    """What a terminal would do beside drawing: control characters and sequences other than colours and cursor places."""
    rest = _HARMLESS.sub("", written)
    return "".join(each for each in rest if not each.isprintable() and each not in "\r\n")


@asynccontextmanager
async def stage(
    widget: W, *, size: tuple[int, int] = (80, 24), colours: Colours = "truecolor"
) -> AsyncIterator[Player[W]]:
    """The widget in an app of that size, shown and focused."""
    app = Stage(widget, colours=colours)
    async with app.run_test(size=size, headless=False) as pilot:
        await pilot.pause()
        yield Player(app, pilot)
