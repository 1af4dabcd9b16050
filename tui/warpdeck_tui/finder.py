"""The palette's second source: jobs, nodes and users of the board, beside the table's actions."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import CommandPalette, Hit, Hits, Provider

from .viewmodels.objects import Thing, find_jobs, find_nodes, find_users

if TYPE_CHECKING:
    from .app import DeckApp

WHAT_IS_FOUND = "an action, a job, a node or a user"


class Finder(CommandPalette):
    """The palette. What is typed before it stands waits for it (`keyboard`)."""

    has_arrived = False

    def on_mount(self) -> None:
        self.app.call_later(self._stand)

    async def _stand(self) -> None:
        self.has_arrived = True
        await cast("DeckApp", self.app).keyboard.go_on()


class Objects(Provider):
    """Looked for when something was typed; with nothing typed the palette lists actions alone."""

    async def search(self, query: str) -> Hits:
        deck = cast("DeckApp", self.app)
        jobs = list(deck.board.jobs.values())
        await asyncio.sleep(0)  # who typed on already asks for something else
        for things in (
            find_jobs(jobs, query),
            find_nodes(deck.board.nodes.values(), query),
            find_users(jobs, query),
        ):
            for thing in things:
                if not (deck.readonly and deck.changes(thing.kind)):
                    yield Hit(thing.score, thing.title, partial(go, deck, thing), help=thing.words)
            await asyncio.sleep(0)


def go(deck: DeckApp, thing: Thing) -> None:
    """To where the thing is; or the verb, which asks as its key does."""
    if thing.kind == "job":
        deck.open_job(thing.key)
    elif thing.kind == "node":
        deck.open_node(thing.key)
    elif thing.kind == "user":
        deck.open_user(thing.key)
    elif thing.kind == "attach":
        deck.verbs.attach(thing.key)
    else:
        deck.verbs.ask(thing.kind, [thing.key])
