"""Lists of array tasks, which SLURM_BITSTR_LEN limits."""

from __future__ import annotations

import pytest

from warpdeck.slurm.format.task_lists import length_of, shown_tasks, task_list, task_list_length


@pytest.mark.parametrize(
    ("tasks", "length", "text"),
    [
        ("5", 64, "5"),
        ("1-3", 64, "1-3"),
        ("1,2,3,7", 64, "1-3,7"),
        ("0-8:4", 64, "0,4,8"),
        ("0-4:1", 64, "0-4"),
        ("1-3,9%2", 64, "1-3,9%2"),
        ("1,3,5,7,9,11", 10, "1,3,5,7..."),
        ("1,3,5,7,9,11", 0, "1,3,5,7,9,11"),
        ("1,3,5,7%4", 8, "1,3,5...%4"),
    ],
)
def test_adjacent_tasks_are_one_range_and_a_long_list_is_cut(tasks: str, length: int, text: str) -> None:
    assert task_list(tasks, length) == text


@pytest.mark.parametrize(
    ("value", "length"), [("", None), ("10", 10), ("0", 0), ("x", None), ("-1", None), ("9" * 10, None)]
)
def test_the_length_is_that_of_the_variable_if_it_is_a_number(value: str, length: int | None) -> None:
    assert length_of({"SLURM_BITSTR_LEN": value}) == length


def test_the_length_holds_within_the_block_only() -> None:
    tasks = ",".join(map(str, range(1, 99, 2)))
    before = shown_tasks(tasks)
    with task_list_length({"SLURM_BITSTR_LEN": "8"}):
        assert shown_tasks(tasks) == "1,3,5..."
    assert shown_tasks(tasks) == before and len(before) <= 64 + len("...")


def test_a_huge_list_is_cut_without_being_expanded() -> None:
    assert task_list("0-160000:2", 12) == "0,2,4,6,8..."
