"""Distribution of tasks over nodes, as numbers of tasks per node.

Slurm has two rules. An allocation is made by filling one node after the other (`distribute_block`). Tasks are
then laid out round-robin over the slots of each node (`distribute_cyclic`). Both were compared with Slurm
22.05.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence


def distribute_block(capacities: Sequence[int], total: int, *, each: int = 1, fewest: int) -> list[int]:
    """Distribute `total` tasks, filling each node up to its capacity, with at least `each` tasks on every
    node.

    The first `fewest` nodes leave enough tasks for the nodes after them. The minimum of further nodes is
    taken from the first nodes. The capacities must suffice for the total, and for `each` on every node.
    """
    counts, left = [], max(total, each * min(fewest, len(capacities)))
    for at, capacity in enumerate(capacities):
        later = max(0, fewest - at - 1) * each
        counts.append(max(each, min(capacity, left - later)))
        left -= counts[-1]
    for at, count in enumerate(counts):
        back = max(0, min(count - each, -left))
        counts[at] -= back
        left += back
    return counts


def distribute_cyclic(most: Sequence[int], total: int, *, each: int = 1) -> list[int]:
    """Distribute `total` tasks round-robin, `each` at a time, with at most `most[i]` tasks on node i. The sum
    of `most` must suffice.
    """
    assert sum(most) >= total, f"{most} are less than {total}"
    counts = [0] * len(most)
    while total:
        for at, limit in enumerate(most):
            here = min(each, limit - counts[at], total)
            counts[at] += here
            total -= here
    return counts


def distribute_packed(most: Sequence[int], total: int) -> list[int]:
    """Place one task on each node, then fill the first nodes."""
    return distribute_block(most, total, fewest=len(most))
