"""Search in the palette for jobs, nodes and users by a few letters, and for actions on jobs.

    1234        the job           llm     jobs whose name contains these letters, in this order
    gpu07       the node          bob     the user's jobs
    hold 1234   the action on the jobs that match the rest; a prefix is enough (`can llm`)
    node 7      only nodes; likewise `job` and `user`
    q           the action with this key, as in vim and k9s
    submit      actions whose help contains a word that begins like this

Matches are ranked in this order: the whole id, the beginning, a part, letters in order. Among equal matches,
the latest job comes first. Text without the query's letters costs only one comparison, so that a long queue
can be searched while the user types.
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
"""Largest number of results of each kind. Users who see more type another letter."""
MAX_QUERY_CHARACTERS = 60
"""Largest length of a query. Longer text was pasted by mistake and is not compared with a whole queue."""
WHOLE, KEY, BEGINS, PART, LETTERS, HELP = 1000.0, 900.0, 30.0, 8.0, 1.0, 0.5
"""Scores of matches. Textual's own scores of actions are between LETTERS and BEGINS."""
MIN_HELP_CHARACTERS = 3
KINDS = {"job": "job", "jobs": "job", "node": "node", "nodes": "node", "user": "user", "users": "user"}
"""Words before a query that restrict it to one kind."""


class Thing(NamedTuple):
    """A search result. `kind` is job, node, user, or an action on a job; `key` is the id or the name."""

    score: float
    kind: str
    key: str
    title: str
    words: str


class ObjectSearch:
    """A query that is compared with names."""

    def __init__(self, query: str) -> None:
        self._words = query[:MAX_QUERY_CHARACTERS].lower().strip()
        self._letters = self._words.replace(" ", "")
        self.may_be_number = not any(letter.isalpha() for letter in self._letters)
        """Whether the query can be a job id. Ids of jobs and array tasks contain no letters."""

    @property
    def is_empty(self) -> bool:
        return not self._words

    def score(self, text: str) -> float:
        """Return the score of a text, or 0.0 if it does not match."""
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
    """Return the score of an action.

    It depends on the key, else on Textual's score of the title, else on the beginning of a word in the help
    text.
    """
    text = query.strip()
    if text and text in keys.split():
        return KEY
    if title_score:
        return title_score
    said = len(text) >= MIN_HELP_CHARACTERS and f" {text.lower()}" in f" {words.lower()}"
    return HELP if said else 0.0


def _of_kind(query: str, kind: str) -> str:
    """Return the query without the word that names this kind, or "" if it names another kind."""
    first, _, rest = query.strip().partition(" ")
    named = KINDS.get(first.lower()) if rest.strip() else None
    if named is None:
        return query
    return rest.strip() if named == kind else ""


def verb_of(query: str) -> tuple[str, str]:
    """Return (action, rest) of a query such as "hold 12" or "can llm".

    Returns ("", query) if it begins with no action.
    """
    first, _, rest = query.strip().partition(" ")
    verbs = [verb for verb in JOB_VERBS if verb.startswith(first.lower())] if len(first) > 1 else []
    return (verbs[0], rest.strip()) if rest.strip() and len(verbs) == 1 else ("", query)


class JobSearch:
    """Searches the queue in parts for the jobs that match best.

    If the query names an action, only jobs to which it applies are found.
    """

    def __init__(self, query: str) -> None:
        self._verb, rest = verb_of(query)
        self._search = ObjectSearch(_of_kind(rest, "job"))
        self._by_name: dict[str, float] = {}
        self._best: list[tuple[float, int, JobRow]] = []

    def look(self, jobs: Iterable[JobRow]) -> None:
        """Search more jobs, and keep the best of all jobs that were searched so far."""
        if self._search.is_empty:
            return
        fitting = (
            (score, row.id, row)
            for row in jobs
            if (score := self._score(row)) and (not self._verb or not refusal(self._verb, row))
        )
        self._best = heapq.nlargest(MOST_FOUND, (*self._best, *fitting), key=lambda each: each[:2])

    def _score(self, row: JobRow) -> float:
        """Return the score of a job. Scores of names are cached, because there are few names.

        Ids are compared only with queries without letters.
        """
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
    """Return the nodes that match best."""
    search = ObjectSearch(_of_kind(query, "node"))
    if search.is_empty:
        return []
    fitting = [(score, node) for node in nodes if (score := search.score(node.name))]
    best = sorted(fitting, key=lambda each: (-each[0], each[1].name))[:MOST_FOUND]
    return [
        Thing(score, "node", node.name, f"Node {node.name}", f"{node.state}  {plural(len(node.gpus), 'GPU')}")
        for score, node in best
    ]


def find_users(jobs: Iterable[JobRow], query: str) -> list[Thing]:
    """Return the users with jobs that match best."""
    search = ObjectSearch(_of_kind(query, "user"))
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
