"""Random format strings of Slurm's viewers never cause a traceback, and always print one line per row."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.core import Core, make_request

from warpdeck.controller.presenters.job_columns import JOB_FIELDS, job_row, row_maker
from warpdeck.controller.presenters.node_facts import node_facts
from warpdeck.model import ArraySpec
from warpdeck.protocol.site_rows import PartitionRow
from warpdeck.slurm.fields import job_json
from warpdeck.slurm.format.format_strings import LineLayout, letters_of, long_columns, needed, short_columns
from warpdeck.slurm.viewers import sinfo_columns, squeue_columns, squeue_step_columns
from warpdeck.slurm.viewers.job_order import SortError, job_keys, parse, sort

NOW = time.time()
LETTER = st.sampled_from("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ%.#-+: ,|\\é\n0123456789")
FORM = st.text(LETTER, max_size=30) | st.text(max_size=10)


def _jobs() -> list[dict[str, Any]]:
    core = Core("n1", "n2")
    core.end(core.run(make_request("ended")), exit_code=3)
    core.run(make_request("runs", gpus=2))
    core.submit(make_request("array", array=ArraySpec(ranges=((1, 99, 2),), throttle=3), hold=True))
    jobs = list(core.state.jobs.values())
    whole = [msgspec.to_builtins(job_row(core.state, job)) for job in jobs]
    facts = msgspec.to_builtins(row_maker(core.state, JOB_FIELDS, now=NOW)(jobs))
    return [row | fact for row, fact in zip(whole, facts, strict=True)]


def _groups() -> list[dict[str, Any]]:
    core = Core("n1", "n2")
    core.lose("n2")
    nodes = msgspec.to_builtins(node_facts(core.state, core.state.nodes.values(), now=NOW))
    part = msgspec.to_builtins(PartitionRow(name="main"))
    return [sinfo_columns.group(part, nodes), sinfo_columns.group(part, [])]


STEP = {
    "id": "4_1.0", "name": "train", "state": "RUNNING", "start": NOW - 70, "tasks": 2, "node_list": "n1", "cpus": 2,
    "job_id": 5, "array_job_id": 4, "array_task_id": 1, "user": "ann", "uid": 1, "partition": "main",
}  # fmt: skip
PRINTED = squeue_columns.job_columns(now=NOW)
STEPS = squeue_step_columns.step_columns(now=NOW)
NODES = sinfo_columns.as_fields(sinfo_columns.prints())
KINDS = {
    "jobs": (letters_of(PRINTED), PRINTED, _jobs()),
    "steps": (letters_of(STEPS), STEPS, [STEP]),
    "nodes": (letters_of(NODES), NODES, _groups()),
}


@pytest.mark.parametrize("kind", KINDS)
@given(form=FORM)
def test_any_short_format_prints_one_line_per_row(kind: str, form: str) -> None:
    letters, fields, rows = KINDS[kind]
    columns = short_columns(form, letters, lambda _: None)
    layout = LineLayout(columns, fields)
    assert set(needed(columns, fields)) <= set(rows[0])
    for text in (layout.titles(), *(layout.line(row) for row in rows)):
        assert text.count("\n") == sum(column.suffix.count("\n") for column in columns)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), form=FORM)
def test_any_long_format_prints_one_line_per_row(kind: str, data: st.DataObject, form: str) -> None:
    _, fields, rows = KINDS[kind]
    names = data.draw(st.lists(st.sampled_from(sorted(fields)), max_size=4))
    text = ",".join([f"{name}:{form}" for name in names] or [form])
    layout = LineLayout(long_columns(text, {name: name for name in fields}, lambda _: None), fields)
    lines = [layout.titles(), *(layout.line(row) for row in rows)]
    assert all(isinstance(line, str) for line in lines)


NEVER_CUT = {"nodelist", "reasonlist", "resizetime", "schednodes", "timeleft", "timelimit", "timeused"}
"""Real squeue prints these fields right-aligned without truncation."""


@given(width=st.integers(1, 200), right=st.booleans(), name=st.sampled_from(sorted(PRINTED)))
@example(width=1, right=True, name="reasonlist")
@example(width=1, right=False, name="reasonlist")
@example(width=2, right=True, name="timeleft")
def test_a_column_has_its_requested_width(width: int, right: bool, name: str) -> None:
    fields, rows = PRINTED, KINDS["jobs"][2]
    layout = LineLayout(
        long_columns(
            f"{name}:{'.' if right else ''}{width}|", {each: each for each in fields}, lambda _: None
        ),
        fields,
    )
    wholes = [fields[name].title, *(fields[name].text(row) for row in rows)]
    for line, text in zip((layout.titles(), *map(layout.line, rows)), wholes, strict=True):
        is_whole = right and name in NEVER_CUT and line == f"{text}|"
        assert len(line) == width + 1 or (is_whole and len(text) > width)
        assert line.endswith("|")


@given(text=FORM)
def test_any_sort_order_sorts_all_rows_or_names_the_invalid_letter(text: str) -> None:
    rows = list(KINDS["jobs"][2])
    try:
        keys = parse(text, job_keys(PRINTED))
    except SortError as error:
        assert str(error) in text
        return
    sort(rows, keys, ties=lambda row: row["id"])
    assert len(rows) == len(KINDS["jobs"][2])


def test_every_letter_has_a_field_and_every_field_its_columns() -> None:
    for letters, fields, rows in KINDS.values():
        assert set(letters.values()) <= set(fields)
        for field in fields.values():
            assert set(field.needs.split()) <= set(rows[0])


def test_the_json_of_a_job_reads_only_the_columns_that_it_names() -> None:
    for row in KINDS["jobs"][2]:
        few = {name: row[name] for name in job_json.NEEDS}
        assert job_json.job_object(few) == job_json.job_object(row)


def test_each_field_reads_only_the_columns_that_it_names() -> None:
    for field in PRINTED.values():
        for row in KINDS["jobs"][2]:
            assert field.text({name: row[name] for name in field.needs.split()}) == field.text(row)
            key = field.key()
            assert key.value({name: row[name] for name in key.needs.split()}) == key.value(row)
