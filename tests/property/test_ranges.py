"""Sets of array task numbers, beside plain sets."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from warpdeck.model import Ranges, has_task, iter_tasks, split_ranges

PIECE = st.tuples(st.integers(1, 9), st.integers(0, 12), st.integers(1, 9))
"""How far behind the last one, how many more numbers, how far apart."""


def ranges(pieces: list[tuple[int, int, int]]) -> Ranges:
    """Ascending and apart."""
    made, end = [], -1
    for ahead, more, step in pieces:
        first, end = end + ahead, end + ahead + more * step
        made.append((first, end, step if more else 1))
    return tuple(made)


RANGES = st.lists(PIECE, max_size=8).map(ranges)


@given(RANGES, RANGES)
def test_numbers_are_split_as_sets_are(whole: Ranges, wanted: Ranges) -> None:
    taken, rest = split_ranges(whole, wanted)
    numbers, asked = set(iter_tasks(whole)), set(iter_tasks(wanted))
    assert list(iter_tasks(taken)) == sorted(numbers & asked)
    assert list(iter_tasks(rest)) == sorted(numbers - asked)
    for made in (taken, rest):
        assert all(left[1] < right[0] for left, right in itertools.pairwise(made))
        assert all(step == 1 if first == last else (last - first) % step == 0 for first, last, step in made)


@given(RANGES, st.integers(0, 200))
def test_a_number_is_found(whole: Ranges, number: int) -> None:
    assert has_task(whole, number) is (number in set(iter_tasks(whole)))


def test_every_second_task_of_a_large_array_is_named_at_once() -> None:
    """What went over each named number, and each range that was left, took hours."""
    taken, rest = split_ranges(((0, 999_999, 1),), ((0, 999_998, 2),))
    assert (taken, rest) == (((0, 999_998, 2),), ((1, 999_997, 2), (999_999, 999_999, 1)))
