"""Job IDs and sets of array tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpdeck.base.errors import UserError
from warpdeck.model import Ranges, count_tasks, format_ranges, has_task, iter_tasks, split_ranges
from warpdeck.notation.values.arrays import parse_array
from warpdeck.notation.values.job_ids import is_job_id, parse_job_id


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("12", (12, None)),
        (" 12 ", (12, None)),
        ("12_0", (12, ((0, 0, 1),))),
        ("12_[3-5,9]", (12, ((3, 5, 1), (9, 9, 1)))),
        ("12_[0-8:4%2]", (12, ((0, 8, 4),))),
    ],
)
def test_job_ids_are_read_as_squeue_prints_them(text: str, wanted: object) -> None:
    assert parse_job_id(text) == wanted


@pytest.mark.parametrize(
    "text", ["", "x", "12_", "12_x", "-1", "12_[", "12_[]", "12_[5-1]", "1.5", "1" * 30, "12 13"]
)
def test_invalid_job_ids_are_refused(text: str) -> None:
    assert not is_job_id(text)
    with pytest.raises(UserError, match="is not a job ID"):
        parse_job_id(text)


def disjoint(numbers: list[tuple[int, int, int]]) -> Ranges:
    """Return ascending, disjoint ranges for steps of (gap, count, step)."""
    found, at = [], 0
    for gap, count, step in numbers:
        first = at + gap
        last = first + (count - 1) * step
        found.append((first, last, step if count > 1 else 1))
        at = last + 1
    return tuple(found)


ranges = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 6), st.integers(1, 3)), min_size=1, max_size=4
).map(disjoint)


@given(ranges, ranges)
def test_splitting_ranges_neither_loses_nor_repeats_a_task(whole: Ranges, wanted: Ranges) -> None:
    taken, rest = split_ranges(whole, wanted)
    assert set(iter_tasks(taken)) == set(iter_tasks(whole)) & set(iter_tasks(wanted))
    assert sorted((*iter_tasks(taken), *iter_tasks(rest))) == sorted(iter_tasks(whole))
    assert list(taken) == sorted(taken) and list(rest) == sorted(rest)
    assert all(has_task(whole, task) for task in iter_tasks(taken))


@given(ranges)
def test_ranges_are_printed_as_they_are_read(whole: Ranges) -> None:
    again, _ = parse_array(format_ranges(whole))
    assert list(iter_tasks(tuple(again))) == list(iter_tasks(whole))
    assert count_tasks(whole) == len(list(iter_tasks(whole)))
