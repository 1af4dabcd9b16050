"""Command lines of the Slurm-compatible commands."""

from __future__ import annotations

import pytest

from warpdeck.slurm.console.command_options import (
    EMPTY,
    WordsError,
    check_cluster,
    options,
    read,
    read_anywhere,
    read_lists,
    split_list,
)

KNOWN = options("squeue", "array,r format=,o jobs?,j me noheader,h user=,u")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("-h -u ann", [("noheader", ""), ("user", "ann")]),
        ("-hu ann", [("noheader", ""), ("user", "ann")]),
        ("-uann --user=bob", [("user", "ann"), ("user", "bob")]),
        ("--noh --form=%i", [("noheader", ""), ("format", "%i")]),
    ],
)
def test_options_are_read_as_by_getopt_long(line: str, found: list[tuple[str, str]]) -> None:
    assert read(line.split(), KNOWN) == (found, [])


@pytest.mark.parametrize("line", ["--nosuch", "-x", "-u", "--user", "--me=1"])
def test_a_wrong_line_is_refused_with_the_way_to_the_help(line: str) -> None:
    with pytest.raises(WordsError) as raised:
        read(line.split(), KNOWN)
    assert raised.value.message.endswith('Try "squeue --help" for more information')
    assert (raised.value.exit_code, raised.value.bare) == (1, True)


def test_parsing_stops_at_the_first_word_unless_options_may_follow() -> None:
    assert read(["-h", "12", "-r"], KNOWN) == ([("noheader", "")], ["12", "-r"])
    assert read_anywhere(["-h", "12", "-r"], KNOWN) == ([("noheader", ""), ("array", "")], ["12"])


def test_a_word_is_the_value_of_the_list_option_before_it() -> None:
    assert read_lists(["-j", "12,13"], KNOWN, optional=("jobs",)) == ([("jobs", ""), ("jobs", "12,13")], [])
    assert read_lists(["12"], KNOWN, optional=("jobs",)) == ([], ["12"])
    assert read_lists(["--jobs="], KNOWN, optional=("jobs",)) == ([("jobs", EMPTY)], [])


def test_another_cluster_is_refused() -> None:
    check_cluster("squeue", None)
    check_cluster("squeue", "warpdeck")
    with pytest.raises(WordsError, match="No cluster 'other' known by database"):
        check_cluster("squeue", "other")


def test_empty_words_of_a_list_are_dropped() -> None:
    assert split_list(",a,,b,") == ["a", "b"]
