"""The file of srun --multi-prog."""

from __future__ import annotations

import pytest

from warpdeck.base.errors import UserError
from warpdeck.notation.step.multiprog import parse_programs, program_of

TEXT = """# comment
0      echo zero
1-2,5  echo "some words" %t %o  # and a remark
*      echo \\
       other %t %o
"""


def program(rank: int, text: str = TEXT) -> list[str]:
    found = parse_programs(text, "programs")
    return program_of(rank, [(tuple(each["ranks"]), tuple(each["argv"])) for each in found])


@pytest.mark.parametrize(
    ("rank", "words"),
    [
        (0, ["echo", "zero"]),
        (1, ["echo", "some words", "1", "0"]),
        (2, ["echo", "some words", "2", "1"]),
        (5, ["echo", "some words", "5", "2"]),
        (4, ["echo", "other", "4", "4"]),
    ],
)
def test_a_task_runs_the_program_of_its_line(rank: int, words: list[str]) -> None:
    assert program(rank) == words


def test_a_task_without_a_line_has_no_program() -> None:
    assert program(3, "0-2 true\n") == []


def test_the_first_line_for_a_task_counts() -> None:
    assert program(1, "0-2 first\n1 second\n") == ["first"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 echo 'open\n", "f:1: No closing quotation"),
        ("\n0\n", "f:2: there is no program after the tasks"),
        ("a echo\n", "f:1: 'a' is not a list of tasks"),
        ("0- echo\n", "f:1: '0-' is not a list of tasks"),
        ("3-1 echo\n", "f:1: '3-1' is not a range"),
        ("0-99999999 echo\n", "f:1: '0-99999999' is not a list of tasks"),
        ("# nothing\n", "f contains no program"),
    ],
)
def test_an_invalid_line_is_named(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_programs(text, "f")
    assert said in caught.value.message
