"""Completion candidates for a command line up to the cursor. Pure.

The grammar of a verb is made from its row, and that of a Slurm command from its table of options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from warpdeck.cli.arguments import (
    ACCOUNTS,
    JOBS,
    NODES,
    PARTITIONS,
    QOS,
    RESERVATIONS,
    REST,
    STATES,
    USERS,
    Argument,
)

_OF_OPTION = {
    "job_id": JOBS, "jobs": JOBS, "job": JOBS, "jobid": JOBS, "dependency": JOBS,
    "partition": PARTITIONS, "nodelist": NODES, "exclude": NODES, "node": NODES, "hosts": NODES,
    "user": USERS, "users": USERS, "uid": USERS, "account": ACCOUNTS, "accounts": ACCOUNTS,
    "qos": QOS, "reservation": RESERVATIONS, "state": STATES, "states": STATES,
}  # fmt: skip
"""Maps an option of a Slurm command to the kind of its value."""
_SAFE = re.compile(r"[\w.,:@%+/=-]+")
"""Names that need no quotes in any shell. Other names are not offered."""
_LINE = re.compile(r" {2,8}(-.*?)(?: {2,}(.*))?")
_NAME = re.compile(r"--?[A-Za-z][\w-]*")
HELP = "show this help message and exit"


class Candidate(NamedTuple):
    """A candidate and a short description of it."""

    word: str
    about: str = ""


class ValueChoices(NamedTuple):
    """The value of an option or of a positional argument: a kind of live names, a list of words, or anything,
    such as a file.
    """

    kind: str = ""
    words: tuple[Candidate, ...] = ()


class Grammar(NamedTuple):
    """A command's options and positional arguments. An option without a value maps to None."""

    options: Mapping[str, ValueChoices | None]
    """Option names include their hyphens."""
    about: Mapping[str, str]
    places: Sequence[ValueChoices] = ()
    """The positional arguments, in order."""
    repeats: bool = False
    """True if the last positional argument may be repeated."""


Live = Callable[[str], list[Candidate]]
"""Returns the current names of a kind."""


def value_of_option(name: str) -> ValueChoices:
    """Return the value of a Slurm command's option with that name."""
    return ValueChoices(kind=_OF_OPTION.get(name, ""))


def grammar_of(arguments: Iterable[Argument], subverbs: Iterable[Candidate] = ()) -> Grammar:
    """Return the grammar of a verb with these arguments or sub-verbs."""
    options: dict[str, ValueChoices | None] = {"-h": None, "--help": None}
    about = dict.fromkeys(options, HELP)
    words = tuple(subverbs)
    places = [ValueChoices(words=words)] if words else []
    repeats = False
    for each in arguments:
        value = ValueChoices(each.completes, tuple(Candidate(word) for word in each.choices))
        names = [name for name in each.names if name != REST]
        if each.is_option:
            options |= dict.fromkeys(names, None if each.is_flag else value)
            about |= dict.fromkeys(names, each.help.partition("\n")[0])
        else:
            places.append(value)
            repeats = each.nargs in ("*", "+")
    return Grammar(options, about, places, repeats)


def descriptions(text: str) -> dict[str, str]:
    """Return the descriptions of options in a help that is a text."""
    found: dict[str, str] = {}
    lines = text.splitlines()
    examples = next((at for at, line in enumerate(lines) if line.startswith("examples")), len(lines))
    for line in lines[:examples]:
        if match := _LINE.fullmatch(line):
            words = match[2] or ""
            # If the line lists several options, the next one follows in place of a description.
            found |= dict.fromkeys(_NAME.findall(match[1]), "" if words.startswith("-") else words)
    return found


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


def _walk(before: Sequence[str], grammar: Grammar) -> tuple[bool, ValueChoices | None, int]:
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


def _values(current: str, value: ValueChoices, live: Live) -> list[Candidate]:
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
