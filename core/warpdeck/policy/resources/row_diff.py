"""What of a list is new since the last time. Views are made of objects that stay the same while nothing changes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import is_
from typing import Generic, TypeVar

import numpy as np

from .cluster import Ints

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

NEW = -1
"""In place of a row: it was not there before."""
FIRST_LOOK = 64
"""Objects compared at first after a change; each further look is over four times as many."""


def came_from(old: Sequence[T], new: Sequence[T], key: Callable[[T], int]) -> Ints:
    """For each of the new list its place in the old one, NEW if it is another object.

    Both are ascending by `key`. In any other order the answer is true, but more counts as new than is.
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
    """From these places on, how many are the same objects."""
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
    """Gives each key that it has not met the next number: one look a key, in C's loops."""

    def __missing__(self, key: K) -> int:
        number = self[key] = len(self)
        return number


class Numbering(Generic[K]):
    """Numbers for keys, from 0 in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: _Numbers[K] = _Numbers()

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def keys(self) -> list[K]:
        """In the order of their numbers."""
        return list(self._numbers)

    def of(self, key: K) -> int:
        """The number of this key."""
        return self._numbers[key]

    def of_all(self, keys: Iterable[K]) -> list[int]:
        """The numbers of many keys."""
        return list(map(self._numbers.__getitem__, keys))

    def get(self, key: K) -> int | None:
        """The number of this key if it was met before."""
        return self._numbers.get(key)
