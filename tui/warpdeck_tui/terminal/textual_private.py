"""All private parts of Textual that the app uses, under public names. No other module uses one.

The public API of the pinned release offers no way to the same end. Where Textual's developers know about the
limitation, the issue is named. `tests/unit/libraries/test_private_parts.py` fails first if a release changes
one of these parts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rich.console import COLOR_SYSTEMS, RenderableType
from textual import on, work
from textual._compositor import ChopsUpdate as ChopsUpdate
from textual._compositor import CompositorUpdate as CompositorUpdate
from textual._compositor import LayoutUpdate as LayoutUpdate
from textual._parser import ParseTimeout
from textual._xterm_parser import XTermParser
from textual.actions import ActionParseResult
from textual.app import App
from textual.command import CommandList, CommandPalette
from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter
from textual.keys import _character_to_key
from textual.message import Message
from textual.notifications import Notification
from textual.screen import Screen, ScreenResultType
from textual.widget import Widget
from textual.widgets import Input
from textual.widgets._toast import ToastRack as ToastRack
from textual.worker import Worker, WorkerCancelled, WorkerFailed


class OpenApp(App[None]):
    """Textual's App, with access to its driver, its output, its line filters and its notifications."""

    @property
    def driver(self) -> Driver | None:
        """The driver, or None before the app runs. It writes sequences of our own to the terminal."""
        return self._driver

    @property
    def writes(self) -> bool:
        """Whether an update would be written to the terminal now."""
        return self._running and not self._closed and not self._batch_count and not self.is_headless

    def to_display(self, renderable: RenderableType | None) -> RenderableType | None:
        """Return what is written to the terminal for this update, or None for nothing.

        A subclass overrides it to write only the cells that differ. Textual rewrites whole widgets
        (https://github.com/Textualize/textual/pull/512).
        """
        return renderable

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Write an update. All output of Textual passes through this method."""
        super()._display(screen, self.to_display(renderable))

    def use_color_system(self, name: str) -> None:
        """Write colors in this system of Rich. Rich decides on one only when the app starts."""
        self.console._color_system = COLOR_SYSTEMS[name]

    def add_line_filter(self, line_filter: LineFilter) -> None:
        """Add a filter that every drawn line passes through, because lines contain text of other users."""
        self._filters.append(line_filter)

    def refresh_theme_filter(self) -> None:
        """Use the colors of the current theme where Textual replaces ANSI colors."""
        self._refresh_truecolor_filter(self.ansi_theme)

    @property
    def notifications(self) -> Sequence[Notification]:
        """The notifications that are shown. Textual can only remove all of them at once."""
        return list(self._notifications)

    def remove_notification(self, notification: Notification) -> None:
        """Remove a notification without drawing. Textual draws the next one anyway."""
        self._unnotify(notification, refresh=False)

    def before_notifications(self) -> None:
        """Called before notifications are drawn."""

    def _refresh_notifications(self) -> None:
        self.before_notifications()
        super()._refresh_notifications()

    def action_target(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode,
        namespaces: Mapping[str, DOMNode] | None,
    ) -> tuple[DOMNode, str]:
        """Return the object that has this action, and the action's name without its object."""
        target, name, _ = self._parse_action(action, default_namespace, namespaces)
        return target, name


class GatedScreen(Screen[ScreenResultType]):
    """A screen that is painted only while `may_paint` is true."""

    @property
    def may_paint(self) -> bool:
        return True

    def paint_changes(self) -> None:
        """Paint what has changed, without waiting for the next refresh."""
        self._on_timer_update()

    def _compositor_refresh(self) -> None:
        """Paint the changes. All painting of Textual passes through this method."""
        if self.may_paint:
            super()._compositor_refresh()


class OpenDriver(LinuxDriver):
    """Textual's driver for a real terminal, with hooks for job control and a switch for the mouse.

    Textual initializes itself again at every SIGCONT, even if the process was never stopped
    (https://github.com/Textualize/textual/issues/1582).
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._file: Any = self.guarded_file(self._file)

    def guarded_file(self, file: Any) -> Any:
        """Return the file to which Textual writes the screen. `file` is Textual's own choice, the standard error."""
        return file

    def leave_app(self) -> None:
        """Ask the app to exit. It may be called in another thread."""
        self.call_app(self._app.exit)

    def call_app(self, callback: Callable[[], object]) -> None:
        """Have the app call this function. It may be called in another thread."""
        self._app.call_later(callback)

    @property
    def has_writer(self) -> bool:
        """Whether the thread runs that writes. Without it, written data would never be taken."""
        return self._writer_thread is not None and self._writer_thread.is_alive()

    @property
    def owns_terminal(self) -> bool:
        """Whether the app uses the terminal. It does not while a job has it."""
        return self._auto_restart

    @property
    def has_mouse(self) -> bool:
        return self._mouse

    def turn_mouse(self, *, on: bool) -> None:
        """Let the app handle the mouse, or return it to the terminal, which then selects and copies text."""
        if on:
            self._mouse = True
            self._enable_mouse_support()
        else:
            self._disable_mouse_support()
            self._mouse = False

    def on_stop_signal(self) -> None:
        """Called for SIGTSTP."""

    def on_continue_signal(self) -> None:
        """Called for SIGCONT."""

    def _sigtstp_application(self, *_: object) -> None:
        self.on_stop_signal()

    def _sigcont_application(self, *_: object) -> None:
        self.on_continue_signal()

    def resume(self) -> None:
        """Initialize the terminal again, and tell the app."""
        self._must_signal_resume = True
        self.resume_application_mode()


class OpenParser(XTermParser):
    """Textual's parser of terminal input, which can be told that an Esc is complete.

    Textual only waits for a time after Esc (https://github.com/Textualize/textual/pull/4848).
    """

    @property
    def awaits_more(self) -> bool:
        """Whether the last character was an Esc, which may begin a sequence."""
        return self._awaiting.timeout is not None

    def end_escape(self) -> Iterable[Message]:
        """End the pending Esc as if nothing had followed it for a while."""
        self._timeout_time = None
        self._awaiting = self._gen.throw(ParseTimeout())
        while self._tokens:
            yield self._tokens.popleft()


def forget_drawn(widgets: Iterable[Widget]) -> None:
    """Clear the cached lines of removed widgets.

    Otherwise Textual's color cache keeps the lines of a thousand widgets alive. The public property of a
    scroll bar would create it if it does not exist.
    """
    for widget in widgets:
        for drawn in (widget, widget._vertical_scrollbar, widget._horizontal_scrollbar):
            if drawn is not None:
                drawn._styles_cache.clear()


def toast_id(notification: Notification) -> str:
    """Return the id of the container that shows the notification."""
    return ToastRack._toast_id(notification)


def key_name(character: str) -> str:
    """Return Textual's name of the key that types this character."""
    return _character_to_key(character)


_GATHER = inspect.unwrap(CommandPalette._gather_commands)
"""The search itself, without the worker that Textual runs it in."""


class PatientPalette(CommandPalette):
    """Textual's command palette, in which Enter waits for the results of the query that was typed.

    Textual would run the first result of an earlier query, if the user types faster than the search. It would also crash if
    Escape closes the palette before its first search has begun.
    """

    @work(exclusive=True, group=CommandPalette._GATHER_COMMANDS_GROUP)
    async def _gather_commands(self, search_value: str) -> None:
        """Search, unless the palette has been closed meanwhile and therefore has no list any more."""
        if self.query(CommandList):
            await _GATHER(self, search_value)

    @on(Input.Submitted)
    def select_when_found(self, event: Input.Submitted) -> None:
        """Wait for the search before Enter selects its first result."""
        if self._searches():
            event.stop()
            event.prevent_default()
            self.run_worker(self._select_found(), group="select", exclusive=True)

    def _searches(self) -> list[Worker[Any]]:
        group = self._GATHER_COMMANDS_GROUP
        return [each for each in self.workers if each.group == group and not each.is_finished]

    async def _select_found(self) -> None:
        for search in self._searches():
            with suppress(WorkerFailed, WorkerCancelled):
                await search.wait()
        self.query_one(CommandList).action_select()
