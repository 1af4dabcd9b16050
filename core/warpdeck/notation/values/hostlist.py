"""Converts between hostlists ("gpu[01-03,07],login") and names, and parses files of names. Numbers keep their
width.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from warpdeck.base.errors import UserError

from .lists import split_list
from .slurm_error import SlurmError

MAX_HOSTS = 100_000
"""Maximum number of names that one expression may stand for."""
MAX_NAME_CHARS = 255
"""Maximum length of one name with all leading zeros, which is the longest name in DNS."""
MAX_DIGITS = 18
"""Maximum number of digits of a number in a range."""

MAX_FILE_LINES = 100_000
_RANGES = re.compile(r"\[([0-9,\-]+)\]")
_NUMBER = re.compile(rf"([0-9]{{1,{MAX_DIGITS}}})")


def expand(text: str) -> list[str]:
    """Return all names of a hostlist, in order. Raises UserError."""
    names: list[str] = []
    for part in split_list(text):
        made = _product(part, text)
        if len(names) + len(made) > MAX_HOSTS:
            raise UserError(f"the hostlist has more than {MAX_HOSTS:,} names", "shorten it")
        names.extend(made)
    return [name for name in names if name]


def _product(part: str, text: str) -> list[str]:
    """Return the names of one part. It may have several brackets: rack[1-2]n[01-16]."""
    words = _RANGES.split(part)
    made = [""]
    for index, word in enumerate(words):
        if index % 2 == 0 and ("[" in word or "]" in word):
            raise UserError(f"{text!r} is not a hostlist", "write names such as gpu[01-04,07],login")
        pieces = list(_numbers(word, text)) if index % 2 else [word]
        if len(made[-1]) + len(pieces[-1]) > MAX_NAME_CHARS:
            raise UserError(f"a name in the hostlist has more than {MAX_NAME_CHARS} characters", "shorten it")
        if len(made) * len(pieces) > MAX_HOSTS:
            raise UserError(f"the hostlist has more than {MAX_HOSTS:,} names", "shorten it")
        made = [before + piece for before in made for piece in pieces]
    return made


def _numbers(ranges: str, text: str) -> Iterable[str]:
    for piece in ranges.split(","):
        first, dash, last = piece.partition("-")
        if len(first) > MAX_DIGITS or len(last) > MAX_DIGITS:
            raise UserError(f"a number in the hostlist has more than {MAX_DIGITS} digits", "shorten it")
        if not first.isdigit() or (dash and not last.isdigit()) or int(last or first) < int(first):
            raise UserError(f"{text!r} is not a hostlist: {piece!r} is not a range", "write gpu[01-04]")
        low, high = int(first), int(last or first)
        if high - low > MAX_HOSTS:
            raise UserError(f"the hostlist has more than {MAX_HOSTS:,} names", "shorten it")
        yield from (f"{number:0{len(first)}d}" for number in range(low, high + 1))


def collapse(names: Iterable[str]) -> str:
    """Return the shortest hostlist. Each group is at the position of its first name."""
    groups: dict[tuple[str, int], list[int]] = {}
    for name in names:
        match = re.fullmatch(r"(.*?)(\d{1,15})", name)
        key = (match[1], len(match[2])) if match else (name, 0)
        groups.setdefault(key, [])
        if match:
            groups[key].append(int(match[2]))
    return ",".join(_group(prefix, width, numbers) for (prefix, width), numbers in groups.items())


def _group(prefix: str, width: int, numbers: list[int]) -> str:
    if not numbers:
        return prefix
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    words = [f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in runs]
    if len(words) == 1 and "-" not in words[0]:
        return prefix + words[0]
    return f"{prefix}[{','.join(words)}]"


def by_number(name: str) -> list[tuple[int, str]]:
    """Return a sort key that compares numbers in names by value: n2 before n10."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in _NUMBER.split(name) if piece]


def names_in(text: str, name: str) -> list[str]:
    """Return all names of a file in order, repeated as often as they are listed. Raises SlurmError, which names the
    file.

    The text has one name on each line or several with commas, NAME*COUNT for several tasks, and # for comments.
    """
    names: list[str] = []
    for number, line in enumerate(text.splitlines()[:MAX_FILE_LINES], start=1):
        words = line.partition("#")[0]
        if not words:
            continue
        if not words[0].isalnum():
            raise SlurmError(
                f"Invalid hostfile {name} contents on line {number}", "write a name on each line"
            )
        for word in filter(None, words.split(",")):
            host, _, times = word.strip().partition("*")
            names += [host] * (int(times) if times.isdecimal() and len(times) < 6 else 1)
    return names
