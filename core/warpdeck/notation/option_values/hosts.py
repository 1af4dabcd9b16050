"""Hostlists as sbatch reads them, with its errors. All other commands use `values.hostlist`."""

from __future__ import annotations

import re

from warpdeck.notation.values.hostlist import MAX_HOSTS
from warpdeck.notation.values.slurm_error import SlurmError

_TOKEN = re.compile(r"[^\s,\[\]]*(?:\[[^\]]*\][^\s,\[\]]*)+|[^\s,]+")
"""A name, or several with ranges in brackets. An unclosed bracket is an ordinary character."""
_RANGE = re.compile(r"\s*(\d+)\s*(?:-(\d*))?\s*")
MAX_NUMBER = 18
"""Maximum number of digits of a node's number."""
MAX_RANGE = 65_536
"""Slurm's own limit on the size of one range."""


def hosts_of(text: str) -> list[str]:
    """Return the names in a hostlist as sbatch counts them, without repetitions. Raises SlurmError."""
    names: dict[str, None] = {}
    for token in _TOKEN.findall(text):
        for name in _names_of(token):
            names[name] = None
            if len(names) > MAX_HOSTS:
                raise no_hosts("")
    return list(names)


def _names_of(token: str) -> list[str]:
    pieces = re.split(r"\[([^\]]*)\]", token)
    if len(pieces) == 1:
        return [token]
    if pieces[-1] or any("[" in piece or "]" in piece for piece in pieces):
        raise no_hosts("")
    made = [""]
    for at, piece in enumerate(pieces):
        words = [number for item in piece.split(",") for number in _numbers(item)] if at % 2 else [piece]
        if len(made) * len(words) > MAX_HOSTS:
            raise no_hosts("")
        made = [before + word for before in made for word in words]
    return made


def _numbers(item: str) -> list[str]:
    match = _RANGE.fullmatch(item)
    if match is None or len(match[1]) > MAX_NUMBER or len(match[2] or "") > MAX_NUMBER:
        raise no_hosts(f"error: _parse_single_range: Invalid range: `{item}'")
    low, high = int(match[1]), int(match[2] or match[1])
    if high < low:
        raise no_hosts(f"error: _parse_single_range: Invalid range: `{item}'")
    if high - low >= MAX_RANGE:
        raise no_hosts(f"error: _parse_single_range: Too many hosts in range `{item}'")
    return [f"{number:0{len(match[1])}d}" for number in range(low, high + 1)]


def no_hosts(words: str) -> SlurmError:
    """Return Slurm's error for a hostlist, after a line of detail unless `words` is ""."""
    return SlurmError("memory allocation failure", "write node[01-04,07]", more=(words,) if words else ())
