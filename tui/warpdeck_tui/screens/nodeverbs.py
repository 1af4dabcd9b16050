"""What can be done with a node, on the map and on its page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textual import work

from warpdeck.api.rows import NodeRow
from warpdeck.errors import UserError
from warpdeck_tui.viewmodels.queue import Question

from .base import DeckScreen
from .dialogs import Ask, Confirm


class NodeVerbs(DeckScreen):
    """A screen that is about one node at a time."""

    @property
    def node(self) -> NodeRow | None:
        """The one that is meant."""
        return None

    def action_drain(self) -> None:
        node = self.node
        if node is None:
            return
        name = node.name
        if node.state in ("drained", "draining"):
            question = Question(f"Let {name} take jobs again?", f"warpdeck node resume {name}")
            self.confirmed(question, lambda: self.deck.core.node_resume(name))
            return

        def drain(reason: str | None) -> None:
            if reason:
                self.call(lambda: self.deck.core.node_drain(name, reason=reason))

        self.app.push_screen(
            Ask(
                f"Drain {name}: why?",
                required="say why, for whoever wonders",
                command=f"warpdeck node drain {name} 'the reason'",
            ),
            drain,
        )

    def confirmed(self, question: Question, call: Callable[[], Awaitable[None]]) -> None:
        def act(sure: bool | None) -> None:
            if sure:
                self.call(call)

        self.app.push_screen(Confirm(question), act)

    @work
    async def call(self, call: Callable[[], Awaitable[None]]) -> None:
        try:
            await call()
        except UserError as error:
            self.deck.tell_error(error)
