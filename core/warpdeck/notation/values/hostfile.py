"""Parses a file of node names: one per line or several with commas, NAME*COUNT for several tasks, # for
comments.
"""

from __future__ import annotations

from .refusal import Refusal

MAX_LINES = 100_000


def names_in(text: str, name: str) -> list[str]:
    """Return all names in order, repeated as often as they are listed. Raises Refusal, which names the
    file.
    """
    names: list[str] = []
    for number, line in enumerate(text.splitlines()[:MAX_LINES], start=1):
        words = line.partition("#")[0]
        if not words:
            continue
        if not words[0].isalnum():
            raise Refusal(f"Invalid hostfile {name} contents on line {number}", "write a name on each line")
        for word in filter(None, words.split(",")):
            host, _, times = word.strip().partition("*")
            names += [host] * (int(times) if times.isdecimal() and len(times) < 6 else 1)
    return names
