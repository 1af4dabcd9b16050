"""The actions on a node, shared by the map and the page of a node."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable

from textual import work

from warpdeck.base.errors import UserError
from warpdeck.notation.values.time_points import moment_text
from warpdeck.protocol.node_rows import NodeRow
from warpdeck_tui.data.action_log import Undo
from warpdeck_tui.viewmodels.jobs.queue import Question

from .deck_screen import DeckScreen
from .dialogs import Ask, Confirm


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
        return self.node is not None and self.node.state in ("drained", "draining")

    def action_drain(self) -> None:
        node = self.node
        if node is None:
            return
        name, before = node.name, node.reason
        if self._is_drained:
            question = Question(f"Resume {name}?", f"warpdeck node resume {name}")
            again = Undo(_drain_command(name, before), lambda: self.deck.core.node_drain(name, reason=before))
            self.confirmed(question, lambda: self.deck.core.node_resume(name), again if before else None)
            return

        def drain(reason: str | None) -> None:
            if reason:
                back = Undo(f"warpdeck node resume {name}", lambda: self.deck.core.node_resume(name))
                command = _drain_command(name, reason)
                self.call(command, lambda: self.deck.core.node_drain(name, reason=reason), back)

        self.app.push_screen(
            Ask(
                f"Reason for draining {name}",
                required="Enter a reason",
                command=f"warpdeck node drain {name} 'the reason'",
            ),
            drain,
        )

    @property
    def moment(self) -> float | None:
        """The time in the past that is shown, or None for now."""
        return None

    def action_copy_command(self) -> None:
        if self.node is not None:
            then = [] if self.moment is None else ["--at", moment_text(self.moment)]
            self.deck.copy(shlex.join(["warpdeck", "node", "show", self.node.name, *then]))

    def confirmed(
        self, question: Question, call: Callable[[], Awaitable[None]], undo: Undo | None = None
    ) -> None:
        def act(sure: bool | None) -> None:
            if sure:
                self.call(question.command, call, undo)

        self.app.push_screen(Confirm(question), act)

    @work
    async def call(self, command: str, call: Callable[[], Awaitable[None]], undo: Undo | None = None) -> None:
        try:
            await call()
        except UserError as error:
            self.deck.tell_error(error)
        else:
            self.deck.chronicle.add(command, undo)


def _drain_command(name: str, reason: str) -> str:
    return shlex.join(["warpdeck", "node", "drain", name, reason])
