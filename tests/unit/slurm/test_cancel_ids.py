"""Job IDs on the command line of scancel."""

from __future__ import annotations

import pytest

from warpdeck.slurm.console.console import CommandError
from warpdeck.slurm.submit.cancel_ids import CancelRow, CancelRows, GivenId, given_ids

QUEUE = [
    {"id": 5, "label": "5", "name": "plain", "partition": "gpu", "state": "RUNNING", "tasks_text": ""},
    {"id": 8, "label": "7_1", "name": "array", "partition": "gpu", "state": "RUNNING", "tasks_text": "1"},
    {
        "id": 7,
        "label": "7_[2-9]",
        "name": "array",
        "partition": "gpu",
        "state": "PENDING",
        "tasks_text": "2-9%4",
    },
]


def one(word: str) -> GivenId:
    (found,) = given_ids([word])
    return found


@pytest.mark.parametrize(
    ("word", "sent", "tasks", "step"),
    [
        ("12", "12", None, None),
        ("+0012", "12", None, None),
        ("12.3", "12", None, 3),
        ("12.", "12", None, 0),
        ("12_3", "12_3", ((3, 3, 1),), None),
        ("12_3.0", "12_3", ((3, 3, 1),), 0),
        ("12_[1-3,9]", "12_[1-3,9]", ((1, 3, 1), (9, 9, 1)), None),
        ("12_", "", ((0, 0, 1),), None),
        ("12+1", "12+1", None, None),
    ],
)
def test_the_forms_of_an_id(word: str, sent: str, tasks: object, step: int | None) -> None:
    found = one(word)
    assert (found.job, found.sent, found.tasks, found.step) == (12, sent, tasks, step)


def test_a_star_names_all_tasks() -> None:
    assert one("12_*").is_all and not one("12").is_all


def test_a_word_may_hold_several_ids() -> None:
    assert [found.text for found in given_ids(["1,2_3", "4"])] == ["1", "2_3", "4"]


@pytest.mark.parametrize(
    "word", ["", "x", "0", "12x", "12_x", "12_[", "12_[]", "12_[3-1]", "12,", ",12", "-1"]
)
def test_a_malformed_id_is_refused(word: str) -> None:
    with pytest.raises(CommandError, match="Invalid job id"):
        given_ids([word])


def test_an_id_of_several_tasks_is_split() -> None:
    assert [each.shown for each in one("12_[1-2,5]").each_task()] == ["12_1", "12_2", "12_5"]
    assert [each.shown for each in one("12_*").each_task()] == ["12_*"]


@pytest.mark.parametrize(
    ("word", "labels"),
    [
        ("5", ["5"]),
        ("7", ["7_1", "7_[2-9]"]),
        ("7_*", ["7_1", "7_[2-9]"]),
        ("7_1", ["7_1"]),
        ("7_4", ["7_[2-9]"]),
        ("7_10", []),
        ("8", ["7_1"]),
        ("99", []),
    ],
)
def test_an_id_finds_the_jobs_that_it_names(word: str, labels: list[str]) -> None:
    rows = CancelRows(CancelRow.of(row) for row in QUEUE)
    assert sorted(row.label for row in rows.meant(one(word))) == labels


def test_the_limit_of_concurrent_tasks_is_part_of_the_printed_label() -> None:
    assert [CancelRow.of(row).shown for row in QUEUE] == ["5", "7_1", "7_[2-9%4]"]
