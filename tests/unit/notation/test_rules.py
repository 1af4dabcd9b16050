"""A table of config.toml changed in place."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpdeck.errors import UserError
from warpdeck.notation.rules import Value, values_of, with_values, without_table

TEXT = """\
# the lab's rules
[qos.normal]
max_tres_per_user = "gres/gpu=32"  # half of it

# whoever is in a hurry
[ qos . urgent ]   # ask Ann
priority = 100
preempts = ["normal", "scavenger"] # both
max_wall = '12:00:00'

[partitions.gpu]
nodes = "gpu[01-16]"
"""


def test_a_value_is_changed_where_it_stands_and_all_else_stays() -> None:
    values: dict[str, Value | None] = {
        "priority": 50,
        "preempts": ["normal"],
        "max_wall": None,
        "usage_factor": 0.5,
    }
    changed = with_values(TEXT, "qos", "urgent", values)
    assert changed == TEXT.replace("100", "50").replace(', "scavenger"', "").replace(
        "max_wall = '12:00:00'\n", "usage_factor = 0.5\n"
    )
    assert values_of(changed, "qos", "urgent") == {
        "priority": 50,
        "preempts": ["normal"],
        "usage_factor": 0.5,
    }
    back = with_values(TEXT, "qos", "normal", {"max_tres_per_user": 'a "quoted" \\ word'})
    assert '"a \\"quoted\\" \\\\ word"  # half of it' in back


def test_a_table_is_added_and_taken_away() -> None:
    changed = with_values(TEXT, "qos", "low", {"priority": 1})
    assert changed == TEXT + "\n[qos.low]\npriority = 1\n"
    assert without_table(changed, "qos", "low") == TEXT + "\n"
    assert with_values("", "partitions", "new", {}) == "[partitions.new]\n"
    assert without_table(TEXT, "qos", "normal").startswith("# the lab's rules\n\n# whoever")


@pytest.mark.parametrize(
    "text",
    [
        "qos.high = { priority = 1 }\n",
        "[qos]\nhigh.priority = 1\n",
        '[qos.high]\npreempts = [\n  "a",\n  "b",\n]\n',
        '[qos.high]\nmax_wall = """\n1\n"""\n',
        '[qos.high]\nx = """\n[qos.high]\npreempts = 1\n"""\n',
    ],
)
def test_what_is_written_in_another_way_is_left_alone(text: str) -> None:
    with pytest.raises(UserError, match="qos high is written"):
        with_values(text, "qos", "high", {"preempts": ["c"], "max_wall": "2"})


def test_a_name_that_is_none_and_a_file_that_is_none_are_told() -> None:
    with pytest.raises(UserError, match="is no name"):
        with_values("", "qos", "a]b", {})
    with pytest.raises(UserError, match="cannot be read"):
        with_values("[qos", "qos", "a", {})


@given(
    st.lists(
        st.sampled_from(["a = 1", "b = 'x' # [y]", "", "# [qos.n]", 'c = ["p", "q"]', "[qos.m]", "d=2"])
    ),
    st.dictionaries(
        st.sampled_from("abcde"), st.none() | st.integers(0, 9) | st.text() | st.lists(st.text())
    ),
)
def test_a_change_is_exactly_what_was_asked_for_or_refused(
    lines: list[str], values: dict[str, Value | None]
) -> None:
    text = "\n".join(["[qos.n]", *lines]) + "\n"
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    try:
        after = tomllib.loads(with_values(text, "qos", "n", values))
    except UserError:
        return
    merged = before["qos"]["n"] | values
    before["qos"]["n"] = {key: value for key, value in merged.items() if value is not None}
    assert after == before
