"""Offers the sessions that lost their terminal, when the app starts."""

from __future__ import annotations

from warpdeck.client.open_terminals import is_shown
from warpdeck_tui.deck import Deck
from warpdeck_tui.viewmodels.shell.sessions import left_words, sessions


def offer_sessions(deck: Deck) -> None:
    """Tell the user about the user's sessions that no terminal on this machine shows.

    The cursor moves to the latest one, so that one key attaches to it.
    """
    if deck.readonly:  # no key attaches then
        return
    found = sessions(deck.board.jobs.values(), user=deck.board.user)
    left = [row for row in found if not is_shown(deck.core.paths, row.label)]
    if left:
        key = "a" if deck.navigation.point_at(str(left[0].id)) else "5, then a"
        deck.notify(left_words(left, key=key), markup=False)
