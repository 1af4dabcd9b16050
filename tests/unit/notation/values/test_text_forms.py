"""Slurm's text forms are read as Slurm reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpdeck.base.errors import UserError
from warpdeck.notation.values.arrays import parse_array, parse_array_option
from warpdeck.notation.values.dependencies import format_dependencies, parse_dependencies
from warpdeck.notation.values.durations import format_duration, parse_limit
from warpdeck.notation.values.file_patterns import resolve
from warpdeck.notation.values.gres import parse_gpus, parse_gres
from warpdeck.notation.values.hostlist import collapse, expand
from warpdeck.notation.values.memory_sizes import format_memory, parse_memory
from warpdeck.notation.values.signals import parse_signal, read_warning

MIB = 2**20


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("90", 90),
        ("1:30", 2),
        ("1:30:00", 90),
        ("2-0", 2880),
        ("2-12:30:15", 3631),
        ("24:00", 24),
        ("0-2:0", 120),
        ("100:00:00", 6000),
        ("1-", 1440),
        ("6:0", 6),
    ],
)
def test_times_are_read_as_slurm_reads_them(text: str, minutes: int) -> None:
    assert parse_limit(text) == minutes * 60


@pytest.mark.parametrize("text", ["0", "-1", "INFINITE", "unlimited"])
def test_some_texts_mean_no_time_limit(text: str) -> None:
    assert parse_limit(text) is None


@pytest.mark.parametrize("text", ["12h", "1d", "1.5", "1:2:3:4", "", "x", "48:00:00:00"])
def test_invalid_times_are_refused(text: str) -> None:
    with pytest.raises(UserError):
        parse_limit(text)


def test_durations_are_printed_like_squeue() -> None:
    assert [format_duration(value) for value in (5, 303, 3723, 176_523, None)] == [
        "0:05",
        "5:03",
        "1:02:03",
        "2-01:02:03",
        "UNLIMITED",
    ]


@pytest.mark.parametrize(
    ("text", "mib"),
    [("64G", 65536), ("64GB", 65536), ("64gb", 65536), ("512000", 512000), ("1T", MIB), ("100K", 1)],
)
def test_memory_sizes_are_read_as_slurm_reads_them(text: str, mib: int) -> None:
    assert parse_memory(text) == mib * MIB


@pytest.mark.parametrize("text", ["64GiB", "1.5G", "all", "64G,", ""])
def test_invalid_memory_sizes_are_refused(text: str) -> None:
    with pytest.raises(UserError):
        parse_memory(text)


def test_memory_sizes_are_printed_short() -> None:
    assert [format_memory(value) for value in (None, 512 * MIB, 3 * 2**30 // 2, 80 * 2**30)] == [
        "",
        "512M",
        "1.5G",
        "80G",
    ]


def test_requests_for_gpus_are_read() -> None:
    assert parse_gres("gpu") == {"per_node": 1, "type": ""}
    assert parse_gres("gpu:4") == {"per_node": 4, "type": ""}
    assert parse_gres("gpu:a100") == {"per_node": 1, "type": "a100"}
    mig = "nvidia_h100_80gb_hbm3_3g.40gb"
    assert parse_gres(f"gpu:{mig}:2") == {"per_node": 2, "type": mig}
    assert parse_gres("none") == parse_gres("gpu:0") == parse_gpus("0", "gpus") == {}
    assert parse_gpus("h200:4", "gpus") == {"total": 4, "type": "h200"}
    for bad in (
        "gpu=2",
        "gpu:",
        "foo:1",
        "gpu:1,nvme:100",
        "gpu:2(S:0)",
        "gpu:1,shard:2",
        f"gpu:{'1' * 5000}",
    ):
        with pytest.raises(UserError):
            parse_gres(bad)


def test_requests_for_parts_of_gpus_are_read() -> None:
    assert parse_gpus("0.5", "gpus") == {"share_pct": 50, "type": ""}
    assert parse_gpus("h100:.25", "gpus-per-node") == {"share_pct": 25, "type": "h100"}
    assert parse_gres("gpu:a100:0.1") == {"share_pct": 10, "type": "a100"}
    assert parse_gres("shard:4") == {"shards": 4, "type": ""}
    assert parse_gres("shard:h100:2") == {"shards": 2, "type": "h100"}
    for bad in ("1.5", "0.0", "0.001", "-0.5"):
        with pytest.raises(UserError):
            parse_gpus(bad, "gpus")
    with pytest.raises(UserError):
        parse_gpus("0.5", "gpus-per-task")


def test_arrays_are_read() -> None:
    assert parse_array("0-9") == ([(0, 9, 1)], 0)
    assert parse_array("1-100:20%5") == ([(1, 81, 20)], 5)
    assert parse_array("7,4,22") == ([(4, 4, 1), (7, 7, 1), (22, 22, 1)], 0)
    assert parse_array("0-4,2-6") == ([(0, 6, 1)], 0)
    for bad in ("9-0", "%4", "0-", "a", "1-5%x"):
        with pytest.raises(UserError):
            parse_array(bad)


def test_an_invalid_array_limit_means_no_limit() -> None:
    assert parse_array_option("0-3%2") == ([(0, 3, 1)], 2)
    assert (
        parse_array_option("0-3%x")
        == parse_array_option("0-3%0")
        == parse_array_option("0-3%-1")
        == ([(0, 3, 1)], 0)
    )
    assert parse_array_option("") is parse_array_option(",") is None


def test_dependencies_ignore_case_and_repeated_jobs() -> None:
    assert format_dependencies(parse_dependencies("AfterOK:1:1,SINGLETON")) == "afterok:1,singleton"


def test_dependencies_are_read_and_formatted() -> None:
    parsed = parse_dependencies("afterok:1:2_3,afterany:4")
    assert [(clause["kind"], clause["job_id"], clause.get("task")) for clause in parsed["clauses"]] == [
        ("afterok", 1, None),
        ("afterok", 2, 3),
        ("afterany", 4, None),
    ]
    assert format_dependencies(parsed) == "afterok:1,afterok:2_3,afterany:4"
    assert parse_dependencies("after:5+10")["clauses"][0]["delay_s"] == 600
    assert parse_dependencies("afterok:1?afterok:2")["any_of"]
    for bad in ("afterok", "nonsense:1", "afterok:x", "afterok:1?afterok:2,afterok:3"):
        with pytest.raises(UserError):
            parse_dependencies(bad)


def test_file_patterns_are_resolved() -> None:
    values = {"j": "12", "x": "train", "A": "10", "a": "3"}
    assert resolve("logs/%x-%A_%a.out", values) == "logs/train-10_3.out"
    assert resolve("%6j-%%-%q", values) == "000012-%-%q"
    assert resolve("\\%j", values) == "%j"


def test_hostlists_are_expanded_and_collapsed() -> None:
    assert expand("gpu[01-03,07],login") == ["gpu01", "gpu02", "gpu03", "gpu07", "login"]
    assert collapse(["gpu01", "gpu02", "gpu03", "gpu07", "login"]) == "gpu[01-03,07],login"
    assert collapse(["gpu1"]) == "gpu1"
    for bad in ("gpu[1-", "gpu[a]", "gpu[1-999999999]"):
        with pytest.raises(UserError):
            expand(bad)


@given(st.sets(st.integers(0, 3000), min_size=1, max_size=60), st.integers(4, 6))
def test_expanding_a_collapsed_hostlist_returns_its_names(numbers: set[int], width: int) -> None:
    names = [f"n{number:0{width}d}" for number in sorted(numbers)]
    assert expand(collapse(names)) == names


@given(st.text(max_size=30))
def test_parsers_accept_or_refuse_any_text(text: str) -> None:
    read_any(text)


def test_parsers_accept_or_refuse_very_long_texts() -> None:
    """Long numbers and deep nesting must not crash a parser, because the controller itself parses some of them."""
    for unit in ("9", "0", "a", "a,", "1-2,", "gpu:", "a[1-9]", "[", "(", "afterok:1:", "²"):
        for begin in ("", "gpu:", "a[1-", "1-", "afterok:", "USR1@"):
            read_any(begin + unit * (20_000 // len(unit)))


def read_any(text: str) -> None:
    """Parse the text with each parser. A parser may refuse it with a message."""
    parsers = (
        *(parse_limit, parse_memory, parse_gres, parse_array, parse_array_option, parse_dependencies, expand),
        *(lambda text: parse_gpus(text, "gpus"), parse_signal, read_warning),
    )
    for parse in parsers:
        try:
            parse(text)
        except UserError as error:
            assert error.message
