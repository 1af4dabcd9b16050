"""The application class, which connects the parts with each other and with Textual's actions."""

from __future__ import annotations

import getpass
import os
import random
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.style import Style
from textual import work
from textual.actions import ActionParseResult
from textual.binding import BindingType
from textual.command import CommandListItem, Provider, SimpleProvider
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import AwaitMount

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths, default_paths
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.results import Reloaded
from warpdeck_tui import screens
from warpdeck_tui.command_palette import WHAT_IS_FOUND, Actions, Objects, Palette
from warpdeck_tui.data.action_log import ActionLog, Undo
from warpdeck_tui.data.client_state import ClientState
from warpdeck_tui.data.server_requests import Core
from warpdeck_tui.deck import Command
from warpdeck_tui.screens.shared.deck_screen import Arrives, DeckScreen
from warpdeck_tui.table.actions import CHANGING
from warpdeck_tui.table.bindings import (
    actions_at,
    bindings,
    command_of,
    key_words,
    keys_of,
    looks_only,
)
from warpdeck_tui.terminal import clipboard
from warpdeck_tui.terminal.preload import load_later
from warpdeck_tui.terminal.terminal_app import TerminalApp, is_written_in
from warpdeck_tui.theme_manager import LOOK_S, ThemeManager
from warpdeck_tui.user_files.settings import Settings, read_settings
from warpdeck_tui.widgets.cells import printable

from .desktop_notifications import DesktopNotifications
from .job_forms import JobForms
from .key_bindings import KeyBindings
from .navigation import Navigator, Start
from .refresher import Refresher
from .site_facts import LOOK_S as SITE_LOOK_S
from .site_facts import look_at_site
from .undo import undo_change, undo_hint
from .updates import Updates

if TYPE_CHECKING:
    from warpdeck_tui.screens.shared.jobs.job_verbs import JobVerbs

    from .welcome import Welcome


class DeckApp(TerminalApp):
    """The full-screen app. It implements the protocol `Deck`."""

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
        at: tuple[str, str] = ("", ""),
        moment: float | None = None,
        low_bandwidth: bool = False,
        plain_signs: bool = False,
    ) -> None:
        # Without `ansi_color`, Textual would replace the colors by shades of gray, and NO_COLOR forbids those, too.
        super().__init__(
            ansi_color=True if os.environ.get("NO_COLOR") else None,
            low_bandwidth=low_bandwidth,
            plain_signs=plain_signs,
        )
        self.core = Core(paths or default_paths(), rng=random.Random())
        self.board = ClientState(user=getpass.getuser())
        self.chronicle = ActionLog()
        self.settings = Settings()
        self.everybody = everybody
        self.readonly = readonly
        self.looks = ThemeManager(self, wanted=theme)
        self.navigation = Navigator(self, self)
        self.refresher = Refresher(
            self._draw_front, set_timer=self.set_timer, least_s=lambda: self.pace.news_s
        )
        self.updates = Updates(
            self.board,
            self.refresher,
            DesktopNotifications(self),
            load_later=lambda: self.call_after_refresh(self._load_later),
            on_ready=lambda: self.call_after_refresh(self._state_is_complete),
        )
        self._start = Start(*at, moment)
        self._has_offered = False
        self._own_keys = KeyBindings()
        self.looks.begin()

    @cached_property
    def verbs(self) -> JobVerbs:
        """The actions on jobs.

        Created at the first key that needs it, so that the first frame does not wait for its dialogs to load.
        """
        from warpdeck_tui.screens.shared.jobs.job_verbs import JobVerbs

        return JobVerbs(self)

    @cached_property
    def forms(self) -> JobForms:
        """The "New job" form."""
        return JobForms(self, self)

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
        self.choose_colors(self.settings.colors)
        self.set_interval(LOOK_S, self._look_at_themes)
        self.set_interval(SITE_LOOK_S, self._look_at_site)
        self._read_keys()
        self.navigation.begin(self._start._replace(screen=self._start.screen or self.settings.start))
        # Connect only after the empty screen is drawn, because connecting may have to start a controller.
        self.call_after_refresh(self._watch)

    def recolor_for_terminal(self) -> None:
        self.looks.recolor_for_terminal()

    @work(exclusive=True, group="themes")
    async def _look_at_themes(self) -> None:
        if self.app_focus:
            await self.looks.look_again()

    @work(exclusive=True, group="site")
    async def _look_at_site(self) -> None:
        if self.app_focus and self.board.ready:
            await look_at_site(self.core, self.board)
            self.refresher.redraw_later()

    def _use_settings(self) -> None:
        try:
            self.settings = read_settings()
        except UserError as error:
            self.tell_error(error)

    @property
    def marks(self) -> Set[str]:
        """The keys of the rows that are marked in the queue."""
        queue = self.navigation.queue
        return queue.table.marks if queue is not None and queue.has_arrived else frozenset()

    def _read_keys(self) -> None:
        try:
            self._own_keys.read()
        except UserError as error:
            self.tell_error(error)
        self.set_keymap(self.keymap)

    @property
    def keymap(self) -> dict[str, str]:
        """Map binding ids to keys, for those actions to which the user gave other keys than the default
        ones.
        """
        return self._own_keys.keys

    @work(exclusive=True, group="watch")
    async def _watch(self) -> None:
        await self.core.watch(self.updates)

    def watch_app_focus(self, focus: bool) -> None:
        """Start the clocks when the terminal gets the focus and stop them when it loses it.

        Redraw when the focus returns.
        """
        if self.front is not None:
            self.front.set_clocks()
            if focus:
                self.refresher.redraw()

    def _draw_front(self) -> None:
        if self.front is not None:
            self.front.draw()
            self.front.draw_top()

    def _state_is_complete(self) -> None:
        """Called when the complete state of a connection has arrived.

        The name must not begin with "on", because Textual would call the method for its own event Ready.
        """
        self._look_at_site()
        if not self._has_offered:
            self._has_offered = True
            self._offer_sessions()
        self.offer_welcome()

    def offer_welcome(self) -> None:
        """Show the welcome page if the queue is in front and there has never been a job."""
        if self.board.ready and not self.board.jobs and self.is_running:
            self._welcome.offer()

    @cached_property
    def _welcome(self) -> Welcome:
        from .welcome import Welcome  # Only a new home needs it.

        return Welcome(self, self)

    def _offer_sessions(self) -> None:
        """Tell the user about sessions that no terminal shows, and move the cursor to the latest one.

        A session stays without a terminal if the window was closed or the SSH connection was lost.
        """
        if any(row.interactive for row in self.board.jobs.values()):
            # Only now, because the first frame does not need the module.
            from .left_sessions import offer_sessions

            offer_sessions(self)

    @work(group="warming")
    async def _load_later(self) -> None:
        await load_later()

    # ---- Requests from the screens

    def find_job(self, key: str) -> JobRow | None:
        """Return the job's row from the client state or from the screen that shows it, or None."""
        shown = self.front.shown_job(key) if self.front is not None else None
        return self.board.job(key) or shown

    def tell_error(self, error: UserError) -> None:
        """Show an error as one sentence and the next step."""
        self.notify(
            f"{printable(error.message)}\n{printable(error.hint)}".strip(), severity="error", markup=False
        )

    def tell_done(self, words: str, command: str, undo: Undo | None = None) -> None:
        """Record a change in the action log, and tell the user about it and about the key that undoes it."""
        self.chronicle.add(command, undo)
        [action] = [each for each in actions_at("app") if each.id == "undo"]
        key = key_words(keys_of(action, self.keymap).partition(",")[0])
        self.notify(f"{words}{undo_hint(undo, key)}", markup=False)

    def ask_drain(self, name: str) -> None:
        """Ask for the reason and drain the node with this name or, if it is drained already, ask and resume it."""
        from warpdeck_tui.screens.shared.node_actions import (
            drain_or_resume,  # The first frame does not need it.
        )

        if (node := self.board.nodes.get(name)) is not None:
            drain_or_resume(self, node)

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
        """Return whether an app-wide action can run now. None means that the scheduler cannot do it."""
        if self.lending or (self.readonly and ("app", action) in CHANGING):
            return False
        return None if self.board.scheduler.refusal("app", action) else True

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run an action. If the action is switched off here, show why, so that no key is ignored silently.

        A key that was typed before its screen was closed does nothing.
        """
        target, name = self.action_target(action, default_namespace or self, namespaces)
        if isinstance(target, Arrives) and target.is_left:
            return True
        words = target.refused(name) if isinstance(target, DeckApp | DeckScreen) else ""
        if words and not self.lending:
            self.notify(words, severity="warning", markup=False)
            return True
        return await super().run_action(action, default_namespace, namespaces)

    def refused(self, action: str) -> str:
        """Return why an app-wide action is not available, or "" if it is available."""
        told = looks_only("app", action) if self.readonly else ""
        return told or self.board.scheduler.refusal("app", action)

    def action_shell(self) -> None:
        self.verbs.shell()

    @work
    async def action_start_controller(self) -> None:
        try:
            await self.core.start_controller()
        except UserError as error:
            self.tell_error(error)
        else:
            self.chronicle.add("warpdeck up")

    def action_show_overview(self) -> None:
        self.navigation.show(screens.OverviewScreen)

    def action_show_queue(self) -> None:
        self.navigation.show_queue()

    def action_show_nodes(self) -> None:
        self.navigation.show(screens.NodesScreen)

    def action_show_history(self) -> None:
        self.navigation.show(screens.HistoryScreen)

    def action_show_sessions(self) -> None:
        self.navigation.show(screens.SessionsScreen)

    def action_show_admin(self) -> None:
        self.navigation.show(screens.AdminScreen)

    def action_show_job(self) -> None:
        self.navigation.show_job()

    async def action_quit(self) -> None:
        self.workers.cancel_all()
        self.exit()

    def action_help_quit(self) -> None:
        """Answer Ctrl+C, which Textual binds to this action, with the key that quits."""
        [action] = [each for each in actions_at("app") if each.id == "quit"]
        key = key_words(keys_of(action, self.keymap).partition(",")[0])
        writes = self.screen_stack and is_written_in(self.focused)
        self.notify(f"Press {'Esc, then ' if writes else ''}{key} to quit. Jobs keep running", markup=False)

    def action_help(self) -> None:
        places = self.front.places() if self.front is not None else ()
        from warpdeck_tui.viewmodels.shell.help_layout import help_of  # The first frame does not need it.

        self.push_screen(screens.KeyHelp(help_of(places, self.keymap, self.board.scheduler.refusal)))

    def action_done(self) -> None:
        self.push_screen(screens.DonePage(self.chronicle))

    @work
    async def action_undo(self) -> None:
        await self.take_back()

    async def take_back(self, key: str = "") -> None:
        """Undo the latest change, or the change with this key. If that is impossible, show why."""
        if words := self.refused("undo"):
            self.notify(words, severity="warning", markup=False)
        else:
            await undo_change(self, key)

    def action_command_palette(self) -> None:
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(placeholder=WHAT_IS_FOUND, id="--command-palette"))

    def search_commands(
        self, commands: Sequence[CommandListItem], placeholder: str = WHAT_IS_FOUND
    ) -> AwaitMount:
        """Let the user choose one of these commands. Textual's palette would crash if it is closed at once."""
        provider = SimpleProvider(self.screen, list(commands))
        # Textual's type of the argument leaves out this class, which it handles.
        return self.push_screen(Palette(providers=[cast(type[Provider], provider)], placeholder=placeholder))

    def action_keys(self) -> None:
        """Read the key bindings file again, apply it, and show the keys."""
        self._read_keys()
        self.push_screen(screens.HelpPage("Key bindings", self._own_keys.help_lines()))

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
                screen.draw_top()
                break

    def commands(self, screen: Screen[Any]) -> Iterable[Command]:
        """Yield the entries of the command palette: every action that applies to the screen in front."""
        if not isinstance(screen, DeckScreen):
            return
        for action in actions_at(*screen.places(), "moves"):
            state = screen.works(action)
            if action.id != "command_palette" and state is not False:
                keys = key_words(keys_of(action, self.keymap))
                owner = self if action.where == "app" else screen
                reason = owner.refused(action.id) if state is None else ""
                yield Command(action, keys, partial(self.run_action, command_of(action)), reason)
