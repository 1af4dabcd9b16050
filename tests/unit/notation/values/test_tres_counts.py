"""TRES lists: parsed, formatted, and refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpdeck.base.errors import UserError
from warpdeck.notation.values.hostlist import expand
from warpdeck.notation.values.tres_counts import (
    format_tres,
    format_tres_prices,
    format_tres_weights,
    parse_tres,
    parse_tres_prices,
    parse_tres_weights,
)

NAMES = st.sampled_from(["cpu", "mem", "node", "billing", "gres/gpu", "gres/gpu:a100", "license/MatLab"])


def test_counts_are_read_with_memory_in_mib() -> None:
    text = "CPU=64,mem=1T,GRES/gpu:A100=8,license/MatLab=2"
    assert parse_tres(text) == {"cpu": 64, "mem": 2**20, "gres/gpu:a100": 8, "license/MatLab": 2}


def test_memory_prices_refer_to_the_written_unit() -> None:
    assert parse_tres_prices("cpu=1.0,Mem=0.25G") == {"cpu": 1.0, "mem": 0.25 / 1024}


def test_weights_have_no_unit() -> None:
    assert parse_tres_weights("cpu=1000,mem=2000") == {"cpu": 1000.0, "mem": 2000.0}
    with pytest.raises(UserError, match="mem=1G is not a weight"):
        parse_tres_weights("mem=1G")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("gpu=8", "'gpu' is not a TRES"),
        ("gres/gpu=many", "gres/gpu=many is not a count"),
        ("gres/gpu=-1", "is not a count"),
        ("cpu", "'cpu' has no count"),
        ("cpu=1,CPU=2", "cpu occurs twice"),
        ("mem=64GiB", "'64GiB' is not a memory size"),
        (",", "'' is not a TRES"),
    ],
)
def test_invalid_tres_lists_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        parse_tres(text)


@given(st.dictionaries(NAMES, st.integers(0, 10**12)))
def test_formatted_counts_are_parsed_to_the_same_counts(counts: dict[str, int]) -> None:
    assert parse_tres(format_tres(counts)) == counts


@given(st.dictionaries(NAMES, st.integers(0, 10**9).map(lambda number: number / 64)))
def test_formatted_prices_and_weights_are_parsed_to_the_same_values(prices: dict[str, float]) -> None:
    assert parse_tres_prices(format_tres_prices(prices)) == prices
    assert parse_tres_weights(format_tres_weights(prices)) == prices


def test_a_hostlist_may_have_several_brackets() -> None:
    assert expand("r[1-2]n[01-02]-ib,login") == ["r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib", "login"]


@pytest.mark.parametrize(
    "text",
    [
        *("a[1-2", "a]1[", "a[[1]]", "a[x]", "a[5-1]", "r[1-99999]n[1-99999]"),
        *(f"a[{'0' * 19}-1]", f"a[{'9' * 5000}]", "a" * 256, f"{'a' * 250}[1-999999]"),
    ],
)
def test_invalid_hostlists_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="hostlist"):
        expand(text)
