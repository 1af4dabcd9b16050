"""Parser for abbreviated keywords of sacctmgr and sreport, each with a minimum length.

The first match counts. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Name(NamedTuple):
    """A keyword, the minimum number of its letters, and its meaning."""

    word: str
    least: int
    meaning: str


def names(text: str) -> tuple[Name, ...]:
    """Parse a list like "Accounts:2 Acct:4=Accounts"; a keyword without = stands for itself."""
    found = []
    for item in text.split():
        spelled, _, meaning = item.partition("=")
        word, _, least = spelled.partition(":")
        found.append(Name(word.lower(), int(least), (meaning or word).replace("_", " ")))
    return tuple(found)


def meant(word: str, known: Iterable[Name]) -> str:
    """Return the meaning of a word in any case, or "" if it matches no keyword."""
    lowered = word.lower()
    return next(
        (each.meaning for each in known if len(lowered) >= each.least and each.word.startswith(lowered)), ""
    )
