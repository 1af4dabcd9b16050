"""Decides whether the welcome page is shown in place of an empty queue."""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.model.finished_jobs import FinishedQuery
from warpdeck_tui import screens
from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.queue import QueueScreen
from warpdeck_tui.terminal.terminal_app import TerminalApp
from warpdeck_tui.user_files.welcome_file import is_welcome_closed


class Welcome:
    """Shows the page while the queue is in front, until there has been a job or the user has closed the page."""

    def __init__(self, deck: Deck, app: TerminalApp) -> None:
        self._deck = deck
        self._app = app
        self._is_over = False

    @property
    def is_possible(self) -> bool:
        """Whether the page may be shown, as far as the rows of jobs and nodes tell. This is a cheap test."""
        board = self._deck.board
        return (
            not self._is_over
            and board.ready
            and not board.jobs
            and len(board.nodes) <= 1
            and board.scheduler.is_own
            and isinstance(self._app.screen, QueueScreen)
            and not self._app.screen.filter_text
        )

    def offer(self) -> None:
        """Show the page if no job ever ended here and the user has not closed the page. Keys typed meanwhile wait for it."""
        keyboard = self._app.keyboard
        if not self.is_possible or keyboard.is_opening:  # a key has just opened a dialog
            return
        if is_welcome_closed():
            self._is_over = True
            return
        keyboard.wait_for(self._app.run_worker(self._open(), group="welcome", exclusive=True))

    async def _open(self) -> None:
        try:
            past = await self._deck.core.past(FinishedQuery(limit=1))
        except UserError:  # the line at the top says that there is no connection
            past = None
        if past is not None and past.jobs:
            self._is_over = True
        elif past is not None and self.is_possible:
            self._app.push_screen(screens.WelcomeScreen())
        self._app.call_later(self._app.keyboard.go_on)
