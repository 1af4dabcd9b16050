"""Writing a configuration, and comparing two."""

from __future__ import annotations

import tomllib
from datetime import datetime
from typing import Any, Literal, get_args, get_origin

from hypothesis import given, settings
from hypothesis import strategies as st

from warpdeck.config import Config, changes, decode, entries, write
from warpdeck.config.decode import convert, entry_type, field_types, form_of, is_table
from warpdeck.config.table_types import Private, Table

NAMES = st.text("abcXYZ019_-.é", min_size=1, max_size=6)
FORMS: dict[str, st.SearchStrategy[Any]] = {
    "2-00:00:00": st.integers(1, 10_000).map(lambda minutes: minutes * 60),
    "4G": st.integers(0, 10_000).map(lambda mib: mib * 2**20),
    "gpu[01-08]": st.sampled_from([("n1",), ("n1", "n2", "x7"), ("login",)]),
    "gres/gpu=8,cpu=64": st.dictionaries(st.sampled_from(["cpu", "mem", "gres/gpu"]), st.integers(0, 9999)),
}


def tables_of(kind: type[Table]) -> st.SearchStrategy[Any]:
    """Return tables of that kind in which each key is valid separately."""
    fields = {name: values_of(name, each) for name, each in field_types(kind).items()}
    return st.fixed_dictionaries({}, optional=fields).map(lambda chosen: kind(**chosen))


def values_of(name: str, kind: Any) -> st.SearchStrategy[Any]:
    """Return valid values of a key."""
    form = form_of(kind)
    if is_table(kind):
        return tables_of(kind)
    if form is not None:
        return FORMS[form.example]
    if get_origin(kind) is dict:
        inner = entry_type(kind)
        keys = st.sampled_from(["n1", "n[2-3]"]) if name == "nodes" else NAMES
        return st.dictionaries(keys, values_of("", inner), max_size=2)
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if "tuple" in str(kind) and "int" in str(kind):
        return st.lists(st.integers(0, 200), max_size=3).map(tuple)
    if name == "private_data":
        return st.lists(st.sampled_from(get_args(Private)), max_size=3).map(tuple)
    if "tuple" in str(kind):
        return st.lists(NAMES, max_size=3).map(tuple)
    plain = {bool: st.booleans(), str: NAMES, datetime: st.just(datetime(2027, 1, 2, 3, 4, 5))}
    for one, strategy in plain.items():
        if kind is one or one in get_args(kind):
            return strategy
    return st.integers(1, 10**9)


def without_rules(text: str) -> Config:
    """Decode without the checks between tables."""
    config, found = convert(tomllib.loads(text))
    assert found == []
    return config


@settings(max_examples=60, deadline=None)
@given(tables_of(Config))
def test_a_written_configuration_reads_back_unchanged(config: Config) -> None:
    assert without_rules(write(config)) == config
    assert without_rules(write(config, defaults=True)) == config
    assert changes(config, without_rules(write(config))) == []


def test_only_keys_that_were_set_are_written() -> None:
    text = '[qos.high]\npriority = 3\n\n[qos.low]\nmax_wall = "1:00:00"\n'
    assert write(decode(text, "f").config) == text


def test_a_remark_follows_its_key_as_a_comment() -> None:
    config = decode("grace_s = 5", "f").config
    assert write(config, remarks={("grace_s",): "here"}) == f"{'grace_s = 5':<44}  # here\n"


def test_all_keys_are_listed_including_defaults() -> None:
    found = {entry.path: entry for entry in entries(decode("[partitions.gpu]\nmin_nodes = 2", "f").config)}
    assert found["partitions", "gpu", "min_nodes"].text == "2"
    assert not found["partitions", "gpu", "min_nodes"].default
    assert found["partitions", "gpu", "state"].text == '"UP"'
    assert found["partitions", "gpu", "state"].default
    assert found["partitions", "gpu", "max_nodes"].text == ""


def test_changes_name_added_removed_and_changed_keys() -> None:
    old = decode('[qos.a]\n[qos.b]\nmax_wall = "60"\n[licenses]\nx = 1\nz = 1\n', "f").config
    new = decode('[qos.b]\nmax_wall = "90"\n[qos.c]\npriority = 1\n[licenses]\ny = 2\nz = 2\n', "f").config
    assert changes(old, new) == [
        "licenses.x: removed",
        "licenses.y: added",
        "licenses.z: 1 -> 2",
        "qos.a: removed",
        "qos.c: added",
        'qos.b.max_wall: "1:00:00" -> "1:30:00"',
    ]


@settings(max_examples=40, deadline=None)
@given(tables_of(Config), tables_of(Config))
def test_two_configurations_differ_if_and_only_if_a_change_is_listed(old: Config, new: Config) -> None:
    assert bool(changes(old, new)) == (old != new)
