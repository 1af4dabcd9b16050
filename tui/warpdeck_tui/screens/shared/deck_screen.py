"""Base classes of all screens: their contexts in the table of actions, the lines at the top, and text panes."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable
from typing import ClassVar, cast

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from textual import events, messages
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ScreenResultType
from textual.timer import Timer
from textual.widgets import Static

from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.site_rows import EngineRow
from warpdeck_tui.data.client_state import Scheduler
from warpdeck_tui.deck import Deck
from warpdeck_tui.table.actions import CHANGING, Action
from warpdeck_tui.table.bindings import TARGETS, KeyHint, actions_at, bindings, key_line, looks_only
from warpdeck_tui.table.palette import Palette, for_terminal
from warpdeck_tui.terminal.textual_private import GatedScreen
from warpdeck_tui.viewmodels import Cell, Line
from warpdeck_tui.viewmodels.jobs.verbs import JOB_VERBS, NO_JOB, fits
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.line_view import LineView

from .frames import Frame
from .key_line import KeyLine
from .painting import Folded as Folded
from .painting import paint as paint
from .strips import ClusterStrip, TabStrip

STRIPS_S = 5.0
"""Seconds between two looks at the clock and at idle GPUs. Other changes are shown with each update."""
AGE_S = 1.0
"""Seconds between two redraws of the age of the scheduler's data."""
RESTS_AFTER_S = 30.0
"""Seconds without a key after which times are drawn less often."""


class Arrives(GatedScreen[ScreenResultType]):
    """A screen that may be closed before its widgets are mounted.

    Users who type ahead or quit do not wait for them.
    """

    @property
    def is_left(self) -> bool:
        """Whether the screen or the app is being closed.

        Textual still mounts such a screen, with none or some of its widgets.
        """
        return not self.is_attached or self not in self.app.screen_stack

    has_arrived = False
    """Whether the screen can take keys. Keys typed earlier wait (see `keyboard`)."""
    _is_seen = False

    def on_mount(self) -> None:
        if not self.is_left:
            self.arrive()
            # after everything that `arrive` has scheduled, such as setting the focus
            self.app.call_later(self._stand)

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close the dialog, but only once.

        A key may arrive while a pending request of the dialog closes it. Without this check Textual would
        also close the screen below.
        """
        return AwaitComplete() if self.is_left else super().dismiss(result)

    async def on_prune(self, event: messages.Prune) -> None:
        """Cancel the workers of all widgets, before the first widget is removed.

        Textual removes the innermost widgets first, and each widget cancels only its own workers. A worker that is still
        running would therefore not find the widgets that it updates.
        """
        for widget in self.walk_children(with_self=True):
            self.workers.cancel_node(widget)

    async def _stand(self) -> None:
        self.has_arrived = True
        self.call_later(self._appear)
        await cast(Deck, self.app).keyboard.go_on()

    def _appear(self) -> None:
        """Allow painting, after the screen has handled its own first messages, such as its size."""
        self._is_seen = True
        self.paint_changes()

    @property
    def may_paint(self) -> bool:
        """Whether the screen has handled its first messages.

        Without this condition, a screen that appears again would be painted once for each message that it
        receives.
        """
        return self._is_seen or self.is_left

    def arrive(self) -> None:
        """Called once the widgets are mounted. This is the first thing that the screen does."""

    def recolour(self) -> None:
        """Called when the theme has changed, either just now or while another screen was in front."""
        for view in self.query(LineView):
            view.use_palette(cast(Deck, self.app).palette)


class SchedulerLine(Static):
    """The line below the cluster about a scheduler other than our own. For our own one it takes no space."""

    def __init__(self) -> None:
        super().__init__("", id="scheduler", markup=False)
        self.display = False

    def show(self, scheduler: Scheduler, styles: Palette) -> None:
        """Show the scheduler, and the age of its data at this moment. Our own scheduler is shown only with a problem."""
        self.display = not scheduler.is_own or bool(scheduler.engine.problem)
        if self.display:
            self.update(SchedulerWords(scheduler.engine, time.time(), styles))


class SchedulerWords:
    """The lines about a scheduler as a Rich renderable that uses the available width."""

    def __init__(self, engine: EngineRow, now: float, styles: Palette) -> None:
        self._engine = engine
        self._now = now
        self._styles = styles

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Only other schedulers need the module, so its import does not delay the first frame.
        from warpdeck_tui.viewmodels.shell.scheduler_line import scheduler_lines

        yield paint(scheduler_lines(self._engine, now=self._now, width=options.max_width), self._styles)


class DeckScreen(Arrives[None]):
    """Base class of the full screens. `place` is the screen's context in the table of actions."""

    place: ClassVar[str] = "app"

    def __init__(self) -> None:
        super().__init__()
        self._clocks: list[Timer] = []
        self._shows_age = False
        self._has_strip_clock = False

    def top(self) -> ComposeResult:
        """Create the lines at the top of the screen, which are the same on all screens."""
        yield TabStrip()
        yield ClusterStrip()
        yield SchedulerLine()

    @property
    def deck(self) -> Deck:
        return cast(Deck, self.app)

    def every(self, seconds: float, call: Callable[[], object]) -> None:
        """Call a function regularly while the screen is in front and the terminal has the focus."""
        clock = self.deck.pace.clock
        self._clocks.append(self.set_interval(seconds * (clock or 1.0), call, pause=not clock))

    @property
    def rests(self) -> bool:
        """Whether no key was pressed for a while, so that times are drawn less often."""
        return self.deck.keyboard.rested_s >= RESTS_AFTER_S

    def set_clocks(self) -> None:
        """Resume or pause the timers of this screen."""
        goes = self.deck.front is self and self.deck.pace.clock > 0
        for clock in self._clocks:
            (clock.resume if goes else clock.pause)()

    @property
    def job_keys(self) -> list[str]:
        """The jobs that an action on jobs applies to."""
        return []

    def shown_job(self, key: str) -> JobRow | None:
        """Return a job that this screen shows although the client state does not contain it, or None."""
        return None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action can run now. None means that the scheduler cannot do it, so its key is greyed out."""
        if self.deck.lending or (self.deck.readonly and (self.place, action) in CHANGING):
            return False
        return None if self.impossible(action) else True

    def refused(self, action: str) -> str:
        """Return why an action of this screen is not available now, or "" if it is available.

        The text is shown when its key is pressed.
        """
        return (looks_only(self.place, action) if self.deck.readonly else "") or self.impossible(action)

    def impossible(self, action: str) -> str:
        """Return why the scheduler cannot do an action of this screen, or "" if it can."""
        return self.deck.board.scheduler.refusal(self.place, action, self.variant(action))

    def variant(self, action: str) -> str:
        """Return the table or state on which the action's request depends, as `table.actions.requests` names it."""
        return ""

    def advised(self, fact: str, advice: str, action: str) -> str:
        """Return the text of an empty list, with the advice to use an action only if the scheduler can do it."""
        return fact if self.impossible(action) else f"{fact}. {advice}"

    def applies(self, action: str) -> bool:
        """Return whether an action of this screen is useful now. The key line omits the others."""
        if action not in JOB_VERBS:
            return True
        rows = [row for key in self.job_keys if (row := self.deck.find_job(key)) is not None]
        return fits(action, rows)

    def places(self) -> tuple[str, ...]:
        """Return the contexts with active keys.

        They are those of the screen, the focused part and the app, or only that of a text field.
        """
        part = getattr(self.focused, "place", "moves")
        return (part,) if part == "filter" else (self.place, part, "app")

    def works(self, action: Action) -> bool | None:
        """Return whether the action can be done now. None means that the scheduler cannot do it."""
        target = TARGETS.get(action.where, "screen")
        owner = {"app": self.app, "screen": self, "focused": self.focused}[target]
        return owner is not None and owner.check_action(action.runs.partition("(")[0], ())

    def hints(self) -> list[KeyHint]:
        """Return the hints for the key line."""
        states = {action: self.works(action) for action in actions_at(*self.places())}
        now = [
            action
            for action, state in states.items()
            if state is not False and (action.where != self.place or self.applies(action.id))
        ]
        impossible = {action for action in now if states[action] is None}
        return key_line(now, self.deck.keymap, self.size.width, impossible=impossible)

    def show_keys(self) -> None:
        """Update the key line."""
        self.query_one(KeyLine).show(self.hints(), self.deck.palette)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if not self.is_left:
            self.show_keys()

    def on_screen_suspend(self) -> None:
        self.set_clocks()

    def on_screen_resume(self) -> None:
        if not self.is_left:
            self.set_clocks()
            self.recolour()
            self.draw()
            self.draw_top()
            self.show_keys()

    def draw_top(self) -> None:
        """Show the lines at the top of the screen, as far as they have changed."""
        if not self._has_strip_clock:
            self._has_strip_clock = True
            self.every(STRIPS_S, self._draw_strips_in_front)
        self._draw_strips()
        self.draw_scheduler()

    def _draw_strips_in_front(self) -> None:
        if self.deck.front is self:
            self._draw_strips()

    def _draw_strips(self) -> None:
        self.query_one(TabStrip).show(self.place)
        self.query_one(ClusterStrip).show(self.deck.board)

    def draw_scheduler(self) -> None:
        """Show the scheduler and the age of its data, which grows between two updates. Our own one is not shown."""
        scheduler = self.deck.board.scheduler
        if not scheduler.is_own and not self._shows_age:
            self._shows_age = True
            self.every(AGE_S, self.draw_scheduler)
        self.query_one(SchedulerLine).show(scheduler, self.deck.palette)

    def draw(self) -> None:
        """Update the widgets from the client state.

        Called when something has changed and this screen is in front.
        """

    def set_head(self, words: str) -> None:
        """Show the screen's own text as the title of its main frame."""
        self.set_title((Cell(printable(words), "title"),))

    def set_title(self, line: Line) -> None:
        """Show a line as the title of the main frame."""
        timing = self.deck.paint_words()
        title = paint([(Cell(timing, "muted"), *line) if timing else line], self.styles_now)
        self.query_one(".main", Frame).show_title(title)

    @property
    def styles_now(self) -> Palette:
        """The palette of the theme on this terminal."""
        return for_terminal(
            self.deck.palette, self.app.console.color_system, dark=self.app.current_theme.dark
        )

    def action_new_job(self) -> None:
        self.deck.forms.open_new()

    @property
    def _one_job(self) -> str:
        """The first job that an action applies to.

        If there is none, it is "" and the user is told, so that no key is ignored silently.
        """
        keys = self.job_keys
        if not keys:
            self.app.notify(NO_JOB, severity="warning")
        return keys[0] if keys else ""

    def action_new_like(self) -> None:
        if key := self._one_job:
            self.deck.forms.open_like(key)

    def action_copy(self) -> None:
        self.deck.copy(" ".join(self.job_keys))

    def action_copy_command(self) -> None:
        """Copy the command line that shows the same jobs."""
        rows = [row for key in self.job_keys if (row := self.deck.find_job(key)) is not None]
        if rows:
            self.deck.copy(shlex.join(["warpdeck", "show", *(row.label for row in rows)]))
        else:
            self.app.notify(NO_JOB, severity="warning")

    def action_again(self) -> None:
        if key := self._one_job:
            self.app.run_worker(self.deck.verbs.rerun(key), group="rerun", exclusive=True)

    def action_cancel(self) -> None:
        self.deck.verbs.ask("cancel", self.job_keys)

    def action_hold(self) -> None:
        self.deck.verbs.ask("hold", self.job_keys)

    def action_release(self) -> None:
        self.deck.verbs.ask("release", self.job_keys)

    def action_requeue(self) -> None:
        self.deck.verbs.ask("requeue", self.job_keys)

    def action_pause(self) -> None:
        self.deck.verbs.ask("pause", self.job_keys)

    def action_limit(self) -> None:
        self.deck.verbs.ask_limit(self.job_keys)

    def action_priority(self) -> None:
        self.deck.verbs.ask_priority(self.job_keys)

    def action_attach(self) -> None:
        if key := self._one_job:
            self.deck.verbs.attach(key)


class TextPane(VerticalScroll, can_focus=True):
    """A scrollable text with the same keys for moving as in lists."""

    place = "moves"
    BINDINGS: ClassVar[list[BindingType]] = bindings("moves")

    def __init__(self, text: RenderableType = "", *, id: str | None = None) -> None:
        super().__init__(Static(text, markup=False), id=id)

    def action_move(self, by: int) -> None:
        self.scroll_relative(y=by, animate=False)

    def action_page(self, pages: float) -> None:
        """Move by this number of pages.

        For whole pages, one line of the old page stays visible for orientation.
        """
        rows = max(1, int(abs(pages) * self.size.height) - (abs(pages) >= 1))
        self.action_move(rows if pages > 0 else -rows)

    def action_first(self) -> None:
        self.scroll_home(animate=False)

    def action_last(self) -> None:
        self.scroll_end(animate=False)

    def show(self, lines: Iterable[Line], styles: Palette) -> None:
        """Replace the text by these lines."""
        self.query_one(Static).update(Folded(lines, styles))
