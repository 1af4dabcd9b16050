"""Filters for lists of jobs: their matches, and the sentence about a probable mistake."""

import pytest

from warpdeck.notation.filters.job_filter import holds, parse_filter, plain_words, probable_mistake
from warpdeck.protocol.job_rows import JobRow


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("state:z", "there is no state z; write such as R, PD, CD, F, or the beginning of a name (canc)"),
        ("llama !st:xx", "there is no state xx"),
        ("usr:ann", "there is no field usr; the fields are id, name, user"),
        ("gpu>x", "gpu>x does not compare with a whole number; write such as gpu>4"),
        ("gpus>=1.5", "gpus>=1.5 does not compare with a whole number"),
        ("mem=4", "no sweep here has mem=4, and only gpu, cpu, nodes can be compared"),
        ("mem>4", "mem cannot be compared; only gpu, cpu, nodes can"),
        ("end>soon", "end>soon does not compare with a past time; write such as end>2h ago"),
        ("gpu:4", "gpu is a number; write such as gpu>4 or gpu=0"),
    ],
)
def test_the_probable_mistake_in_a_filter_is_named(text: str, said: str) -> None:
    assert probable_mistake(text).startswith(said)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "llama",
        "gpu>",
        "gpu>4",
        "state:",
        "state:f",
        "state:canc",
        "user:me",
        "name~a>b",
        "!vit",
        "!",
        "end>",
        "end>2h ago",
    ],
)
def test_valid_and_incomplete_filters_have_no_mistake(text: str) -> None:
    assert probable_mistake(text) == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("end>2h ago", [2]),
        ("end>2h ag", [2]),
        ("end>2h", [2]),
        ("end>", [1, 2, 3]),
        ("end<=120m ago", [1]),
        ("!end>2h ago", [1, 3]),
        ("submit>1d ago", [2, 3]),
        ("submit>1d ago end<1h ago", [2]),
        ("end>1w ago ago", []),
    ],
)
def test_times_are_compared_with_a_past_time(text: str, found: list[int]) -> None:
    now, hour = 1e6, 3600.0
    rows = [
        JobRow(id=1, label="1", array_job_id=1, submit=now - 30 * hour, end=now - 3 * hour),
        JobRow(id=2, label="2", array_job_id=2, submit=now - 5 * hour, end=now - 1.5 * hour),
        JobRow(id=3, label="3", array_job_id=3, submit=now - 5 * hour),
    ]
    test = holds(parse_filter(text), now=now)
    assert [row.id for row in rows if test(row)] == found
    assert plain_words(text) in ("", "end>", "ago")


TASK = JobRow(id=2, label="7_1", array_job_id=7, name="vit", sweep="lr=0.1 Seed=12")
REST = JobRow(
    id=7, label="7_[2-9]", array_job_id=7, tasks_pending=8, name="vit", sweep="lr=0.1,0.01 Seed=10..13"
)


@pytest.mark.parametrize(
    ("text", "task", "rest"),
    [
        ("lr=0.1", True, True),
        ("LR=0.1 seed=12", True, True),
        ("sweep:lr=0.1", True, True),
        ("sweep~seed", True, True),
        ("lr=0.01", False, True),
        ("seed=1", False, False),
        ("seed=11", False, True),
        ("seed=", True, True),
        ("r=0.1", False, False),
        ("!lr=0.1", False, False),
        ("seed", True, True),
        ("name:seed", False, False),
    ],
)
def test_a_parameter_of_a_sweep_matches_its_whole_value(text: str, task: bool, rest: bool) -> None:
    assert [holds(parse_filter(text))(row) for row in (TASK, REST)] == [task, rest]


def test_a_grid_that_was_cut_inside_quotes_is_searched() -> None:
    cut = JobRow(id=7, label="7_[0-9]", array_job_id=7, tasks_pending=9, sweep="'text=a b,c")
    assert holds(parse_filter("text"))(cut) and not holds(parse_filter("text=c"))(cut)


def test_a_name_with_an_equals_sign_is_found_by_a_part_of_it() -> None:
    named = JobRow(id=7, label="7", array_job_id=7, name="vit-lr=0.15")
    assert holds(parse_filter("lr=0.1"))(named)
