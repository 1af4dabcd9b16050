"""What could stand where the cursor is: the words of a command line up to there -> candidates. Pure.

A command's grammar is read from what it tells of itself: its --help, and for Slurm's commands their tables of options. What an
option takes follows from its name, or from the word that the help has for its value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

JOBS, NODES, PARTITIONS, USERS = "jobs", "nodes", "partitions", "users"
ACCOUNTS, QOS, RESERVATIONS, STATES = "accounts", "qos", "reservations", "states"

_OF_VALUE = {
    "JOB": JOBS, "JOB2": JOBS, "NODE": NODES, "USER": USERS, "STATE": STATES, "job_id": JOBS,
    "jobs": JOBS, "job": JOBS, "jobid": JOBS, "dependency": JOBS,
    "partition": PARTITIONS, "nodelist": NODES, "exclude": NODES, "node": NODES, "hosts": NODES,
    "user": USERS, "users": USERS, "uid": USERS, "account": ACCOUNTS, "accounts": ACCOUNTS,
    "qos": QOS, "reservation": RESERVATIONS, "state": STATES, "states": STATES,
}  # fmt: skip
"""Name of an option, or the help's word for a value -> what it is."""
_SAFE = re.compile(r"[\w.,:@%+/=-]+")
"""What needs no quotes in any shell; other names are not offered."""
_OPTION = re.compile(r" {2,8}(-.*?)(?: {2,}(.*))?")
_NAME = re.compile(r"(--?[A-Za-z][\w-]*)(\[?[= ]?(?:\{[^}]*\}|[A-Z][^\s]*|\"[^\"]*\"))?")
_POSITIONAL = re.compile(r"  ([A-Za-z{]\S*)(?: {2,}(.*))?")
_SUBVERB = re.compile(r"    ([a-z][\w-]*)(?: {2,}(.*))?")


class Candidate(NamedTuple):
    """A word, and what to say of it."""

    word: str
    about: str = ""


class Value(NamedTuple):
    """What an option or a place takes: a kind of live names, or one of these words, or neither: anything, as a file's name."""

    kind: str = ""
    words: tuple[Candidate, ...] = ()


class Grammar(NamedTuple):
    """A command's words. Of an option that takes nothing the value is None."""

    options: Mapping[str, Value | None]
    """With their hyphens."""
    about: Mapping[str, str]
    places: Sequence[Value] = ()
    """What its words are that are no options, in order."""
    repeats: bool = False
    """The last of them may come again and again."""


Live = Callable[[str], list[Candidate]]
"""Kind -> the names that there are now."""


def value_named(name: str) -> Value:
    """What an option of that name takes, or a value that the help calls so."""
    bare = name.strip("[]<>").rstrip(",.")
    if bare.startswith("{"):
        return Value(words=tuple(Candidate(word) for word in bare.strip("{}").split(",")))
    return Value(kind=_OF_VALUE.get(bare.lstrip("-"), ""))


def grammar_of_help(text: str) -> Grammar:
    """What a verb's --help tells."""
    options: dict[str, Value | None] = {}
    about: dict[str, str] = {}
    places: list[Value] = []
    subverbs: list[Candidate] = []
    lines = text.splitlines()
    examples = next((at for at, line in enumerate(lines) if line.startswith("examples")), len(lines))
    in_places = False
    for line in lines[:examples]:
        in_places = line == "positional arguments:" or (in_places and bool(line))
        if found := _OPTION.fullmatch(line):
            _add_options(options, about, found[1], found[2] or "")
        elif in_places and (found := _SUBVERB.fullmatch(line)):
            subverbs.append(Candidate(found[1], found[2] or ""))
        elif in_places and (found := _POSITIONAL.fullmatch(line)):
            places.append(value_named(found[1]))
    if not places:
        places = _by_hand(lines[0] if lines else "", options)
    if subverbs:
        places = [Value(words=tuple(subverbs))]
    return Grammar(options, about, places, repeats=" ...]" in text)


def _by_hand(usage: str, options: dict[str, Value | None]) -> list[Value]:
    """The places of a help without a list of them, by its first line, which may also name options."""
    places = []
    for word in usage.split()[3:]:
        bare = word.strip("[]")
        if bare.startswith("--"):
            options.setdefault(bare, None)
        elif bare != "OPTIONS":
            places.append(value_named(bare))
    return places


def _add_options(options: dict[str, Value | None], about: dict[str, str], head: str, words: str) -> None:
    """Those of one line: all names take what one of them is said to take."""
    named = _NAME.findall(head.replace(" | ", ", "))
    taken = next((value for _, value in named if value), "")
    for name, _ in named:
        value = value_named(name)
        options[name] = (value if value.kind else value_named(taken.lstrip("[= "))) if taken else None
        about[name] = "" if words.startswith("-") else words  # then it is the next option of the same line


def candidates(words: Sequence[str], grammar: Grammar, live: Live) -> list[Candidate]:
    """For the last of `words`, which come behind the command's name. [] where it may be anything, as a file."""
    *before, current = words
    options_end, asked, place = _walk(before, grammar)
    if asked is not None:
        return _values(current, asked, live)
    if not options_end and current.startswith("-"):
        return _options(current, grammar, live)
    if not grammar.places or (place >= len(grammar.places) and not grammar.repeats):
        return []
    return _values(current, grammar.places[min(place, len(grammar.places) - 1)], live)


def _walk(before: Sequence[str], grammar: Grammar) -> tuple[bool, Value | None, int]:
    """(whether options have ended, what the option takes whose value comes next, places that are filled)"""
    ended, asked, place = False, None, 0
    for word in before:
        if asked is not None:
            asked = None
        elif word == "--" and not ended:
            ended = True
        elif not ended and len(word) > 1 and word.startswith("-"):
            asked = grammar.options.get(word)
        else:
            place += 1
    return ended, asked, place


def _options(current: str, grammar: Grammar, live: Live) -> list[Candidate]:
    """The options that begin so; behind `--name=` or `-p` their values."""
    name, equals, value = current.partition("=")
    if not current.startswith("--") and current[:2] in grammar.options and len(current) > 2:
        name, equals, value = current[:2], "", current[2:]
    elif not equals:
        found = [name for name in grammar.options if name.startswith(current)]
        return [Candidate(name, grammar.about.get(name, "")) for name in sorted(found)]
    taken = grammar.options.get(name)
    return (
        []
        if taken is None
        else [Candidate(name + equals + word, about) for word, about in _values(value, taken, live)]
    )


def _values(current: str, value: Value, live: Live) -> list[Candidate]:
    """The names that begin as the last one of a list does."""
    if value.words:
        return [each for each in value.words if each.word.startswith(current)]
    if not value.kind:
        return []
    cut = max(current.rfind(","), current.rfind(":")) + 1
    head, tail = current[:cut], current[cut:]
    taken = set(head.replace(":", ",").split(","))
    return [
        Candidate(head + word, about)
        for word, about in live(value.kind)
        if word.startswith(tail) and word not in taken and _SAFE.fullmatch(word)
    ]
