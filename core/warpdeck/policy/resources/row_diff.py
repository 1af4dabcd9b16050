"""Comparison of a list with its previous version: which elements are new, and where the others were.

Unchanged objects keep their identity from view to view, so objects are compared by identity.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import is_
from typing import Generic, TypeVar

import numpy as np

from .cluster import Ints

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

NEW = -1
"""Old position of an element that was not in the old list."""
FIRST_LOOK = 64
"""Number of objects in the first comparison after a change. Each further comparison covers four times as
many.
"""


def old_positions(old: Sequence[T], new: Sequence[T], key: Callable[[T], int]) -> Ints:
    """Return, for each element of the new list, its position in the old list; NEW if the old list does not
    contain this object.

    Both lists must be in ascending order of `key`. With another order the result stays valid, but more
    elements count as new.
    """
    found: Ints = np.full(len(new), NEW, dtype=np.int64)
    left = right = 0
    while left < len(old) and right < len(new):
        same = _same_run(old, new, left, right)
        found[right : right + same] = np.arange(left, left + same)
        left, right = left + same, right + same
        if left < len(old) and right < len(new):
            before, after = key(old[left]), key(new[right])
            left += before <= after
            right += after <= before
    return found


def _same_run(old: Sequence[T], new: Sequence[T], left: int, right: int) -> int:
    """Return how many objects are identical in both lists from these positions on."""
    run, size = 0, FIRST_LOOK
    while True:
        same = list(map(is_, old[left + run : left + run + size], new[right + run : right + run + size]))
        if not same:
            return run
        if not all(same):
            return run + same.index(False)
        run += len(same)
        size *= 4


class _Numbers(dict[K, int]):
    """A dict that assigns the next number to each unknown key, so that C loops need one lookup per key."""

    def __missing__(self, key: K) -> int:
        number = self[key] = len(self)
        return number


class Numbering(Generic[K]):
    """Numbers for keys, from 0 in order of first use."""

    def __init__(self) -> None:
        self._numbers: _Numbers[K] = _Numbers()

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def keys(self) -> list[K]:
        """The keys in the order of their numbers."""
        return list(self._numbers)

    def of(self, key: K) -> int:
        """Return the number of this key."""
        return self._numbers[key]

    def numbers(self, keys: Iterable[K]) -> list[int]:
        """Return the numbers of many keys."""
        return list(map(self._numbers.__getitem__, keys))

    def get(self, key: K) -> int | None:
        """Return the number of this key, or None if it has none."""
        return self._numbers.get(key)
