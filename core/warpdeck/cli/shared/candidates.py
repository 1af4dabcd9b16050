"""Completion candidates for a command line up to the cursor. Pure.

A command's grammar is read from its --help, and for Slurm's commands from their tables of options. The kind
of an option's value follows from the option's name, or from the name that the help gives the value.
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
"""Maps the name of an option, or the help's name of a value, to the kind of the value."""
_SAFE = re.compile(r"[\w.,:@%+/=-]+")
"""Names that need no quotes in any shell. Other names are not offered."""
_OPTION = re.compile(r" {2,8}(-.*?)(?: {2,}(.*))?")
_NAME = re.compile(r"(--?[A-Za-z][\w-]*)(\[?[= ]?(?:\{[^}]*\}|[A-Z][^\s]*|\"[^\"]*\"))?")
_POSITIONAL = re.compile(r"  ([A-Za-z{]\S*)(?: {2,}(.*))?")
_SUBVERB = re.compile(r"    ([a-z][\w-]*)(?: {2,}(.*))?")


class Candidate(NamedTuple):
    """A candidate and a short description of it."""

    word: str
    about: str = ""


class Value(NamedTuple):
    """The value of an option or of a positional argument: a kind of live names, a list of words, or anything,
    such as a file.
    """

    kind: str = ""
    words: tuple[Candidate, ...] = ()


class Grammar(NamedTuple):
    """A command's options and positional arguments. An option without a value maps to None."""

    options: Mapping[str, Value | None]
    """Option names include their hyphens."""
    about: Mapping[str, str]
    places: Sequence[Value] = ()
    """The positional arguments, in order."""
    repeats: bool = False
    """True if the last positional argument may be repeated."""


Live = Callable[[str], list[Candidate]]
"""Returns the current names of a kind."""


def value_named(name: str) -> Value:
    """Return the value of an option with that name, or of a value with that name in the help."""
    bare = name.strip("[]<>").rstrip(",.")
    if bare.startswith("{"):
        return Value(words=tuple(Candidate(word) for word in bare.strip("{}").split(",")))
    return Value(kind=_OF_VALUE.get(bare.lstrip("-"), ""))


def grammar_of_help(text: str) -> Grammar:
    """Read a grammar from a verb's --help."""
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
    """Return the positional arguments from the first line of a help that does not list them. Also adds
    options in that line.
    """
    places = []
    for word in usage.split()[3:]:
        bare = word.strip("[]")
        if bare.startswith("--"):
            options.setdefault(bare, None)
        elif bare != "OPTIONS":
            places.append(value_named(bare))
    return places


def _add_options(options: dict[str, Value | None], about: dict[str, str], head: str, words: str) -> None:
    """Add the options of one line of the help. All names of an option take the same value."""
    named = _NAME.findall(head.replace(" | ", ", "))
    taken = next((value for _, value in named if value), "")
    for name, _ in named:
        value = value_named(name)
        options[name] = (value if value.kind else value_named(taken.lstrip("[= "))) if taken else None
        # in this case it is the next option of the same line
        about[name] = "" if words.startswith("-") else words


def candidates(words: Sequence[str], grammar: Grammar, live: Live) -> list[Candidate]:
    """Return the candidates for the last of `words`, which follow the command's name.

    The list is empty where anything may stand, such as a file.
    """
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
    """Return whether options have ended, the value that the last option still needs, and the number of
    positional arguments.
    """
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
    """Return the options with this prefix. After `--name=` or `-p`, return their values."""
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
    """Return the names that match the last item of a comma-separated list."""
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
