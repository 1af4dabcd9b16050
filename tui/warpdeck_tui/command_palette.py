"""The command palette.

It finds actions by title, key or a word of their help text, and also jobs, nodes and users.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from warpdeck_tui.table.actions import CHANGING
from warpdeck_tui.viewmodels.shell.search_index import (
    JobSearch,
    Thing,
    find_nodes,
    find_users,
    score_of_action,
)

from .deck import Command, Deck

SLICE = 5_000
"""Number of jobs that are searched between two checks for keys. This takes a few milliseconds."""
GREYED_OUT = "$foreground 45%"
"""Style of an action that the scheduler cannot do."""
WHAT_IS_FOUND = "Action, job, node or user"


class Palette(CommandPalette):
    """The command palette. Keys typed before it is ready wait for it (see `keyboard`)."""

    has_arrived = False

    def on_mount(self) -> None:
        self.app.call_later(self._stand)

    async def _stand(self) -> None:
        self.has_arrived = True
        await cast(Deck, self.app).keyboard.go_on()


class Actions(Provider):
    """Finds the actions of the screen in front."""

    async def discover(self) -> Hits:
        for each in cast(Deck, self.app).commands(self.screen):
            title = each.action.title
            yield DiscoveryHit(_shown(title, each), each.run, text=title, help=each.words)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for each in cast(Deck, self.app).commands(self.screen):
            title = each.action.title
            score = score_of_action(
                query, keys=each.keys, words=each.action.help, title_score=matcher.match(title)
            )
            if score:
                shown = matcher.highlight(title)
                yield Hit(score, _shown(shown, each), each.run, text=title, help=each.words)


class Objects(Provider):
    """Finds jobs, nodes and users once the user has typed something.

    Before that the palette lists only actions.
    """

    async def search(self, query: str) -> Hits:
        deck = cast(Deck, self.app)
        jobs = list(deck.board.jobs.values())
        search = JobSearch(query)
        for first in range(0, len(jobs), SLICE):
            await asyncio.sleep(0)  # give way to newer keys: the user may already have typed another query
            search.look(jobs[first : first + SLICE])
        for things in (
            search.best(),
            find_nodes(deck.board.nodes.values(), query),
            find_users(jobs, query),
        ):
            for thing in things:
                if not (deck.readonly and ("queue", thing.kind) in CHANGING):
                    reason = deck.board.scheduler.refusal("queue", thing.kind)
                    shown = Content.styled(thing.title, GREYED_OUT) if reason else thing.title
                    words = reason or thing.words
                    yield Hit(thing.score, shown, partial(go, deck, thing), text=thing.title, help=words)
            await asyncio.sleep(0)


def _shown(title: Content | str, command: Command) -> Content | str:
    """Return the title, greyed out if the scheduler cannot do the action."""
    if not command.reason:
        return title
    return (Content(title) if isinstance(title, str) else title).stylize(GREYED_OUT)


def go(deck: Deck, thing: Thing) -> None:
    """Open the page of the found object, or run the action that was found. The action asks as its key
    does.
    """
    if reason := deck.board.scheduler.refusal("queue", thing.kind):
        deck.notify(reason, severity="warning", markup=False)
    elif thing.kind == "job":
        deck.navigation.open_job(thing.key)
    elif thing.kind == "node":
        deck.navigation.open_node(thing.key)
    elif thing.kind == "user":
        deck.navigation.open_user(thing.key)
    elif thing.kind == "attach":
        deck.verbs.attach(thing.key)
    elif thing.kind == "limit":
        deck.verbs.ask_limit([thing.key])
    elif thing.kind == "priority":
        deck.verbs.ask_priority([thing.key])
    else:
        deck.verbs.ask(thing.kind, [thing.key])
