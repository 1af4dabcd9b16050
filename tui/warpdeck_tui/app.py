"""The application class.

It passes the controller's updates to the screens and the user's requests to the controller.
"""

from __future__ import annotations

import getpass
import os
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.style import Style
from textual import work
from textual.actions import ActionParseResult
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget

from warpdeck.base.errors import UNCERTAIN, UserError
from warpdeck.base.paths import Paths, config_dir, default_paths
from warpdeck.client.client import GONE
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.results import Delta, Reloaded
from warpdeck_tui.data.action_log import ActionLog
from warpdeck_tui.data.client_state import ClientState
from warpdeck_tui.data.connection import Core
from warpdeck_tui.screens.queue import QueueScreen
from warpdeck_tui.screens.shared.deck_screen import Arrives, DeckScreen
from warpdeck_tui.table.actions import CHANGING
from warpdeck_tui.table.bindings import (
    actions_at,
    bindings,
    command_of,
    help_lines,
    key_words,
    keys_of,
    looks_only,
)
from warpdeck_tui.terminal.preload import load_later
from warpdeck_tui.terminal.terminal_app import forget_drawn
from warpdeck_tui.user_files.keymap import KEYS_FILE, NO_KEYMAP, Keymap, keymap_lines, read_keymap
from warpdeck_tui.user_files.settings import Settings, read_settings
from warpdeck_tui.widgets.cells import printable

from . import screens
from .command_palette import WHAT_IS_FOUND, Actions, Objects, Palette
from .deck import Command, Deck
from .desktop_notifications import DesktopNotifications
from .terminal import clipboard
from .theme_manager import LOOK_S, ThemeManager

if TYPE_CHECKING:
    from warpdeck_tui.screens.shared.form_opening import FormOpening
    from warpdeck_tui.screens.shared.job_verbs import JobVerbs
    from warpdeck_tui.viewmodels.jobs.form import Sheet

UNANSWERED = frozenset((GONE, UNCERTAIN))
"""Error codes which mean that no answer arrived, so the request may or may not have been carried out."""
NOTHING_TO_UNDO = "Nothing to undo. Press @ to list all changes"
DRAW_SHARE = 0.05
"""Largest share of one CPU core that redrawing after updates may take, however long the queue is."""


class DeckApp(Deck):
    """The full-screen app."""

    TITLE = "warpdeck"
    COMMANDS: ClassVar = {Actions, Objects}
    CSS_PATH = "app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")

    def __init__(
        self,
        paths: Paths | None = None,
        *,
        everybody: bool = False,
        readonly: bool = False,
        theme: str = "",
        at: tuple[str, str] = ("queue", ""),
        moment: float | None = None,
        low_bandwidth: bool = False,
        plain_signs: bool = False,
    ) -> None:
        self._no_colour = bool(os.environ.get("NO_COLOR"))
        # Without this, Textual would replace the colors by shades of gray, and NO_COLOR forbids those, too.
        super().__init__(
            ansi_color=True if self._no_colour else None,
            low_bandwidth=low_bandwidth,
            plain_signs=plain_signs,
        )
        self.core = Core(paths or default_paths(), rng=random.Random())
        self.board = ClientState()
        self.user = getpass.getuser()
        self.everybody = everybody
        self.readonly = readonly
        self.chronicle = ActionLog()
        self.lending = False
        """True while the terminal is about to be handed over to a job. Keys wait meanwhile."""
        self.away = ""
        """Text that says why there is no connection or no answer, and what the app does about it. Empty if
        all is well.
        """
        self.own_keys: Keymap = NO_KEYMAP
        self._at, self._moment = at, moment
        self.looks = ThemeManager(self, wanted=theme)
        self.settings = Settings()
        self.notices = DesktopNotifications(self)
        self._draw_planned = False
        self._draw_took_s = self._drawn_at = 0.0
        self._last_job = ""
        self._warms = False
        self.looks.begin()

    @cached_property
    def verbs(self) -> JobVerbs:
        """The actions on jobs.

        Created at the first key that needs it, so that the first frame does not wait for its dialogs to load.
        """
        from warpdeck_tui.screens.shared.job_verbs import JobVerbs

        return JobVerbs(self)

    @cached_property
    def filling(self) -> FormOpening:
        """The source of the values for the "New job" form. Created when the form is first opened."""
        from warpdeck_tui.screens.shared.form_opening import FormOpening

        return FormOpening(self)

    @property
    def palette(self) -> dict[str, Style]:
        """Map style names of the line widgets to their styles in the current theme."""
        return self.looks.palette

    @property
    def stands(self) -> bool:
        top = self.screen_stack[-1] if self.screen_stack else None
        return not isinstance(top, Arrives | Palette) or top.has_arrived

    @property
    def front(self) -> DeckScreen | None:
        """The screen in front, or None if there is none that can be drawn.

        There is none while a dialog is in front, before the screen's widgets are mounted, and after they are
        removed when the app ends. Updates can arrive at any of these times.
        """
        top = self.screen_stack[-1] if self.is_running and self.screen_stack else None
        return top if isinstance(top, DeckScreen) and top.is_mounted else None

    def on_mount(self) -> None:
        self.looks.tell()
        self._use_settings()
        self.set_interval(LOOK_S, self._look_at_themes)
        self._use_keys()
        self.push_screen(QueueScreen())
        self._open_at(*self._at)
        # Connect only after the empty screen is drawn, because connecting may have to start a controller.
        self.call_after_refresh(self._watch)

    @work(exclusive=True, group="themes")
    async def _look_at_themes(self) -> None:
        if self.app_focus:
            await self.looks.look_again()

    def _open_at(self, screen: str, what: str) -> None:
        """Open the screen to begin with."""
        if screen == "job":
            self.open_job(what)
        elif screen == "node":
            self.push_screen(screens.NodesScreen(what))
            self.push_screen(screens.NodeScreen(what))
        elif screen == "gpus":
            self.push_screen(screens.NodesScreen(at=self._moment))
        elif screen == "nodes":
            self.push_screen(screens.NodesScreen(listed=True, at=self._moment))
        elif screen == "history":
            self.push_screen(screens.HistoryScreen())
        elif screen == "site":
            self.push_screen(screens.AdminScreen())
        elif screen == "sessions":
            self.push_screen(screens.SessionsScreen())

    def _use_settings(self) -> None:
        try:
            self.settings = read_settings()
        except UserError as error:
            self.tell_error(error)

    @property
    def marks(self) -> Set[str]:
        """The keys of the rows that are marked in the queue."""
        queue = next((each for each in self.screen_stack if isinstance(each, QueueScreen)), None)
        return queue.table.marks if queue is not None and queue.has_arrived else frozenset()

    def _use_keys(self) -> None:
        try:
            self.own_keys = read_keymap(self._keys_file)
        except UserError as error:
            self.tell_error(error)
        self.set_keymap(self.keymap)

    @property
    def _keys_file(self) -> Path:
        return Path(config_dir()) / KEYS_FILE

    @property
    def keymap(self) -> dict[str, str]:
        """Map binding ids to keys, for those actions to which the user gave other keys than the default
        ones.
        """
        return self.own_keys.keys

    @work(exclusive=True, group="watch")
    async def _watch(self) -> None:
        await self.core.watch(self)

    # ---- Callbacks of the connection to the controller

    def linked(self, user: str) -> None:
        self.user, self.away = user, ""
        self.board.restart()
        self.redraw()
        self._drawn_at = 0.0  # draw the first rows at once, without waiting for the refresh interval

    def told(self, delta: Delta) -> None:
        self.notices.look(delta)
        self.board.apply(delta)
        self._warm_up()
        if self._draw_planned:
            return
        wait_s = self._drawn_at + max(self.pace.news_s, self._draw_took_s / DRAW_SHARE) - time.monotonic()
        if wait_s <= 0:
            self.redraw()
        else:
            self._draw_planned = True
            self.set_timer(wait_s, self.redraw)

    def watch_app_focus(self, focus: bool) -> None:
        """Start the clocks when the terminal gets the focus and stop them when it loses it.

        Redraw when the focus returns.
        """
        if self.front is not None:
            self.front.set_clocks()
            if focus:
                self.redraw()

    def went_away(self, words: str) -> None:
        self.away = words
        self.redraw()
        self._warm_up()

    def came_back(self) -> None:
        self.went_away("")

    def redraw(self) -> None:
        """Redraw the screen in front."""
        self._draw_planned = False
        began = time.process_time()
        if self.front is not None:
            self.front.draw()
        self._draw_took_s = time.process_time() - began
        self._drawn_at = time.monotonic()

    def _warm_up(self) -> None:
        """Start loading the remaining modules. This happens only once, after there is something to look
        at.
        """
        if not self._warms:
            self._warms = True
            self.call_after_refresh(self._load_later)

    @work(group="warming")
    async def _load_later(self) -> None:
        await load_later()

    # ---- Requests from the screens

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

    def find_job(self, key: str) -> JobRow | None:
        """Return the job's row from the client state or from the screen that shows it, or None."""
        shown = self.front.shown_job(key) if self.front is not None else None
        return self.board.job(key) or shown

    def open_job(self, key: str, *, pane: str = "", channel: str = "out") -> None:
        """Open the page of the job with this id."""
        self._last_job = key
        self.push_screen(screens.JobScreen(key, pane=pane, channel=channel))

    def open_node(self, name: str) -> None:
        """Open the screen of nodes, with the cursor on this node."""
        if isinstance(self.screen, screens.NodesScreen):
            self.screen.go_to(name)
        else:
            self.action_show_queue()
            self.push_screen(screens.NodesScreen(name))

    def open_user(self, user: str) -> None:
        """Open the queue, filtered to the jobs of this user."""
        self.action_show_queue()
        self.everybody = True
        queue = next(each for each in self.screen_stack if isinstance(each, QueueScreen))
        queue.narrow(f"user:{user}")

    def changes(self, verb: str) -> bool:
        """Return whether this action on jobs is one that --readonly switches off."""
        return ("queue", verb) in CHANGING

    def tell_error(self, error: UserError) -> None:
        """Show an error as one sentence and the next step."""
        self.notify(
            f"{printable(error.message)}\n{printable(error.hint)}".strip(), severity="error", markup=False
        )

    def tell_reloaded(self, reloaded: Reloaded) -> None:
        """Show which settings changed when config.toml was read again."""
        self.notify("\n".join([*reloaded.changes, *reloaded.warnings]) or "No settings changed", markup=False)

    def copy(self, text: str, *, shown: str = "") -> None:
        """Copy the text to the terminal's clipboard (OSC 52), to the buffer of tmux and to a file.

        The file serves terminals that have neither of the other two. `shown` is displayed in place of the
        text if the text contains a secret.
        """
        if text:
            self.copy_to_clipboard(text)
            self._keep_copy(text, shown or text)

    @work(exclusive=True, group="copy")
    async def _keep_copy(self, text: str, shown: str) -> None:
        places = await clipboard.keep(text, environ=os.environ)
        self.notify(f"Copied {shown}\n{places}", markup=False)

    # ---- Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not (self.lending or (self.readonly and ("app", action) in CHANGING))

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run an action. If the action is switched off here, show why, so that no key is ignored silently."""
        target, name, _ = self._parse_action(action, default_namespace or self, namespaces)
        words = target.refused(name) if isinstance(target, DeckApp | DeckScreen) else ""
        if words and not self.lending:
            self.notify(words, severity="warning", markup=False)
            return True
        return await super().run_action(action, default_namespace, namespaces)

    def refused(self, action: str) -> str:
        """Return why an app-wide action is not available, or "" if it is available."""
        return looks_only("app", action) if self.readonly else ""

    @work
    async def action_shell(self) -> None:
        await self.verbs.shell()

    def new_job(self) -> None:
        """Open the "New job" form, filled from the user's last job."""
        self.keyboard.wait_for(self._fill_form(self.filling.last))

    def new_like(self, key: str) -> None:
        """Open the "New job" form, filled from this job."""
        self.keyboard.wait_for(self._fill_form(partial(self.filling.of_job, key)))

    @work(exclusive=True, group="form")
    async def _fill_form(self, fill: Callable[[], Awaitable[Sheet]]) -> None:
        try:
            self.open_form(await fill())
        except UserError as error:
            self.tell_error(error)

    def open_form(self, sheet: Sheet) -> None:
        """Open the "New job" form with these values."""

        def submitted(job_id: str | None) -> None:
            if job_id and isinstance(self.screen, QueueScreen):
                self.screen.go_to(job_id)

        if self.front is not None:
            self.push_screen(screens.NewJob(self.core, self.filling, sheet), submitted)
        else:
            self.notify("The form was not opened because another dialog is open", severity="warning")

    @work
    async def action_start_controller(self) -> None:
        try:
            await self.core.start_controller()
        except UserError as error:
            self.tell_error(error)
        else:
            self.chronicle.add("warpdeck up")

    def action_show_queue(self) -> None:
        while len(self.screen_stack) > 2:
            self.pop_screen()

    def action_show_nodes(self) -> None:
        self._show(screens.NodesScreen)

    def action_show_history(self) -> None:
        self._show(screens.HistoryScreen)

    def action_show_sessions(self) -> None:
        self._show(screens.SessionsScreen)

    def action_show_admin(self) -> None:
        self._show(screens.AdminScreen)

    def _show(
        self,
        kind: type[
            screens.NodesScreen | screens.HistoryScreen | screens.SessionsScreen | screens.AdminScreen
        ],
    ) -> None:
        if not isinstance(self.screen, kind):
            self.action_show_queue()
            self.push_screen(kind())

    def action_show_job(self) -> None:
        if isinstance(self.screen, screens.JobScreen):
            return
        keys = self.front.job_keys if self.front is not None else []
        key = keys[0] if keys else self._last_job
        if key:
            self.open_job(key)

    async def action_quit(self) -> None:
        self.workers.cancel_all()
        self.exit()

    def action_help(self) -> None:
        places = self.front.places() if self.front is not None else ()
        self.push_screen(screens.HelpPage("Help", help_lines(places, self.keymap)))

    def action_done(self) -> None:
        self.push_screen(screens.DonePage(self.chronicle))

    @work
    async def action_undo(self) -> None:
        await self.take_back()

    async def take_back(self, key: str = "") -> None:
        """Undo the latest change, or the change with this key. If that is impossible, show why."""
        if words := self.refused("undo"):
            self.notify(words, severity="warning", markup=False)
            return
        done = self.chronicle.take(key)
        if done is None or done.undo is None:
            self.notify(NOTHING_TO_UNDO, markup=False)
            return
        try:
            await done.undo.call()
        except UserError as error:
            is_refused = error.code not in UNANSWERED
            self.chronicle.give_back(done, is_refused=is_refused)
            again = "Press @, then Z to try again" if is_refused else "Press Z to try again"
            self.tell_error(UserError(error.message, ". ".join(filter(None, (error.hint, again)))))
            return
        self.chronicle.add(done.undo.command)
        self.notify(f"Undone: {done.undo.command}", markup=False)

    def action_command_palette(self) -> None:
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(placeholder=WHAT_IS_FOUND, id="--command-palette"))

    def action_keys(self) -> None:
        """Read the key bindings file again, apply it, and show the keys."""
        self._use_keys()
        self.push_screen(screens.HelpPage("Key bindings", keymap_lines(self.own_keys, self._keys_file)))

    def action_next_theme(self) -> None:
        self.looks.use_next()

    def action_pick_theme(self) -> None:
        self.push_screen(screens.ThemePicker())

    def recolour(self) -> None:
        """Apply the current theme to the open dialogs and to the screen that is visible below them."""
        for screen in reversed(self.screen_stack):
            if isinstance(screen, Arrives) and screen.has_arrived:
                screen.recolour()
            if isinstance(screen, DeckScreen) and screen.has_arrived:
                screen.draw()
                break

    def commands(self, screen: Screen[Any]) -> Iterable[Command]:
        """Yield the entries of the command palette: every action that applies to the screen in front."""
        if not isinstance(screen, DeckScreen):
            return
        for action in actions_at(*screen.places(), "moves"):
            if action.id != "command_palette" and screen.works(action):
                keys = key_words(keys_of(action, self.keymap))
                yield Command(action, keys, partial(self.run_action, command_of(action)))
