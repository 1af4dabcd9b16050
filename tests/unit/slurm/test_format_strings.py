"""Format strings of -o and -O, as squeue(1) describes them."""

from __future__ import annotations

import pytest

from warpdeck.slurm.format.format_strings import (
    NULL,
    LineLayout,
    TextField,
    cut,
    fixed,
    letters_of,
    long_columns,
    needed,
    short_columns,
    whole,
)

FIELDS = {
    "jobid": TextField("JOBID", "id", lambda row: str(row["id"]), letter="i"),
    "name": TextField("NAME", "name", lambda row: row["name"], letter="j"),
    "nodelist": TextField("NODELIST", "nodes", lambda row: row["nodes"], whole, letter="N"),
    "account": fixed("ACCOUNT", NULL, "a"),
}
LETTERS = letters_of(FIELDS)
ROW = {"id": 12, "name": "pretrain", "nodes": "gpu[01-04]"}


def short(form: str) -> tuple[str, str, list[str]]:
    """Return the line of titles, the line of the row, and the unknown letters."""
    unknown: list[str] = []
    layout = LineLayout(short_columns(form, LETTERS, unknown.append), FIELDS)
    return layout.titles(), layout.line(ROW), unknown


def long(form: str) -> tuple[str, str, list[str]]:
    """Like `short`, for a format of names."""
    unknown: list[str] = []
    layout = LineLayout(long_columns(form, {name: name for name in FIELDS}, unknown.append), FIELDS)
    return layout.titles(), layout.line(ROW), unknown


@pytest.mark.parametrize(
    ("form", "titles", "line"),
    [
        ("%i %j", "JOBID NAME", "12 pretrain"),
        ("%6i|", "JOBID |", "12    |"),
        ("%.6i|", " JOBID|", "    12|"),
        ("%3j.", "NAM.", "pre."),
        ("%.3j.", "NAM.", "pre."),
        ("jobs: %i", "jobs: JOBID", "jobs: 12"),
        ("%%i", "JOBID", "12"),
        ("100% %i", "100% JOBID", "100% 12"),
    ],
)
def test_a_width_pads_and_cuts_and_a_period_aligns_to_the_right(form: str, titles: str, line: str) -> None:
    assert short(form)[:2] == (titles, line)


def test_a_node_list_is_cut_only_on_the_left_and_its_title_never_on_the_right() -> None:
    assert short("%4N|%.4N|")[:2] == ("NODE|NODELIST|", "gpu[|gpu[01-04]|")


def test_an_absent_value_leaves_a_narrow_column_empty() -> None:
    assert [cut(NULL, width, False) for width in (4, 6)] == ["", NULL]
    assert cut(NULL, 4, True) == "(nul"


def test_an_unknown_letter_is_reported_and_printed_as_it_was_written() -> None:
    assert short("%i %5! %j") == ("JOBID %5! NAME", "12 %5! pretrain", ["!"])


def test_all_prints_every_letter_in_the_order_of_squeue() -> None:
    assert list(LETTERS) == ["a", "i", "j", "N"]
    assert short("%all")[:2] == ("ACCOUNT|JOBID|NAME|NODELIST", f"{NULL}|12|pretrain|gpu[01-04]")


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("JobID", f"{'12':20}"),
        ("jobid:5,name", f"12   {'pretrain':20}"),
        ("jobid:,name:", "12pretrain"),
        ("jobid:.5;,name:3", "   12;pre"),
        (",jobid:3,,", "12 "),
    ],
)
def test_names_have_widths_and_suffixes(form: str, line: str) -> None:
    assert long(form)[1:] == (line, [])


def test_an_unknown_name_is_reported_and_only_its_suffix_is_printed() -> None:
    assert long("jobid:3,nosuch:4!,name:") == ("JOB!NAME", "12 !pretrain", ["nosuch"])


def test_only_the_columns_that_the_fields_read_are_requested() -> None:
    columns = short_columns("%i %a %N %i", LETTERS, lambda _: None)
    assert needed(columns, FIELDS) == ["id", "nodes"]


def test_a_mistyped_width_is_limited() -> None:
    assert len(short("%99999999999i")[1]) == 10_000
