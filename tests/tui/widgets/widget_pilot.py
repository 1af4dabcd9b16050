"""A Textual app around one widget. It records its terminal output, which tests can count and read."""

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

from tests.support.waiting import eventually_async
from warpdeck_tui.user_files.themes import load_theme, shipped_folder, text_styles, to_textual

THEME = load_theme(shipped_folder() / "deck-dark.toml")
STYLES = text_styles(THEME)
ColorSystem = Literal["truecolor", "256", "standard"] | None
_HARMLESS = re.compile(
    r"\x1b\[[0-9;]*[mH]|\x1b\[\?[0-9;]*[hl]|\x1b\[\?2026\$p|\x1b\[>[0-9;]*u|\x1b\[<u|\x1b\]22;[a-z]+\x07"
)
"""Colors, cursor positions, and sequences of Textual itself: modes, and the shape of the mouse pointer."""
W = TypeVar("W", bound=Widget)


class Recorder(HeadlessDriver):
    """A terminal that records its output."""

    written: list[str]

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        self.written.append(data)

    def start_application_mode(self) -> None:
        self.written = []
        super().start_application_mode()


class WidgetApp(App[None], Generic[W]):
    """An app with a screen that the widget fills."""

    CSS = "Screen > * { height: 1fr; } LogView, VirtualTable, CellGrid { overflow-x: hidden; scrollbar-size: 0 1; }"

    def __init__(self, widget: W, *, color_system: ColorSystem) -> None:
        super().__init__(driver_class=Recorder)
        self.console = Console(
            color_system=color_system,
            file=io.StringIO(),
            force_terminal=True,
            legacy_windows=False,
            highlight=False,
        )
        self.widget = widget
        self.messages: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_mount(self) -> None:
        self.register_theme(to_textual(THEME))
        self.theme = THEME.name
        self.widget.focus()

    def post_message(self, message: Message) -> bool:
        self.messages.append(message)
        return super().post_message(message)


class WidgetPilot(Generic[W]):
    """Presses keys in the app, and reads the widget's text and the terminal output."""

    def __init__(self, app: WidgetApp[W], pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self.widget = app.widget

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    def rows(self) -> list[str]:
        """Return the widget's lines as text."""
        return [self.widget.render_line(y).text for y in range(self.widget.size.height)]

    def screen(self) -> list[str]:
        """Return the lines of the whole screen, including scroll bars."""
        return [strip.text for strip in self.app.screen._compositor.render_strips()]

    async def painted(self) -> str:
        """Return the next output to the terminal."""
        return await eventually_async(self.take_written, what="output to the terminal")

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait for the condition. A failure shows the text of the widget."""
        await eventually_async(
            condition, what=lambda: f"{what or condition} never came:\n" + "\n".join(self.rows())
        )
        await self.pilot.pause()

    async def shows(self, words: str) -> None:
        await self.until(lambda: any(words in row for row in self.rows()), repr(words))

    async def settle(self) -> None:
        """Wait until nothing more is written."""
        await self.pilot.pause()
        while self.take_written():
            await self.pilot.pause()

    def take_written(self) -> str:
        """Return the output since the last call."""
        driver = self.app._driver
        assert isinstance(driver, Recorder)
        text = "".join(driver.written)
        driver.written.clear()
        return text


def control_sequences(written: str) -> str:
    """Return the control characters and sequences in the output other than colors and cursor positions."""
    rest = _HARMLESS.sub("", written)
    return "".join(each for each in rest if not each.isprintable() and each not in "\r\n")


@asynccontextmanager
async def run_widget(
    widget: W, *, size: tuple[int, int] = (80, 24), color_system: ColorSystem = "truecolor"
) -> AsyncIterator[WidgetPilot[W]]:
    """Run an app of this size with the widget, which has the focus."""
    app = WidgetApp(widget, color_system=color_system)
    async with app.run_test(size=size, headless=False) as pilot:
        await pilot.pause()
        yield WidgetPilot(app, pilot)
