"""Undoes changes that were made in the app."""

from __future__ import annotations

from warpdeck.base.errors import UNCERTAIN, UserError
from warpdeck.client.asyncio_client import GONE
from warpdeck_tui.data.action_log import Undo
from warpdeck_tui.deck import Deck

UNANSWERED = frozenset((GONE, UNCERTAIN))
"""Error codes which mean that no answer arrived, so the request may or may not have been carried out."""
NOTHING_TO_UNDO = "Nothing to undo. Press @ to list all changes"

MAX_COMMAND = 60
"""Largest length of a command line that a notification shows. The action log shows longer ones."""


def undo_hint(undo: Undo | None, key: str) -> str:
    """Return the text after the message about a change: the key that undoes it, and the command that it runs."""
    if undo is None or not key:
        return ""
    return f". {key} undoes it" + (f": {undo.command}" if len(undo.command) <= MAX_COMMAND else "")


async def undo_change(deck: Deck, key: str) -> None:
    """Undo the change with this key in the action log, or the latest one if it is empty.

    If that is impossible, show why.
    """
    done = deck.chronicle.take(key)
    if done is None or done.undo is None:
        deck.notify(NOTHING_TO_UNDO, markup=False)
        return
    try:
        await done.undo.call()
    except UserError as error:
        is_refused = error.code not in UNANSWERED
        deck.chronicle.give_back(done, is_refused=is_refused)
        again = "Press @, then Z to try again" if is_refused else "Press Z to try again"
        deck.tell_error(UserError(error.message, ". ".join(filter(None, (error.hint, again)))))
        return
    deck.chronicle.add(done.undo.command)
    deck.notify(f"Undone: {done.undo.command}", markup=False)
