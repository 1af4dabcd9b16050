"""Search in the palette for jobs, nodes, users and themes by a few letters, and for verbs with such an object.

    1234        the job           llm     jobs whose name contains these letters, in this order
    gpu07       the node          bob     the user's jobs
    hold 1234   the verb with the objects that match the rest (see `palette_verbs`)
    hold        the action of the screen, and the jobs that can be held
    node 7      only nodes; likewise `job` and `user`
    q           the action with this key, as in vim and k9s
    submit      actions whose help contains a word that begins like this

Matches are ranked in this order: the whole id, the beginning, a part, letters in order. Among equal matches,
the latest job comes first. Text without the query's letters costs only one comparison, so that a long queue
can be searched while the user types.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from typing import NamedTuple

from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck_tui.viewmodels.cells import glyph, plural
from warpdeck_tui.viewmodels.jobs.verbs import JOB_VERBS, refusal
from warpdeck_tui.viewmodels.jobs.waiting import short_reason
from warpdeck_tui.widgets.cells import printable

from .palette_verbs import ACTION_SYNONYMS, BY_NAME, JOB, NODE, TEXT, THEME, VIEWS, verb_of

MOST_FOUND = 12
"""Largest number of results of each kind. Users who see more type another letter."""
MAX_QUERY_CHARACTERS = 60
"""Largest length of a query. Longer text was pasted by mistake and is not compared with a whole queue."""
WHOLE, KEY, BEGINS, SYNONYM, PART, BARE, LETTERS, HELP = 1000.0, 900.0, 30.0, 25.0, 8.0, 5.0, 1.0, 0.5
"""Scores of matches. Textual's own scores of actions are between LETTERS and BEGINS. BARE is the score of an object of a
verb that was typed alone.
"""
MINE, UNDER_CURSOR = 0.2, 0.4
"""Added to the score BARE of the user's own jobs, and of the jobs that an action of the screen applies to."""
MIN_HELP_CHARACTERS = 3
MAX_ID_DIGITS = 12
DRAINED = ("drained", "draining")
KINDS = {"job": "job", "jobs": "job", "node": "node", "nodes": "node", "user": "user", "users": "user"}
"""Words before a query that restrict it to one kind."""


class Thing(NamedTuple):
    """A search result. `kind` is job, node, user, or the name of a verb; `key` is the object's id, name or text."""

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


def score_of_action(query: str, *, keys: str, words: str, title_score: float, synonyms: str = "") -> float:
    """Return the score of an action.

    It depends on the key, else on Textual's score of the title, else on a synonym, else on the beginning of a word in
    the help text or of a synonym.
    """
    text = query.strip()
    if text and text in keys.split():
        return KEY
    if title_score:
        return title_score
    low = text.lower()
    if low and low in synonyms.split():
        return SYNONYM
    said = len(text) >= MIN_HELP_CHARACTERS and f" {low}" in f" {words.lower()} {synonyms}"
    return HELP if said else 0.0


def synonyms_of(where: str, action: str) -> str:
    """Return further words by which an action is found."""
    return ACTION_SYNONYMS.get((where, action), "")


def _of_kind(query: str, kind: str) -> str:
    """Return the query without the word that names this kind, or "" if it names another kind."""
    first, _, rest = query.strip().partition(" ")
    named = KINDS.get(first.lower()) if rest.strip() else None
    if named is None:
        return query
    return rest.strip() if named == kind else ""


def applies(verb: str, row: JobRow, *, is_bare: bool) -> bool:
    """Return whether a verb of the palette applies to a job. `is_bare` means that the user named no job."""
    if verb in JOB_VERBS:
        return not refusal(verb, row)
    if not is_bare:
        return True
    waits = row.state == "PENDING"
    return waits if verb == "why" else not waits if verb in ("log", "metrics") else True


class JobSearch:
    """Searches the queue in parts for the jobs that match best.

    If the query names a verb, only jobs to which it applies are found. `user` and `under_cursor` (the ids of jobs) decide
    which of them come first if the query names no job.
    """

    def __init__(self, query: str, *, user: str = "", under_cursor: Collection[str] = ()) -> None:
        self._verb, rest = verb_of(query)
        kind = BY_NAME[self._verb].kind if self._verb else JOB
        self._is_bare = bool(self._verb) and not rest
        self._search = ObjectSearch(_of_kind(rest, "job") if kind == JOB else "")
        self._is_off = kind != JOB or (self._search.is_empty and not self._is_bare)
        self._user = user
        self._under_cursor = frozenset(under_cursor)
        self._by_name: dict[str, float] = {}
        self._best: list[tuple[float, int, JobRow]] = []

    def look(self, jobs: Iterable[JobRow]) -> None:
        """Search more jobs, and keep the best of all jobs that were searched so far."""
        if self._is_off:
            return
        fitting = (
            (score, row.id, row)
            for row in jobs
            if (score := self._score(row))
            and (not self._verb or applies(self._verb, row, is_bare=self._is_bare))
        )
        self._best = heapq.nlargest(MOST_FOUND, (*self._best, *fitting), key=lambda each: each[:2])

    def _score(self, row: JobRow) -> float:
        """Return the score of a job. Scores of names are cached, because there are few names.

        Ids are compared only with queries without letters.
        """
        if self._is_bare:
            near = UNDER_CURSOR if str(row.id) in self._under_cursor else 0.0
            return BARE + near + (MINE if row.user == self._user else 0.0)
        of_name = self._by_name.get(row.name)
        if of_name is None:
            of_name = self._by_name[row.name] = self._search.score(row.name)
        return max(of_name, self._search.score(row.label)) if self._search.may_be_number else of_name

    def best(self) -> list[Thing]:
        return [_job(score, row, self._verb) for score, _, row in self._best]


def _job(score: float, row: JobRow, verb: str) -> Thing:
    what = f"{glyph(row.state)} {row.state_short}  {printable(row.name)}  {printable(row.user)}"
    if verb == "why" and row.why is not None:
        what += f"  {short_reason(row.why)}"
    if verb:
        return Thing(score, verb, str(row.id), BY_NAME[verb].title.format(row.label), what)
    return Thing(score, "job", str(row.id), f"Job {row.label}", what)


def find_past_job(query: str, in_queue: Collection[int]) -> list[Thing]:
    """Return the job with the number in the query, for a verb that also applies to a job that has left the queue."""
    verb, rest = verb_of(query)
    if not verb:
        first, _, rest = query.strip().partition(" ")
        verb = "job" if KINDS.get(first.lower()) == "job" else ""
    number = _of_kind(rest, "job").strip()
    if (
        verb not in (*VIEWS, "job")
        or not (number.isascii() and number.isdigit())
        or len(number) > MAX_ID_DIGITS
    ):
        return []
    if int(number) in in_queue:
        return []
    title = BY_NAME[verb].title.format(number) if verb != "job" else f"Job {number}"
    return [Thing(WHOLE, verb, number, title, "not in the queue; it may be among the ended jobs")]


def find_nodes(nodes: Iterable[NodeRow], query: str) -> list[Thing]:
    """Return the nodes that match best, or those to which the verb of the query applies."""
    verb, rest = verb_of(query)
    if verb and BY_NAME[verb].kind != NODE:
        return []
    is_bare = bool(verb) and not rest
    search = ObjectSearch(_of_kind(rest, "node"))
    if search.is_empty and not is_bare:
        return []
    fitting = [
        (score, node)
        for node in nodes
        if (not verb or is_drained(node) == (verb == "resume"))
        and (score := BARE if is_bare else search.score(node.name))
    ]
    best = sorted(fitting, key=lambda each: (-each[0], each[1].name))[:MOST_FOUND]
    return [
        Thing(
            score,
            verb or "node",
            node.name,
            BY_NAME[verb].title.format(node.name) if verb else f"Node {node.name}",
            f"{node.state}  {plural(len(node.gpus), 'GPU')}"
            + (f"  {printable(node.reason)}" if node.reason else ""),
        )
        for score, node in best
    ]


def is_drained(node: NodeRow) -> bool:
    """Return whether the node accepts no jobs because somebody drained it."""
    return node.state in DRAINED


def is_about_themes(query: str) -> bool:
    """Return whether the query begins with a verb for themes."""
    verb, _ = verb_of(query)
    return bool(verb) and BY_NAME[verb].kind == THEME


def find_themes(themes: Iterable[tuple[str, bool]], query: str, *, now: str) -> list[Thing]:
    """Return the themes that the query names. `themes` are their names, and whether they are dark."""
    verb, rest = verb_of(query)
    if not verb or BY_NAME[verb].kind != THEME:
        return []
    search = ObjectSearch(rest)
    wanted = {"dark": True, "light": False}.get(verb)
    found = [
        (BARE if search.is_empty else search.score(name), name, dark)
        for name, dark in themes
        if wanted is None or dark == wanted
    ]
    best = sorted((each for each in found if each[0]), key=lambda each: -each[0])
    return [
        Thing(
            score,
            "theme",
            name,
            f"Theme {name}",
            ("dark" if dark else "light") + (", in use" if name == now else ""),
        )
        for score, name, dark in best
    ]


def find_text(query: str, *, columns: Collection[str] = ()) -> list[Thing]:
    """Return the verb of the query whose object is a text: a filter, a column to sort by (one of `columns`), or a time."""
    verb, rest = verb_of(query)
    if not verb or BY_NAME[verb].kind != TEXT:
        return []
    title = BY_NAME[verb].title
    if verb == "sort":
        search = ObjectSearch(rest)
        scores = {name: BARE if search.is_empty else search.score(name) for name in columns}
        found = sorted((name for name in columns if scores[name]), key=lambda name: -scores[name])
        return [Thing(scores[name], verb, name, title.format(name), "the queue") for name in found]
    hints = {"filter": "only the jobs that match", "at": "the nodes at that time"}
    return [Thing(WHOLE, verb, rest, title.format(printable(rest)), hints[verb])] if rest else []


def find_users(jobs: Iterable[JobRow], query: str) -> list[Thing]:
    """Return the users with jobs that match best."""
    search = ObjectSearch("" if verb_of(query)[0] else _of_kind(query, "user"))
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
