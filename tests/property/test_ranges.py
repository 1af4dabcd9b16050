"""Ranges of array task numbers behave like plain sets."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from warpdeck.model import Ranges, has_task, iter_tasks, split_ranges

PIECE = st.tuples(st.integers(1, 9), st.integers(0, 12), st.integers(1, 9))
"""Distance from the previous range, number of further numbers, and step."""


def ranges(pieces: list[tuple[int, int, int]]) -> Ranges:
    """Return ascending ranges that do not overlap."""
    made, end = [], -1
    for ahead, more, step in pieces:
        first, end = end + ahead, end + ahead + more * step
        made.append((first, end, step if more else 1))
    return tuple(made)


RANGES = st.lists(PIECE, max_size=8).map(ranges)


@given(RANGES, RANGES)
def test_ranges_are_split_like_sets(whole: Ranges, wanted: Ranges) -> None:
    taken, rest = split_ranges(whole, wanted)
    numbers, selected = set(iter_tasks(whole)), set(iter_tasks(wanted))
    assert list(iter_tasks(taken)) == sorted(numbers & selected)
    assert list(iter_tasks(rest)) == sorted(numbers - selected)
    for made in (taken, rest):
        assert all(left[1] < right[0] for left, right in itertools.pairwise(made))
        assert all(step == 1 if first == last else (last - first) % step == 0 for first, last, step in made)


@given(RANGES, st.integers(0, 200))
def test_membership_equals_that_of_a_set(whole: Ranges, number: int) -> None:
    assert has_task(whole, number) is (number in set(iter_tasks(whole)))


def test_splitting_off_every_second_task_of_a_large_array_is_fast() -> None:
    """An algorithm that visits each number and each remaining range would take hours."""
    taken, rest = split_ranges(((0, 999_999, 1),), ((0, 999_998, 2),))
    assert (taken, rest) == (((0, 999_998, 2),), ((1, 999_997, 2), (999_999, 999_999, 1)))
