"""What the palette finds beside actions: jobs, nodes and users, by a few letters of their names, and verbs on jobs.

    1234        the job           llm     jobs whose name has these letters, in this order
    gpu07       the node          bob     the user's jobs
    hold 1234   the verb, on what the rest finds; its first letters do (`can llm`)
    node 7      nodes alone; so do `job` and `user`
    q           the action with that key, as vim's and k9s' users type it; submit: what an action's help says

How well something fits: the whole id, then the beginning of a word, then a part, then letters in their order. Of equals the
latest job comes first. What has no letter of the query in its place costs one comparison, so that a long queue can be looked
through while somebody types.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck_tui.viewmodels.cells import glyph, plural
from warpdeck_tui.viewmodels.jobs.verbs import JOB_VERBS, refusal
from warpdeck_tui.widgets.cells import printable

MOST_FOUND = 12
"""Of each kind: who sees more types another letter."""
MAX_QUERY_CHARACTERS = 60
"""No name is looked for by more; what was pasted by mistake must not be compared with a whole queue."""
WHOLE, KEY, BEGINS, PART, LETTERS, HELP = 1000.0, 900.0, 30.0, 8.0, 1.0, 0.5
"""How well something fits. Textual's own scores of actions lie between LETTERS and BEGINS."""
MIN_HELP_CHARACTERS = 3
KINDS = {"job": "job", "jobs": "job", "node": "node", "nodes": "node", "user": "user", "users": "user"}
"""What stands before what is looked for, where only one kind is."""


class Thing(NamedTuple):
    """`kind`: job, node, user, or a verb on a job; `key`: its id or name."""

    score: float
    kind: str
    key: str
    title: str
    words: str


class Search:
    """A query, looked for in names."""

    def __init__(self, query: str) -> None:
        self._words = query[:MAX_QUERY_CHARACTERS].lower().strip()
        self._letters = self._words.replace(" ", "")
        self.may_be_number = not any(letter.isalpha() for letter in self._letters)
        """Job ids have no letters, those of array tasks neither."""

    @property
    def is_empty(self) -> bool:
        return not self._words

    def score(self, text: str) -> float:
        """0.0 if it does not fit."""
        low = text.lower()
        at = -1
        for letter in self._letters:
            at = low.find(letter, at + 1)
            if at < 0:
                return 0.0
        if low == self._words:
            return WHOLE
        if low.startswith(self._words):
            return BEGINS
        return PART if self._words in low else LETTERS


def score_of_action(query: str, *, keys: str, words: str, title_score: float) -> float:
    """How well an action fits: by its key, else by its title as Textual finds it, else by the beginning of a word of its help."""
    text = query.strip()
    if text and text in keys.split():
        return KEY
    if title_score:
        return title_score
    said = len(text) >= MIN_HELP_CHARACTERS and f" {text.lower()}" in f" {words.lower()}"
    return HELP if said else 0.0


def _of_kind(query: str, kind: str) -> str:
    """The query without the word that names the kind; "" if it names another."""
    first, _, rest = query.strip().partition(" ")
    named = KINDS.get(first.lower()) if rest.strip() else None
    if named is None:
        return query
    return rest.strip() if named == kind else ""


def verb_of(query: str) -> tuple[str, str]:
    """(verb, rest) of "hold 12" or "can llm"; ("", query) if it begins with no verb."""
    first, _, rest = query.strip().partition(" ")
    verbs = [verb for verb in JOB_VERBS if verb.startswith(first.lower())] if len(first) > 1 else []
    return (verbs[0], rest.strip()) if rest.strip() and len(verbs) == 1 else ("", query)


class JobSearch:
    """The jobs that fit best, or what the query's verb may do with them: looked for in one part of the queue after another."""

    def __init__(self, query: str) -> None:
        self._verb, rest = verb_of(query)
        self._search = Search(_of_kind(rest, "job"))
        self._by_name: dict[str, float] = {}
        self._best: list[tuple[float, int, JobRow]] = []

    def look(self, jobs: Iterable[JobRow]) -> None:
        """At these jobs, too."""
        if self._search.is_empty:
            return
        fitting = (
            (score, row.id, row)
            for row in jobs
            if (score := self._score(row)) and (not self._verb or not refusal(self._verb, row))
        )
        self._best = heapq.nlargest(MOST_FOUND, (*self._best, *fitting), key=lambda each: each[:2])

    def _score(self, row: JobRow) -> float:
        """Names are few, and numbers have no letters."""
        of_name = self._by_name.get(row.name)
        if of_name is None:
            of_name = self._by_name[row.name] = self._search.score(row.name)
        return max(of_name, self._search.score(row.label)) if self._search.may_be_number else of_name

    def best(self) -> list[Thing]:
        return [_job(score, row, self._verb) for score, _, row in self._best]


def _job(score: float, row: JobRow, verb: str) -> Thing:
    what = f"{glyph(row.state)} {row.state_short}  {printable(row.name)}  {printable(row.user)}"
    if verb:
        return Thing(score, verb, str(row.id), f"{verb.capitalize()} job {row.label}", what)
    return Thing(score, "job", str(row.id), f"Job {row.label}", what)


def find_nodes(nodes: Iterable[NodeRow], query: str) -> list[Thing]:
    """The nodes that fit best."""
    search = Search(_of_kind(query, "node"))
    if search.is_empty:
        return []
    fitting = [(score, node) for node in nodes if (score := search.score(node.name))]
    best = sorted(fitting, key=lambda each: (-each[0], each[1].name))[:MOST_FOUND]
    return [
        Thing(score, "node", node.name, f"Node {node.name}", f"{node.state}  {plural(len(node.gpus), 'GPU')}")
        for score, node in best
    ]


def find_users(jobs: Iterable[JobRow], query: str) -> list[Thing]:
    """The users with jobs that fit best."""
    search = Search(_of_kind(query, "user"))
    if search.is_empty:
        return []
    counts: dict[str, int] = {}
    for row in jobs:
        counts[row.user] = counts.get(row.user, 0) + 1
    fitting = [(score, user) for user in counts if (score := search.score(user))]
    best = sorted(fitting, key=lambda each: (-each[0], each[1]))[:MOST_FOUND]
    return [
        Thing(score, "user", user, f"User {printable(user)}", f"{plural(counts[user], 'job')} in the queue")
        for score, user in best
    ]
