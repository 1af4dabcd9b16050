"""Lists of pending array tasks as Slurm's commands print them, such as 1-3,5,7%2.

The length is limited by SLURM_BITSTR_LEN.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

from warpdeck.notation.values.arrays import MAX_TASKS, parse_array

DEFAULT_LENGTH = 64
"""Length in characters if SLURM_BITSTR_LEN is not set."""
FOLDED_WIDTH = 31
"""Printed characters of a folded array's job ID in squeue if SLURM_BITSTR_LEN is not set."""
MAX_DIGITS = 9
_ENDING = "..."
_ROOM = 2
"""Characters that Slurm leaves free after a list that it cuts."""


def length_of(env: Mapping[str, str]) -> int | None:
    """Return the length in SLURM_BITSTR_LEN, or None if it is unset or invalid. 0 means no limit."""
    text = env.get("SLURM_BITSTR_LEN", "")
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else None


def task_list(tasks: str, length: int) -> str:
    """Format a task list without steps, with adjacent tasks as one range.

    A list longer than `length` ends with three dots.
    """
    ranges, percent, throttle = tasks.partition("%")
    if set(ranges) & set(",:"):
        runs = _runs(ranges, length or MAX_TASKS)
        ranges = ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
    if length and len(ranges) >= length - _ROOM:
        kept = ranges[: max(length - _ROOM, 0)]
        ranges = kept[: max(kept.rfind(","), kept.rfind("-"), 0)] + _ENDING
    return ranges + percent + throttle


def _runs(ranges: str, most: int) -> list[tuple[int, int]]:
    """Return the runs of consecutive tasks as (first, last).

    The search stops after more than `most` runs, which would be cut anyway.
    """
    runs: list[tuple[int, int]] = []
    for first, last, step in parse_array(ranges)[0]:
        for low in (first,) if step == 1 else range(first, last + 1, step):
            high = last if step == 1 else low
            if runs and low == runs[-1][1] + 1:
                runs[-1] = (runs[-1][0], high)
            elif len(runs) > most:
                return runs
            else:
                runs.append((low, high))
    return runs


_ASKED: ContextVar[int | None] = ContextVar("asked", default=None)


@contextlib.contextmanager
def task_list_length(env: Mapping[str, str]) -> Iterator[None]:
    """Within this context, `shown_tasks` cuts lists to the length in the caller's SLURM_BITSTR_LEN."""
    token = _ASKED.set(length_of(env))
    try:
        yield
    finally:
        _ASKED.reset(token)


def given_length() -> int | None:
    """Return the length that `task_list_length` set, or None if the caller set none."""
    return _ASKED.get()


def shown_tasks(tasks: str) -> str:
    """Format a task list with the length that `task_list_length` set."""
    asked = _ASKED.get()
    return task_list(tasks, DEFAULT_LENGTH if asked is None else asked)
