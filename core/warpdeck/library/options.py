"""Translate keyword arguments into sbatch's options: gpus=2, time=timedelta(hours=4), array="0-9%2",
hold=True. Pure.

The names are Slurm's with _ for -. None and False omit an option, True is an option without a value, and
several values are joined by commas. A plain number has the unit that sbatch gives it: minutes for `time`, MiB
for `mem`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from warpdeck.base.errors import UserError


def option_words(options: Mapping[str, object]) -> list[str]:
    """Return the options as command-line arguments. Raises UserError for a value that no option accepts."""
    words: list[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        flag = "--" + name.replace("_", "-")
        words.append(flag if value is True else f"{flag}={_text(name, value)}")
    return words


def _text(name: str, value: object) -> str:
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        if minutes < 0 or name in ("begin", "deadline"):
            raise UserError(
                f"{name} cannot be {value!r}",
                "use a timedelta for a time limit and a datetime for a point in time",
            )
        return f"{minutes}:{seconds:02}"
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%dT%H:%M:%S")
    if isinstance(value, list | tuple):
        return ",".join(_text(name, each) for each in value)
    raise UserError(
        f"{name} cannot be {value!r}", "use a string, a number, True, a timedelta, a datetime or a list"
    )
