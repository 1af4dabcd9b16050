"""The actions on a node, shared by the map and the page of a node."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable

from warpdeck.notation.values.time_points import moment_text
from warpdeck.protocol.node_rows import NodeRow
from warpdeck_tui.data.action_log import Undo
from warpdeck_tui.viewmodels.jobs.queue import Question

from .deck_screen import DeckScreen
from .node_actions import confirmed, drain_or_resume, is_drained


class NodeVerbs(DeckScreen):
    """Base class of screens with one selected node."""

    @property
    def node(self) -> NodeRow | None:
        """The selected node."""
        return None

    def variant(self, action: str) -> str:
        return "resume" if action == "drain" and self._is_drained else ""

    @property
    def _is_drained(self) -> bool:
        return self.node is not None and is_drained(self.node)

    def action_drain(self) -> None:
        if self.node is not None:
            drain_or_resume(self.deck, self.node)

    @property
    def moment(self) -> float | None:
        """The time in the past that is shown, or None for now."""
        return None

    def action_copy_command(self) -> None:
        if self.node is not None:
            then = [] if self.moment is None else ["--at", moment_text(self.moment)]
            self.deck.copy(shlex.join(["warpdeck", "node", "show", self.node.name, *then]))

    def confirmed(
        self, question: Question, call: Callable[[], Awaitable[None]], undo: Undo | None = None, *, done: str
    ) -> None:
        """Make a change after the user has confirmed it. `done` is the message after it."""
        confirmed(self.deck, question, call, undo, done=done)
