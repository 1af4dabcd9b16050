"""The actions on a node that ask first, for the screens of nodes and for the palette."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable

from warpdeck.base.errors import UserError
from warpdeck.protocol.node_rows import NodeRow
from warpdeck_tui.data.action_log import Undo
from warpdeck_tui.deck import Deck
from warpdeck_tui.viewmodels.jobs.queue import Question

from .dialogs import Ask, Confirm

DRAINED = ("drained", "draining")


def is_drained(node: NodeRow) -> bool:
    """Return whether the node accepts no jobs because somebody drained it."""
    return node.state in DRAINED


def drain_or_resume(app: Deck, node: NodeRow) -> None:
    """Ask for the reason and drain the node or, if it is drained already, ask and resume it."""
    name, before = node.name, node.reason
    if is_drained(node):
        question = Question(f"Resume {name}?", f"warpdeck node resume {name}")
        again = Undo(_drain_command(name, before), lambda: app.core.node_drain(name, reason=before))
        resume: Callable[[], Awaitable[None]] = lambda: app.core.node_resume(name)  # noqa: E731
        confirmed(app, question, resume, again if before else None, done=f"Resumed {name}")
        return

    def drain(reason: str | None) -> None:
        if reason:
            back = Undo(f"warpdeck node resume {name}", lambda: app.core.node_resume(name))
            command = _drain_command(name, reason)
            change(
                app, command, lambda: app.core.node_drain(name, reason=reason), back, done=f"Drained {name}"
            )

    ask = Ask(
        f"Reason for draining {name}",
        required="Enter a reason",
        command=f"warpdeck node drain {name} 'the reason'",
    )
    app.push_screen(ask, drain)


def confirmed(
    app: Deck, question: Question, call: Callable[[], Awaitable[None]], undo: Undo | None = None, *, done: str
) -> None:
    """Make a change after the user has confirmed it. `done` is the message after it."""

    def act(sure: bool | None) -> None:
        if sure:
            change(app, question.command, call, undo, done=done)

    app.push_screen(Confirm(question), act)


def change(
    app: Deck, command: str, call: Callable[[], Awaitable[None]], undo: Undo | None = None, *, done: str
) -> None:
    """Make a change, record it in the action log, and tell the user how to undo it."""

    async def work() -> None:
        try:
            await call()
        except UserError as error:
            app.tell_error(error)
        else:
            app.tell_done(done, command, undo)

    app.run_worker(work())


def _drain_command(name: str, reason: str) -> str:
    return shlex.join(["warpdeck", "node", "drain", name, reason])
