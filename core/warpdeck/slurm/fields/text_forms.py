"""Forms in which tables of fields show a value, by the names that the tables use."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from warpdeck.notation.values.durations import format_duration
from warpdeck.slurm.format.units import clock, exact, moment, rounded, tres_text

_duration = lru_cache(maxsize=10_000)(format_duration)
"""The cache helps because most jobs of a long queue have the same run time, 0."""


def _tres(tres: dict[str, int]) -> str:
    return tres_text(plain_tres(tres), none="(null)")


def plain_tres(tres: dict[str, int]) -> dict[str, int]:
    """Return the TRES without the GPU types (gres/gpu:TYPE). Slurm counts only gres/gpu by default."""
    return {name: count for name, count in tres.items() if not name.startswith("gres/gpu:")}


def _or(other: object) -> Callable[[Any], Any]:
    return lambda value: value or other


FORMS: dict[str, Callable[[Any], Any]] = {
    # A text that stands for an empty value or 0
    **{text: _or(text) for text in ("(null)", "N/A", "None", "UNLIMITED", "n/a")},
    "0": _or(0),
    "some": _or(""),
    # Texts
    "blank": lambda text: f"{text} " if text else "",
    "clock": clock,
    "clock-na": partial(clock, none="N/A"),
    "clock-none": partial(clock, none="NONE"),
    "duration": lambda seconds: _duration(None if seconds is None else int(seconds)),
    "duration-0": lambda seconds: format_duration(seconds or 0),
    "flag": lambda value: "1" if value else "0",
    "joined": lambda names: ",".join(names or ()),
    "known": lambda value: "N/A" if value is None else value,
    "mib": lambda size: exact(size, "M") if size else "0",
    "moment": moment,
    "moment-na": partial(moment, none="N/A"),
    "moment-none": partial(moment, none="None"),
    "rounded": lambda number: rounded(number) if number != "" else "",
    "tres": _tres,
    "upper": str.upper,
    "yes": lambda value: "YES" if value else "NO",
    # JSON values
    "float": float,
    "int": int,
    "minutes": lambda seconds: None if seconds is None else seconds // 60,
    "none": lambda value: value or None,
    "tres-text": tres_text,
    "unix": lambda at_unix: int(at_unix or 0),
}
