"""Hostlists: "gpu[01-03,07],login" <-> names. Numbers keep their width."""

from __future__ import annotations

import re
from collections.abc import Iterable

from warpdeck.errors import UserError

MAX_HOSTS = 100_000
"""Names one expression may stand for."""

_PART = re.compile(r"([^,\[\]]*)(?:\[([0-9,\-]+)\])?([^,\[\]]*)")


def expand(text: str) -> list[str]:
    """All names, in order. Raises UserError."""
    names: list[str] = []
    for part in _split(text):
        match = _PART.fullmatch(part)
        if match is None:
            raise UserError(f"{text!r} is no hostlist", "write names such as gpu[01-04,07],login")
        prefix, ranges, suffix = match.groups()
        if ranges is None:
            names.append(prefix)
        else:
            names.extend(f"{prefix}{number}{suffix}" for number in _numbers(ranges, text))
        if len(names) > MAX_HOSTS:
            raise UserError(f"the hostlist stands for over {MAX_HOSTS:,} names", "shorten it")
    return [name for name in names if name]


def _split(text: str) -> list[str]:
    """At commas outside brackets."""
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


def _numbers(ranges: str, text: str) -> Iterable[str]:
    for piece in ranges.split(","):
        first, dash, last = piece.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise UserError(f"{text!r} is no hostlist: {piece!r} is no range", "write gpu[01-04]")
        low, high = int(first), int(last or first)
        if high - low > MAX_HOSTS:
            raise UserError(f"the hostlist stands for over {MAX_HOSTS:,} names", "shorten it")
        yield from (f"{number:0{len(first)}d}" for number in range(low, high + 1))


def collapse(names: Iterable[str]) -> str:
    """The shortest hostlist; groups stand where their first name stands."""
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
