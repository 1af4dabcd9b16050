"""Time travel on the map: the time that is shown, the requests for it, and the timeline below the map."""

from __future__ import annotations

import asyncio
import time

from textual import work

from warpdeck.base.errors import UserError
from warpdeck.notation.values.time_points import parse_past
from warpdeck.protocol.node_rows import NodeEventRow, PastNodeRow
from warpdeck.protocol.results import Timeline
from warpdeck_tui.screens.shared.dialogs import Ask
from warpdeck_tui.screens.shared.frames import Frame
from warpdeck_tui.screens.shared.node_verbs import NodeVerbs
from warpdeck_tui.screens.shared.painting import paint
from warpdeck_tui.viewmodels import Cell
from warpdeck_tui.viewmodels.nodes.past_nodes import FINE_S, STEP_S, moved
from warpdeck_tui.viewmodels.nodes.timeline import (
    SIDE_WIDTH,
    SPANS,
    STEPS,
    Range,
    next_event,
    range_at,
    timeline_lines,
    timeline_title,
)
from warpdeck_tui.widgets.timeline import TimelinePane

LOOK_S = 0.25
"""Least time in seconds between two requests for past states, because each request asks every node."""
AGAIN_S = 60.0
"""Age in seconds from which on the timeline of a range that ends now is requested again."""


class TimeTravel(NodeVerbs):
    """A screen that can show a past time."""

    def __init__(self, at: float | None) -> None:
        """Create the screen. `at` is a time in the past to begin with, in unix seconds."""
        super().__init__()
        self._at: float | None = None
        """The time that is shown, or None for now."""
        self._wanted_at = at
        """The time that was requested last. Its data may not have arrived yet."""
        self._then: list[PastNodeRow] = []
        """The state of the nodes at the time that is shown."""
        self._travels = False
        self._timeline = TimelineData()

    @property
    def moment(self) -> float | None:
        return self._at

    def look_at(self, at: float | None) -> None:
        """Show the state at a past time, in unix seconds. None means now."""
        self._look_at(at)

    def draw_timeline(self) -> None:
        """Show the timeline below the map while a past time is shown, and request its data if they are missing."""
        frame, at, now = self.query_one("#timeline", Frame), self._wanted_at, time.time()
        possible = not self.deck.board.scheduler.reason("timeline")
        frame.display = at is not None and possible
        if at is None or not possible:
            return
        data, shown = self._timeline, range_at(at, now, SPANS[self._timeline.span][0])
        if data.is_missing(shown):
            self._ask_timeline(shown)
        told = data.told if data.range == shown else None
        title = timeline_title(SPANS[data.span][1], shown, now)
        frame.show_title(paint([(Cell(title, "title"),)], self.styles_now))
        self.query_one(TimelinePane).show(
            lambda width, height: timeline_lines(told, shown, at, now=now, width=width, height=height),
            self.deck.palette,
        )

    @work(group="timeline", exclusive=True)
    async def _ask_timeline(self, shown: Range) -> None:
        await self._load(shown)

    async def _load(self, shown: Range) -> list[NodeEventRow]:
        """Request the timeline of this range, and return its events."""
        data = self._timeline
        data.asked, data.asked_at = shown, time.monotonic()
        try:
            told = await self.deck.core.timeline(shown.since, shown.until, steps=STEPS)
        except UserError as error:
            self.deck.tell_error(error)
            told = Timeline(since=shown.since, until=shown.until, gpus=0)
        data.told, data.range = told, shown
        self.draw()
        return told.events

    @work(group="event", exclusive=True)
    async def _go_to_event(self, *, forward: bool) -> None:
        """Go to the next event, or to the previous one, in the range that is shown."""
        data, now = self._timeline, time.time()
        at = now if self._wanted_at is None else self._wanted_at
        shown = range_at(at, now, SPANS[data.span][0])
        known = data.told.events if data.told is not None and data.range == shown else await self._load(shown)
        event = next_event(known, at, forward=forward)
        if event is not None:
            self._look_at(event.at)
        elif not self.is_left:
            which = "later" if forward else "earlier"
            self.app.notify(f"No {which} event in this range of time; z shows another range")

    def action_next_event(self) -> None:
        if self._wanted_at is not None:
            self._go_to_event(forward=True)

    def action_previous_event(self) -> None:
        self._go_to_event(forward=False)

    def action_timeline_range(self) -> None:
        """Show another length of the timeline."""
        self._timeline.span = (self._timeline.span + 1) % len(SPANS)
        self.draw()

    def on_timeline_pane_clicked(self, event: TimelinePane.Clicked) -> None:
        now, at = time.time(), self._wanted_at
        if at is not None and event.column < event.width - SIDE_WIDTH - 1:
            shown = range_at(at, now, SPANS[self._timeline.span][0])
            chosen = shown.time_at(event.column, event.width - SIDE_WIDTH - 1)
            self._look_at(min(chosen, now) // FINE_S * FINE_S)

    def _look_at(self, at: float | None) -> None:
        self._wanted_at = at
        if at is None:
            self._at, self._then = None, []
        elif not self._travels:
            self._travels = True
            self._travel()
        self.draw()

    @work(group="past")
    async def _travel(self) -> None:
        """Request the wanted time until it is the time that is shown.

        Times that were replaced by newer ones meanwhile are not requested. Until an answer arrives, the
        screen does not change.
        """
        try:
            while (at := self._wanted_at) is not None and at != self._at:
                if not self.deck.board.ready:  # the app has just started
                    await self.deck.core.connected()
                begun = time.monotonic()
                then = await self.deck.core.nodes_at(at)
                if self._wanted_at is None:  # the user has returned to now
                    return
                self._at, self._then = at, then
                self.draw()
                await asyncio.sleep(max(0.0, LOOK_S - (time.monotonic() - begun)))
        except UserError as error:
            self._wanted_at = self._at
            self.deck.tell_error(error)
            self.draw()
        finally:
            self._travels = False

    def _step(self, steps: int, step_s: float) -> None:
        self._look_at(moved(self._wanted_at, steps, time.time(), step_s=step_s))

    def action_earlier(self) -> None:
        self._step(-1, STEP_S)

    def action_later(self) -> None:
        if self._wanted_at is not None:
            self._step(1, STEP_S)

    def action_bit_earlier(self) -> None:
        self._step(-1, FINE_S)

    def action_bit_later(self) -> None:
        if self._wanted_at is not None:
            self._step(1, FINE_S)

    def action_at(self) -> None:
        """Ask for a time in the past and show the nodes at that time."""

        def check(words: str) -> None:
            if words:
                parse_past(words, time.time())

        def look(words: str | None) -> None:
            if words:
                self._look_at(parse_past(words, time.time()))

        question = Ask(
            "Go to time",
            required="Enter a time, for example 03:12, now-2hours or 11/20 14:00",
            command="warpdeck screen gpus --plain --at 03:12",
            check=check,
        )
        self.app.push_screen(question, look)

    def action_now(self) -> None:
        if self._wanted_at is not None:
            self._look_at(None)


class TimelineData:
    """The timeline that was requested last. `span` is the index of its length in SPANS."""

    def __init__(self) -> None:
        self.span = 0
        self.told: Timeline | None = None
        self.range: Range | None = None
        """The range that `told` belongs to."""
        self.asked: Range | None = None
        self.asked_at = 0.0

    def is_missing(self, shown: Range) -> bool:
        """Return whether the data of this range have not been requested yet, or are old."""
        is_old = shown.until > time.time() and time.monotonic() - self.asked_at > AGAIN_S
        return self.asked != shown or is_old
