"""The command palette.

It finds actions by title, key, synonym or a word of their help text, and also jobs, nodes, users and themes. It
understands verbs with objects, such as "cancel 77" or "theme nord".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from warpdeck.base.errors import UserError
from warpdeck.notation.values.time_points import parse_past
from warpdeck_tui.table.actions import CHANGING
from warpdeck_tui.terminal.textual_private import PatientPalette
from warpdeck_tui.viewmodels.jobs.order import SORTED_BY
from warpdeck_tui.viewmodels.shell.palette_verbs import PANES
from warpdeck_tui.viewmodels.shell.search_index import (
    JobSearch,
    Thing,
    find_nodes,
    find_past_job,
    find_text,
    find_themes,
    find_users,
    is_about_themes,
    score_of_action,
    synonyms_of,
)

from .deck import Command, Deck

SLICE = 5_000
"""Number of jobs that are searched between two checks for keys. This takes a few milliseconds."""
GREYED_OUT = "$foreground 45%"
"""Style of an action that the scheduler cannot do."""
WHAT_IS_FOUND = "Action, job, node or user; or a verb: why 12, cancel 77, drain gpu03, theme nord"


class Palette(PatientPalette):
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
                query,
                keys=each.keys,
                words=each.action.help,
                title_score=matcher.match(title),
                synonyms=synonyms_of(each.action.where, each.action.id),
            )
            if score:
                shown = matcher.highlight(title)
                yield Hit(score, _shown(shown, each), each.run, text=title, help=each.words)


class Objects(Provider):
    """Finds jobs, nodes, users and themes once the user has typed something, and verbs with such an object.

    Before that the palette lists only actions.
    """

    async def search(self, query: str) -> Hits:
        deck = cast(Deck, self.app)
        jobs = list(deck.board.jobs.values())
        under_cursor = deck.front.job_keys if deck.front is not None else []
        search = JobSearch(query, user=deck.board.user, under_cursor=under_cursor)
        for first in range(0, len(jobs), SLICE):
            await asyncio.sleep(0)  # give way to newer keys: the user may already have typed another query
            search.look(jobs[first : first + SLICE])
        for things in (
            search.best(),
            find_past_job(query, deck.board.jobs),
            find_nodes(deck.board.nodes.values(), query),
            find_users(jobs, query),
            _themes(deck, query),
            find_text(query, columns=SORTED_BY),
        ):
            for thing in things:
                if not (deck.readonly and is_change(thing)):
                    reason = refusal(deck, thing)
                    shown = Content.styled(thing.title, GREYED_OUT) if reason else Content(thing.title)
                    words = reason or thing.words
                    yield Hit(thing.score, shown, partial(go, deck, thing), text=thing.title, help=words)
            await asyncio.sleep(0)


def _themes(deck: Deck, query: str) -> list[Thing]:
    """Return the themes that the query names. The theme files are read only for a query with such a verb."""
    if not is_about_themes(query):
        return []
    return find_themes([(each.name, each.dark) for each in deck.looks.themes], query, now=deck.looks.now)


ACTIONS = {
    "rerun": ("queue", "again"),
    "copy": ("queue", "new_like"),
    "drain": ("nodes", "drain"),
    "resume": ("nodes", "drain"),
}
"""Maps verbs of the palette to the actions of screens with the same effect. Others have the name of their action."""


def is_change(thing: Thing) -> bool:
    """Return whether the verb changes something, so that --readonly does not offer it."""
    return ACTIONS.get(thing.kind, ("queue", thing.kind)) in CHANGING


def refusal(deck: Deck, thing: Thing) -> str:
    """Return why the scheduler cannot do what was found, or "" if it can."""
    where, action = ACTIONS.get(thing.kind, ("queue", thing.kind))
    return deck.board.scheduler.refusal(where, action, "resume" if thing.kind == "resume" else "")


def _shown(title: Content | str, command: Command) -> Content | str:
    """Return the title, greyed out if the scheduler cannot do the action."""
    if not command.reason:
        return title
    return (Content(title) if isinstance(title, str) else title).stylize(GREYED_OUT)


def go(deck: Deck, thing: Thing) -> None:
    """Open the page of the found object, or run the verb that was found. The verb asks as its key does."""
    if reason := refusal(deck, thing):
        deck.notify(reason, severity="warning", markup=False)
    elif thing.kind in PANES:
        deck.navigation.open_job(thing.key, pane=PANES[thing.kind])
    else:
        _RUN.get(thing.kind, _ask)(deck, thing)


def _ask(deck: Deck, thing: Thing) -> None:
    deck.verbs.ask(thing.kind, [thing.key])


def _use_theme(deck: Deck, thing: Thing) -> None:
    """Apply the theme and store it, as the theme picker does."""
    deck.looks.use(thing.key)
    try:
        deck.looks.keep(thing.key)
    except UserError as error:
        deck.tell_error(error)


def _open_map(deck: Deck, thing: Thing) -> None:
    try:
        deck.navigation.open_map_at(parse_past(thing.key, time.time()))
    except UserError as error:
        deck.tell_error(error)


_RUN: dict[str, Callable[[Deck, Thing], object]] = {
    "job": lambda deck, thing: deck.navigation.open_job(thing.key),
    "node": lambda deck, thing: deck.navigation.open_node(thing.key),
    "user": lambda deck, thing: deck.navigation.open_user(thing.key),
    "attach": lambda deck, thing: deck.verbs.attach(thing.key),
    "limit": lambda deck, thing: deck.verbs.ask_limit([thing.key]),
    "priority": lambda deck, thing: deck.verbs.ask_priority([thing.key]),
    "rerun": lambda deck, thing: deck.run_worker(deck.verbs.rerun(thing.key), group="rerun", exclusive=True),
    "copy": lambda deck, thing: deck.forms.open_like(thing.key),
    "drain": lambda deck, thing: deck.ask_drain(thing.key),
    "resume": lambda deck, thing: deck.ask_drain(thing.key),
    "theme": _use_theme,
    "filter": lambda deck, thing: deck.navigation.filter_queue(thing.key),
    "sort": lambda deck, thing: deck.navigation.sort_queue(thing.key),
    "at": _open_map,
}
"""Maps the kind of a result to the function that runs it. The other verbs on jobs ask for a confirmation."""
