"""Hostlists as scontrol reads and writes them; every case was measured with scontrol 22.05."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpdeck_agent.wire.hostnames import collapse, collapse_sorted, entity, expand, show


def run(*words: str, **env: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return show(words, env, out, err), out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a[1-3,5],b", "a1 a2 a3 a5 b"),
        ("a[1-2]b[3-4]", "a1b3 a1b4 a2b3 a2b4"),
        ("a[1-2][3-4]", "a13 a14 a23 a24"),
        ("a,b,,c", "a b c"),
        ("a b", "a b"),
        ("[1-3]", "1 2 3"),
        ("a[09-11]", "a09 a10 a11"),
        ("a[1-]", "a1"),
        ("a[1,1]", "a1 a1"),
        (" a,", "a"),
        ("a]", "a]"),
    ],
)
def test_hostnames_are_printed_one_per_line(text: str, names: str) -> None:
    assert run("hostnames", text) == (0, "".join(f"{name}\n" for name in names.split()), "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a[1-3,7-9]x", ""),
        ("a[01-03]b,c[1-2]d[1-2]", ""),
        ("a[x]", "scontrol: error: _parse_single_range: Invalid range: `x'\n"),
        ("a[0-2:2]", "scontrol: error: _parse_single_range: Invalid range: `0-2:2'\n"),
        ("tux[3-1]", "scontrol: error: _parse_single_range: Invalid range: `3-1'\n"),
        ("a[1-70000]", "scontrol: error: _parse_single_range: Too many hosts in range `1-70000'\n"),
    ],
)
def test_an_invalid_hostlist_is_reported_with_exit_code_0(text: str, message: str) -> None:
    assert run("hostnames", text) == (0, "", f"{message}Invalid hostlist: {text}\n")


@pytest.mark.parametrize(
    ("names", "plain", "ordered"),
    [
        ("a1,a2,a3,b", "a[1-3],b", "a[1-3],b"),
        ("a3,a1,a2,a1", "a[3,1-2,1]", "a[1,1-3]"),
        ("a1,a01,a001", "a[1,01,001]", "a[1,01,001]"),
        ("a10,a9", "a[10,9]", "a[9-10]"),
        ("b,a", "b,a", "a,b"),
        ("a1b,a2b,n01,n02,n3,x", "a1b,a2b,n[01-02,3],x", "a1b,a2b,n[3,01-02],x"),
        ("r1n1,r1n2,r2n1", "r1n[1-2],r2n1", "r1n[1-2],r2n1"),
        ("x,x", "x,x", "x,x"),
        ("1,2,3", "[1-3]", "[1-3]"),
        ("n1,m1,n2", "n1,m1,n2", "m1,n[1-2]"),
        ("gpu01,gpu02,login,gpu04", "gpu[01-02],login,gpu04", "gpu[01-02,04],login"),
    ],
)
def test_hostlists_keep_the_order_unless_sorted(names: str, plain: str, ordered: str) -> None:
    assert run("hostlist", names) == (0, plain + "\n", "")
    assert run("hostlistsorted", names) == (0, ordered + "\n", "")


def test_the_hostlist_defaults_to_the_jobs_nodes() -> None:
    assert run("hostnames", SLURM_JOB_NODELIST="x[1-2]")[1] == "x1\nx2\n"
    assert run("hostnames") == (0, "", "scontrol: error: host list is empty\n")
    assert run("hostlist") == (1, "", "invalid encode argument\n")


def test_the_entity_may_be_abbreviated() -> None:
    assert [entity(word) for word in ("hostn", "HOSTNAMES", "hostl", "hostlists", "host", "hosts")] == [
        *("hostnames", "hostnames", "hostlist", "hostlistsorted", "", "")
    ]


NAMES = st.lists(st.from_regex(r"[a-c]{1,2}(-[a-c])?[0-9]{0,4}", fullmatch=True), min_size=1, max_size=30)


@given(NAMES)
def test_expanding_a_collapsed_list_returns_the_names(names: list[str]) -> None:
    assert expand(collapse(names)) == names
    assert sorted(expand(collapse_sorted(names))) == sorted(names)


@given(st.text(max_size=60))
def test_no_text_crashes_the_expansion(text: str) -> None:
    assert run("hostnames", text)[0] == 0
