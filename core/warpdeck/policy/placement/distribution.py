"""Tasks dealt over nodes, as numbers: how many each of them gets. Pure.

Two rules of Slurm's: who makes an allocation fills one node after the other (`fill`), and who lays tasks out in it goes round
and round over what each node has (`deal`). Measured beside 22.05.
"""

from __future__ import annotations

from collections.abc import Sequence


def fill(rooms: Sequence[int], total: int, *, each: int = 1, fewest: int) -> list[int]:
    """So many in all, as many on every node as there is room for, and `each` on all of them.

    Of the first `fewest` nodes each leaves enough for those behind it. What nodes beyond them must have is taken from the first.
    There is room for the total, and for `each` everywhere.
    """
    counts, left = [], max(total, each * min(fewest, len(rooms)))
    for at, room in enumerate(rooms):
        later = max(0, fewest - at - 1) * each
        counts.append(max(each, min(room, left - later)))
        left -= counts[-1]
    for at, count in enumerate(counts):
        back = max(0, min(count - each, -left))
        counts[at] -= back
        left += back
    return counts


def deal(most: Sequence[int], total: int, *, each: int = 1) -> list[int]:
    """So many to each node in turn, to none more than it may have; together they may have the total."""
    assert sum(most) >= total, f"{most} are less than {total}"
    counts = [0] * len(most)
    while total:
        for at, limit in enumerate(most):
            here = min(each, limit - counts[at], total)
            counts[at] += here
            total -= here
    return counts


def pack(most: Sequence[int], total: int) -> list[int]:
    """One to each node, then the first ones filled."""
    return fill(most, total, fewest=len(most))
