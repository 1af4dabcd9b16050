"""The file of srun --multi-prog: "0-2,5 program args" on each line, "*" for all other tasks.

In the arguments, %t is the task's number and %o its position within the line's tasks.
"""

from __future__ import annotations

import shlex
from typing import Any

from warpdeck.base.errors import UserError

MAX_RANK = 1_000_000
"""Maximum task number. Larger numbers are typing errors."""


def parse_programs(text: str, name: str) -> list[dict[str, Any]]:
    """Return the lines in the JSON form of `model.step.Program`. Raises UserError, which names file and
    line.
    """
    found: list[dict[str, Any]] = []
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        where = f"{name}:{number}"
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise UserError(f"{where}: {error}", "close the quotes") from error
        if not words:
            continue
        if len(words) < 2:
            raise UserError(f"{where}: there is no program after the tasks", "write: 0-3 PROGRAM ARGS")
        ranks = [] if words[0] == "*" else [_range(piece, where) for piece in words[0].split(",")]
        found.append({"ranks": ranks, "argv": words[1:]})
    if not found:
        raise UserError(f"{name} contains no program", "write lines such as: 0-3 PROGRAM ARGS")
    return found


def _range(piece: str, where: str) -> tuple[int, int]:
    first, dash, last = piece.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()) or int(last or first) > MAX_RANK:
        raise UserError(f"{where}: {piece!r} is not a list of tasks", "write 0, 0-3, 0,2 or *")
    low, high = int(first), int(last or first)
    if high < low:
        raise UserError(f"{where}: {piece!r} is not a range", "write the lower task first")
    return low, high


def program_of(rank: int, programs: list[tuple[tuple[tuple[int, int], ...], tuple[str, ...]]]) -> list[str]:
    """Return the command line of a task with %t and %o replaced; [] if no line applies to it."""
    others: list[str] = []
    for ranks, argv in programs:
        offset = 0
        for low, high in ranks:
            if low <= rank <= high:
                return _filled(argv, rank, offset + rank - low)
            offset += high - low + 1
        if not ranks:
            others = _filled(argv, rank, rank)
    return others


def _filled(argv: tuple[str, ...], rank: int, offset: int) -> list[str]:
    return [word.replace("%t", str(rank)).replace("%o", str(offset)) for word in argv]
