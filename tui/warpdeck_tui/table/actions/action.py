"""An action of the user interface."""

from __future__ import annotations

from typing import NamedTuple


class Action(NamedTuple):
    """One action of the user interface.

    `where` is a context of PLACES. `short` is the label in the key line; "" keeps the action out of it.
    `changes` marks the actions that --readonly switches off. `call` is the Textual action to run if its name
    differs from `id`.
    """

    where: str
    id: str
    keys: str
    title: str
    help: str
    short: str = ""
    changes: bool = False
    call: str = ""

    @property
    def runs(self) -> str:
        """The Textual action that is run."""
        return self.call or self.id


NO_KEY = "no_key"
"""Key name for an action whose key the user removed. No terminal sends it."""
CHANGES = True
"""Marks the actions that --readonly switches off, where `Action` is created."""
