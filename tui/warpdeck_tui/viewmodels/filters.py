"""The filter of the queue: words, fields and comparisons, all of which must hold.

    llama            in the id, name, user, state or nodes
    user:ann st:PD   in that field (id, name, user, state, node, part, account, reason); user:me is whoever asks;
                     name~llm is the same
    gpu>4 gpu=0      a number compared (gpu, cpu, nodes)
    !vit  !user:bob  must not hold

What is half typed never fails: `gpu>` narrows nothing yet.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from warpdeck.api.rows import JobRow

from .queue import how_ended

Test = Callable[[JobRow], bool]

_TEXT: dict[str, Callable[[JobRow], str]] = {
    "id": lambda row: row.label,
    "name": lambda row: row.name,
    "user": lambda row: row.user,
    "state": lambda row: f"{row.state} {row.state_short}",
    "node": lambda row: row.node_list,
    "part": lambda row: row.partition,
    "account": lambda row: row.account,
    "reason": lambda row: how_ended(row) if row.end is not None else "",
}
_SHORT = {
    "st": "state",
    "s": "state",
    "u": "user",
    "n": "name",
    "partition": "part",
    "nodes": "node",
    "job": "id",
}
_NUMBERS: dict[str, Callable[[JobRow], int]] = {
    "gpu": lambda row: row.gpus,
    "cpu": lambda row: row.cpus,
    "nodes": lambda row: row.nodes,
}
_COMPARED = re.compile(r"(gpu|cpu|nodes)s?(>=|<=|>|<|=)(\d*)")
_NAMED = re.compile(r"([a-z]+)[:~](.*)")
_OPERATORS: dict[str, Callable[[int, int], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}


def parse_filter(text: str, *, me: str = "") -> Test:
    """One test that all of the text's words make. `me`: who `user:me` is."""
    tests = [_word(word, me) for word in text.lower().split()]
    return lambda row: all(test(row) for test in tests)


def plain_words(text: str) -> str:
    """The words that are looked for as they stand: what a table may point out."""
    return " ".join(
        word
        for word in text.split()
        if not any(sign in word for sign in ":!~") and not _COMPARED.fullmatch(word)
    )


def _word(word: str, me: str) -> Test:
    if word.startswith("!"):
        if word == "!":
            return _anything
        inner = _word(word[1:], me)
        return lambda row: not inner(row)
    compared = _COMPARED.fullmatch(word)
    if compared:
        return _number(*compared.groups())
    named = _NAMED.fullmatch(word)
    field = _SHORT.get(named[1], named[1]) if named else ""
    if named and field in _TEXT:
        wanted = named[2]
        if field == "user" and wanted == "me" and me:
            return lambda row: row.user == me
        return _exact(field, wanted)
    return lambda row: word in _hay(row)


def _exact(field: str, wanted: str) -> Test:
    read = _TEXT[field]
    if field == "state":  # "r" is Slurm's short code, not a letter to look for
        return lambda row: (
            not wanted or wanted == row.state_short.lower() or row.state.lower().startswith(wanted)
        )
    return lambda row: wanted in read(row).lower()


def _number(field: str, sign: str, digits: str) -> Test:
    if not digits:
        return _anything
    read, compare, wanted = _NUMBERS[field], _OPERATORS[sign], int(digits)
    return lambda row: compare(read(row), wanted)


def _hay(row: JobRow) -> str:
    return f"{row.label} {row.name} {row.user} {row.state} {row.state_short} {row.node_list}".lower()


def _anything(_: JobRow) -> bool:
    return True
