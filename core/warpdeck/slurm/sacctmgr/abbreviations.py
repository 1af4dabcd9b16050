"""Words of sacctmgr that may be shortened, each to so many letters, and what they mean. The first that fits is meant. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Name(NamedTuple):
    """A word, the letters of it that must be written, and what it stands for."""

    word: str
    least: int
    meaning: str


def names(text: str) -> tuple[Name, ...]:
    """Of a list "Accounts:2 Acct:4=Accounts": what stands for itself needs no =."""
    found = []
    for item in text.split():
        spelled, _, meaning = item.partition("=")
        word, _, least = spelled.partition(":")
        found.append(Name(word.lower(), int(least), (meaning or word).replace("_", " ")))
    return tuple(found)


def meant(word: str, known: Iterable[Name]) -> str:
    """What a word stands for, in any case; "" for nothing."""
    lowered = word.lower()
    return next(
        (each.meaning for each in known if len(lowered) >= each.least and each.word.startswith(lowered)), ""
    )
