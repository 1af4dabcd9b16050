"""The base of the app that deals with the terminal.

It determines which bytes are written, how often, and in which order keys are handled. Animations are off.
Only cells that differ are written (see `frame`). While the terminal's window does not have the focus, clocks
stop and updates are drawn seldom. A terminal or a tmux that does not report its focus counts as always
focused.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeGuard

from rich.console import RenderableType
from rich.segment import Segment
from textual import events, work
from textual.await_complete import AwaitComplete
from textual.color import Color
from textual.driver import Driver
from textual.filter import LineFilter
from textual.geometry import Offset, Region
from textual.notifications import Notify
from textual.widget import Widget
from textual.widgets import Input

from warpdeck_agent.client.visible import CONTROL_CODES
from warpdeck_tui.table.palette import MANY_COLOURS, RGB
from warpdeck_tui.widgets.line_view import LineView

from .color_answers import tmux_shows_rgb
from .colors import Colors256
from .driver import LinuxDriver, TerminalDriver
from .frame import Frame, Written
from .glyph_sets import ascii_text
from .keyboard import Keyboard, Settled, Typed
from .textual_private import CompositorUpdate, OpenApp, ToastRack, forget_drawn, toast_id

if TYPE_CHECKING:
    from textual.widgets import TextArea


class Pace(NamedTuple):
    """Refresh rates. `news_s` is the least time in seconds between two redraws after updates.

    `clock` is the interval in seconds at which clocks of one second are redrawn; 0 stops them.
    """

    news_s: float
    clock: float


LIVE = Pace(0.1, 1.0)
LOW_BANDWIDTH = Pace(2.0, 2.0)
UNWATCHED = Pace(5.0, 0.0)
"""Even in a window without the focus, users see that jobs end."""
MOST_NOTICES = 3
"""Largest number of notifications shown at once. Each takes four lines of a terminal that may have only
24.
"""
CONTINUED = re.compile(r"\\(?:\r\n|\r|\n)")
"""Matches the end of a line whose command continues on the next line."""
ALT = "alt+"
ALT_IN_TEXT = "bf\x7f\b"
"""Characters that, with Alt, move by a word in a text field or delete one, as in a shell."""


class Ascii(LineFilter):
    """Line filter that replaces symbols by ASCII. Every drawn line passes through it."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(ascii_text(text), style, control) for text, style, control in segments]


class Harmless(LineFilter):
    """Line filter that removes control characters, which take no column. Every drawn line passes through it.

    Screens show such a character as a symbol (`widgets.cells.printable`). Because of this filter, safety does
    not depend on any widget; Textual's own text fields also show text that other users wrote.
    """

    _DROPPED = dict.fromkeys(CONTROL_CODES)

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(segment.text.isprintable() for segment in segments):
            return segments
        return [
            segment if segment.control else Segment(segment.text.translate(self._DROPPED), segment.style)
            for segment in segments
        ]


def is_written_in(widget: object) -> TypeGuard[Input | TextArea]:
    """Return whether the user types text into this widget, by an attribute that both classes have.

    TextArea is not imported for this, because it is large and does not appear on the first frame.
    """
    return hasattr(type(widget), "cursor_blink")


class TerminalApp(OpenApp):
    """Base class of DeckApp."""

    def __init__(
        self, *, ansi_color: bool | None = None, low_bandwidth: bool = False, plain_signs: bool = False
    ) -> None:
        super().__init__(ansi_color=ansi_color)
        self.add_line_filter(Harmless())
        self.colors256 = Colors256(enabled=self.console.color_system == MANY_COLOURS)
        self.add_line_filter(self.colors256)
        if plain_signs:
            self.add_line_filter(Ascii())
        self.animation_level = "none"
        self.low_bandwidth = low_bandwidth
        self.frame = Frame()
        self.keyboard = Keyboard(self, give=self._give, ready=lambda: self.stands)
        self._cursor_written = Offset(-1, -1)
        self.lending = False
        """True while the terminal is about to be handed over to a job. Keys wait meanwhile."""
        self.timed = False
        """Whether the title of a screen shows how long keys take."""
        self._typed_at: float | None = None
        self._paint_s = 0.0

    @property
    def stands(self) -> bool:
        """Whether the screen in front has its widgets and its focus."""
        return True

    @property
    def can_lend(self) -> bool:
        """Whether the app has a terminal that it can hand over. It has none in a browser."""
        return self.driver is not None and self.driver.can_suspend

    def pop_screen(self) -> AwaitComplete:
        """Close the screen in front, and cancel its workers before its widgets are removed.

        A worker that went on would have no widget left to show its result in.
        """
        leaving = self.screen
        for worker in list(self.workers):
            if worker.node is leaving:
                worker.cancel()
        self.call_later(self.keyboard.go_on)
        widgets = list(leaving.walk_children(Widget, with_self=True))
        self.call_after_refresh(forget_drawn, widgets)
        return super().pop_screen()

    @property
    def keymap(self) -> Mapping[str, str]:
        """Map binding ids to the user's own keys. The app overrides it."""
        return {}

    def recolour(self) -> None:
        """Apply a changed theme to the open screens. The app overrides it."""

    def recolor_for_terminal(self) -> None:
        """Apply the theme in the colors that the terminal now has. The app overrides it."""

    def choose_colors(self, wanted: Literal["auto", "rgb", "256"]) -> None:
        """Use RGB or 256 colors as wanted. "auto" asks a terminal of 256 colors whether it shows RGB colors.

        This changes nothing on a terminal with 16 colors or without any.
        """
        now = self.console.color_system
        if now not in (MANY_COLOURS, RGB) or self.no_color:
            return
        if wanted != "auto":
            self._use_colors(RGB if wanted == "rgb" else MANY_COLOURS)
        elif now == MANY_COLOURS and os.environ.get("TMUX"):
            self._ask_tmux()
        elif now == MANY_COLOURS and isinstance(self.driver, TerminalDriver):
            self.driver.ask_for_rgb(partial(self._use_colors, RGB))

    @work(group="colors")
    async def _ask_tmux(self) -> None:
        if await tmux_shows_rgb():
            self._use_colors(RGB)

    def _use_colors(self, system: str) -> None:
        if system != self.console.color_system:
            self.use_color_system(system)
            self.colors256.enabled = system == MANY_COLOURS
            self.recolor_for_terminal()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, Typed) and not event.is_forwarded:
            if self._typed_at is None:
                self._typed_at = event.time
            await self.keyboard.take(event)
        else:
            await super().on_event(event)

    async def _give(self, event: Typed) -> None:
        if isinstance(event, events.Paste) and self.screen_stack and isinstance(self.focused, Input):
            event.text = self._as_line(event.text)
        await super().on_event(event)

    def _as_line(self, pasted: str) -> str:
        """Return the first line of a pasted text, for a text field that takes one line.

        Lines that a shell would join (ending in a backslash) count as one line. If lines are dropped, the
        user is notified.
        """
        whole = " ".join(part.strip(" \t") for part in CONTINUED.split(pasted))
        lines = [line for line in whole.splitlines() if line.strip()]
        if len(lines) > 1:
            self.notify(
                f"Only the first of {len(lines)} lines was pasted. This field takes one line",
                severity="warning",
            )
        return lines[0] if lines else ""

    async def on_settled(self, message: Settled) -> None:
        await self.keyboard.settled(message)
        if self.keyboard.is_idle:
            self.call_after_refresh(self._forget_key)

    async def on_worker_state_changed(self) -> None:
        await self.keyboard.go_on()

    def _forget_key(self) -> None:
        """Forget the time of the last key, because the key has changed nothing visible."""
        self._typed_at = None

    def paint_words(self) -> str:
        """Return how long the last key took until its effect was written, such as "key 4 ms   ".

        Returns "" if that is switched off.
        """
        return f"key {self._paint_s * 1000:.0f} ms   " if self.timed else ""

    def action_timing(self) -> None:
        self.timed = not self.timed

    @property
    def pace(self) -> Pace:
        if not self.app_focus:
            return UNWATCHED
        return LOW_BANDWIDTH if self.low_bandwidth else LIVE

    def on_mount(self) -> None:
        self.app_resume_signal.subscribe(self, lambda _: self.action_redraw())
        if isinstance(self.driver, TerminalDriver):
            self.driver.is_alt = self.is_alt

    def get_driver_class(self) -> type[Driver]:
        chosen = super().get_driver_class()
        return TerminalDriver if chosen is LinuxDriver else chosen

    def is_alt(self, char: str) -> bool:
        """Return whether Esc followed by this character means Alt with it.

        This holds for editing keys in text fields, and for all keys if the user has bound actions to Alt
        keys.
        """
        writes = bool(self.screen_stack) and is_written_in(self.focused)
        return (writes and char in ALT_IN_TEXT) or any(ALT in keys for keys in self.keymap.values())

    def action_mouse(self) -> None:
        """Switch the mouse between the app and the terminal.

        The terminal's own mouse selects and copies text without Shift.
        """
        if not isinstance(self.driver, TerminalDriver):
            self.notify("The mouse cannot be switched in a browser", severity="warning")
            return
        on = not self.driver.has_mouse
        self.driver.turn_mouse(on=on)
        self.notify(
            "The app uses the mouse"
            if on
            else "The terminal uses the mouse. Press M to give it back to the app"
        )

    def on_notify(self, event: Notify) -> None:
        """Remove notifications before Textual shows a new one.

        These are the ones with the same text, and the oldest above MOST_NOTICES.
        """
        shown = self.notifications
        again = [each for each in shown if each.message == event.notification.message]
        others = [each for each in shown if each not in again]
        for gone in [*again, *others[: len(others) + 1 - MOST_NOTICES]]:
            self.remove_notification(gone)

    def before_notifications(self) -> None:
        """Remove the containers of expired notifications first.

        Textual removes only the content and leaves the containers forever.
        """
        if self.screen_stack:
            shown = {toast_id(each) for each in self.notifications}
            for rack in self.screen.query_children(ToastRack):
                for holder in rack.children:
                    if holder.id not in shown:
                        holder.remove()

    def on_resize(self) -> None:
        """Discard the copy of the cells, because terminals lose or wrap lines when they are resized."""
        self.frame.forget()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Switch off the blinking of the cursor, which would be written twice a second."""
        if is_written_in(event.widget):
            event.widget.cursor_blink = False

    def on_input_changed(self, event: Input.Changed) -> None:
        """Scroll to the cursor after a refresh.

        Textual scrolls before it has made space for pasted text, and would show the beginning.
        """
        line = event.input

        def show_cursor() -> None:
            x = line.cursor_screen_offset.x - line.content_region.x + line.scroll_offset.x
            line.scroll_to_region(Region(x, 0, width=1, height=1), force=True, animate=False)

        line.call_after_refresh(show_cursor)

    def write_sequence(self, text: str) -> None:
        """Write a sequence to the terminal that neither moves the cursor nor shows anything."""
        if self.driver is not None and not self.is_headless:
            self.driver.write(text)
            self.driver.flush()

    def action_redraw(self) -> None:
        """Draw everything again, because another program has written to the terminal."""
        self.frame.forget()
        self.screen.refresh()

    def _park_cursor(self) -> None:
        """Move the terminal's cursor to the cursor of the focused widget.

        The widget may have moved since it reported its cursor.
        """
        focused = self.focused if self.screen_stack else None
        if isinstance(focused, LineView) and focused.parked is not None:
            self.cursor_position = focused.content_region.offset + focused.parked
        elif is_written_in(focused) and focused.is_mounted:
            at = focused.cursor_screen_offset
            # If the cursor is at the end of the text, Textual also counts the free space behind the text.
            behind = isinstance(focused, Input) and focused.cursor_at_end
            self.cursor_position = at - Offset(1, 0) if behind else at

    def to_display(self, renderable: RenderableType | None) -> RenderableType | None:
        """Return the part of an update that the terminal does not show yet, or None if it shows everything."""
        self._park_cursor()
        if not (self.writes and self.driver is not None and isinstance(renderable, CompositorUpdate)):
            return renderable
        text = self.frame.difference(renderable, self.console)
        cursor = self.screen.outer_size.clamp_offset(self.cursor_position)
        if not text and cursor == self._cursor_written:
            return None
        self._cursor_written = cursor
        if self._typed_at is not None:
            self._paint_s, self._typed_at = time.monotonic() - self._typed_at, None
        return Written(text)
