"""Parses --cpu-freq=P1[-P2[:P3]] and --gpu-freq like sbatch. A number is a frequency, a word a step or a
governor.
"""

from __future__ import annotations

import re

from warpdeck.notation.values.numbers import LONG_MAX, strtol
from warpdeck.notation.values.slurm_error import SlurmError

_GOVERNORS = {
    "co": "Conservative",
    "perf": "Performance",
    "pow": "PowerSave",
    "user": "UserSpace",
    "onde": "OnDemand",
    "sche": "SchedUtil",
}
"""Prefixes that identify a governor, and the governors' names."""
_STEPS = {"lo": "Low", "him1": "Highm1", "highm1": "Highm1", "hi": "High", "med": "Medium"}
_ALLOWED = frozenset({"OnDemand", "Performance", "UserSpace"})
"""Governors that are allowed, which is Slurm's default of CpuFreqGovernors."""
_RANK = {"Low": 2**31 + 1, "Medium": 2**31 + 2, "High": 2**31 + 3, "Highm1": 2**31 + 4}
_HINT = "write such as low, high, 2400000 or performance"


def cpu_freq(text: str) -> str:
    """Return the canonical form of a --cpu-freq value. Raises SlurmError."""
    front, colon, governor = text.partition(":")
    first, dash, second = text.partition("-")
    if dash:
        second = second.partition(":")[0]
    else:
        first = front
    if (alone := _governor(first)) is not None:
        return _alone(text, alone, first, dash=dash, second=second, colon=colon, governor=governor)
    most = _step(first)
    least = ""
    if dash:
        least, most = most, _step(second)
        if _rank(most) < _rank(least):
            raise _invalid(f"min cpu-frec ({first}) must be < max cpu-freq ({second})")
    if not colon:
        return f"{least}-{most}" if least else most
    if not dash:
        raise _invalid(f"gov on cpu-frec ({governor}) illegal without max")
    found = _governor(governor)
    if found is None:
        raise _invalid(f"illegal governor: {governor} on --cpu-freq")
    _check_allowed(found, text)
    return f"{least}-{most}:{found}"


def _alone(text: str, found: str, first: str, *, dash: str, second: str, colon: str, governor: str) -> str:
    if colon:
        more = f"governor cannot be specified twice {first}{{-}}:{governor} in --cpu-freq"
        raise _invalid(more)
    if dash:
        _step(second)
        raise _invalid(f"min cpu-frec ({first}) must be < max cpu-freq ({second})")
    _check_allowed(found, text)
    return found


def _check_allowed(governor: str, text: str) -> None:
    if governor not in _ALLOWED:
        raise _invalid(f"governor of {text} is not allowed in slurm.conf")


def _governor(word: str) -> str | None:
    return next((name for start, name in _GOVERNORS.items() if word.lower().startswith(start)), None)


def _step(word: str) -> str:
    found = next((name for start, name in _STEPS.items() if word.lower().startswith(start)), None)
    if found is not None:
        return found
    number = strtol(word)[0] % 2**32
    if not number:
        raise _invalid(f'unrecognized --cpu-freq argument "{word}"')
    return str(number)


def _rank(word: str) -> int:
    return _RANK.get(word) or int(word)


def _invalid(words: str) -> SlurmError:
    return SlurmError("Invalid --cpu-freq argument", _HINT, more=(f"error: {words}",))


def is_gpu_freq(text: str) -> bool:
    """Return whether the value has the form [[type=]value][,[type=]value]...

    A semicolon separates kinds of TRES, of which only GPUs are valid.
    """
    pieces = [piece for piece in f"gpu:{text}".split(";") if piece]
    return all(piece.startswith("gpu:") and _is_gpu_frequency(piece[4:]) for piece in pieces)


def _is_gpu_frequency(text: str) -> bool:
    items = [item for item in text.split(",") if item]
    return bool(text) and all(_is_item(item) for item in items)


def _is_item(item: str) -> bool:
    name, equals, value = item.partition("=")
    if equals:
        return name == "memory" and _is_frequency(value)
    return item == "verbose" or _is_frequency(item)


def _is_frequency(text: str) -> bool:
    if re.fullmatch(r"\d+", text):
        return strtol(text)[0] < LONG_MAX
    return text in ("low", "medium", "high", "highm1")
