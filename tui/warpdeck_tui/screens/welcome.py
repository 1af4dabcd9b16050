"""The welcome page, in place of an empty queue while there has never been a job."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType

from warpdeck.base.errors import UserError
from warpdeck_tui.data.surroundings import Surroundings, look_around
from warpdeck_tui.screens.node_add import NodeAdd
from warpdeck_tui.screens.shared.deck_screen import DeckScreen
from warpdeck_tui.screens.shared.frames import Frame
from warpdeck_tui.screens.shared.key_line import KeyLine
from warpdeck_tui.table.bindings import actions_at, bindings, key_words, keys_of
from warpdeck_tui.terminal.lent_program import run_program
from warpdeck_tui.terminal.lent_terminal import lend_terminal
from warpdeck_tui.user_files.welcome_file import keep_welcome_closed
from warpdeck_tui.viewmodels.shell.welcome import WelcomeFacts, welcome_lines
from warpdeck_tui.widgets.scrolled_lines import ScrolledLines

DEMO = (sys.executable, "-m", "warpdeck.cli.main", "demo")
INTERRUPTED = -2
"""The exit code of a program that Ctrl-C has ended."""


class WelcomeScreen(DeckScreen):
    """The page. It closes by itself when a job appears."""

    place = "welcome"
    BINDINGS: ClassVar[list[BindingType]] = bindings("welcome")

    def __init__(self) -> None:
        super().__init__()
        self._found = Surroundings()
        self._facts: WelcomeFacts | None = None

    def compose(self) -> ComposeResult:
        yield from self.top()
        with Frame(is_main=True):
            yield ScrolledLines(self.deck.palette, id="welcome")
        yield KeyLine()

    def arrive(self) -> None:
        self.query_one(ScrolledLines).focus()
        self._look_around()
        self.draw()

    @work(exclusive=True)
    async def _look_around(self) -> None:
        self._found = await asyncio.to_thread(look_around)
        self.draw()

    def draw(self) -> None:
        if self.deck.front is not self:
            return
        if self.deck.board.jobs:
            self.app.pop_screen()
            return
        self.set_head("Welcome")
        facts = WelcomeFacts(
            nodes=tuple(self.deck.board.node_list()),
            hosts=self._found.hosts,
            has_slurm=self._found.has_slurm,
            keys=self._keys(),
        )
        if facts != self._facts:
            self._facts = facts
            self._show(facts)

    def _show(self, facts: WelcomeFacts) -> None:
        pane = self.query_one(ScrolledLines)
        pane.show(lambda width: welcome_lines(facts, width, pane.size.height))

    def on_resize(self) -> None:
        """Put the page into the middle of the new size."""
        if not self.is_left and self._facts is not None:
            self.call_after_refresh(self._show, self._facts)

    def _keys(self) -> dict[str, str]:
        actions = (*actions_at(self.place), *(each for each in actions_at("app") if each.id == "shell"))
        return {each.id: key_words(keys_of(each, self.deck.keymap)) for each in actions}

    def recolour(self) -> None:
        self.query_one(ScrolledLines).use_palette(self.deck.palette)

    def action_add(self) -> None:
        self.app.push_screen(NodeAdd(self.deck.core))

    def action_close(self) -> None:
        """Close the page, and never show it again."""
        try:
            keep_welcome_closed()
        except UserError as error:
            self.deck.tell_error(error)
        self.app.pop_screen()

    def action_demo(self) -> None:
        """Show the demo in place of the app, until the user quits it."""
        try:
            code = lend_terminal(self.deck, run_demo)
        except UserError as error:
            self.deck.tell_error(error)
        else:
            if code not in (0, INTERRUPTED):
                self.app.notify(f"The demo ended with exit code {code}", severity="warning")


def run_demo() -> int:
    """Run the demo on the bare terminal, and return its exit code. Raises UserError."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TEXTUAL")}
    try:
        return run_program(DEMO, env=environ)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        raise UserError(f"Cannot start the demo: {error}", "Run `warpdeck demo` in a shell") from error
