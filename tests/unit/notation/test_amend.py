"""Tables of config.toml changed in place."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpdeck.base.errors import UserError
from warpdeck.model.amendment import Amendment, Value
from warpdeck.notation.config.rules import values_of
from warpdeck.notation.config.toml_edit import amended

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

[accounts.vision]
[accounts.vision.users.ann]
shares = 3

[accounts.speech]
users.ann = {}  # Monday's Ann
users.eve = { max_wall = "1:00:00", shares = 2 }
"""


def changed(text: str, path: str, **values: Value | None) -> str:
    return amended(text, [Amendment(path=tuple(path.split("/")), values=values)])


def without(text: str, path: str) -> str:
    return amended(text, [Amendment(path=tuple(path.split("/")))])


def test_a_value_is_changed_where_it_stands_and_all_else_stays() -> None:
    after = changed(TEXT, "qos/urgent", priority=50, preempts=["normal"], max_wall=None, usage_factor=0.5)
    assert after == TEXT.replace("100", "50").replace(', "scavenger"', "").replace(
        "max_wall = '12:00:00'\n", "usage_factor = 0.5\n"
    )
    assert values_of(after, "qos", "urgent") == {"priority": 50, "preempts": ["normal"], "usage_factor": 0.5}
    back = changed(TEXT, "qos/normal", max_tres_per_user='a "quoted" \\ word')
    assert '"a \\"quoted\\" \\\\ word"  # half of it' in back


def test_an_account_stays_when_its_last_user_is_removed() -> None:
    text = "[accounts.ml.users.ann]\ndefault = true\n[accounts.bio]\nusers.eve = {}\n"
    alone = without(text, "accounts/ml/users/ann")
    assert alone == "[accounts.bio]\nusers.eve = {}\n\n[accounts.ml]\n"
    both = without("[accounts.ml.users.ann]\n[accounts.ml.users.bob]\n", "accounts/ml/users/ann")
    assert both == "[accounts.ml.users.bob]\n"
    assert values_of(without(both, "accounts/ml/users/bob"), "accounts") == {"ml": {}}


def test_a_table_that_only_tables_below_it_name_gets_lines_of_its_own() -> None:
    text = "[accounts.ml.users.ann]\ndefault = true\n[accounts.bio]\nusers.eve = {}\n"
    after = changed(text, "accounts/ml", shares=2)
    assert text.rstrip() in after
    assert values_of(after, "accounts", "ml") == {"shares": 2, "users": {"ann": {"default": True}}}
    assert values_of(changed(after, "accounts/ml/users", gus="x"), "accounts", "ml", "users")["gus"] == "x"


def test_a_table_comes_below_its_like_and_goes_again() -> None:
    after = changed(TEXT, "qos/low", priority=1)
    assert after == TEXT.replace("\n[partitions", "\n[qos.low]\npriority = 1\n\n[partitions")
    assert without(after, "qos/low") == TEXT
    assert changed("", "partitions/new") == "[partitions.new]\n"
    assert changed("grace_s = 1", "qos/new") == "grace_s = 1\n\n[qos.new]\n"
    assert without(TEXT, "qos/normal").startswith("# the lab's rules\n\n# whoever")
    assert "ann" not in without(TEXT, "accounts/vision").partition("[accounts.speech]")[0]


@pytest.mark.parametrize(
    ("path", "values", "line"),
    [
        ("accounts/speech/users/ann", {"shares": 4}, "users.ann = { shares = 4 }  # Monday's Ann"),
        ("accounts/speech/users/eve", {"max_wall": None}, "users.eve = { shares = 2 }"),
        ("accounts/speech/users/k.lee", {"default": True}, 'users."k.lee" = { default = true }'),
        ("accounts/vision/users/kim", {"shares": 2}, "[accounts.vision.users.kim]\nshares = 2"),
        ("accounts/new", {"parent": "vision"}, '[accounts.new]\nparent = "vision"'),
    ],
)
def test_what_is_new_is_written_as_its_like_is(path: str, values: dict[str, Value | None], line: str) -> None:
    after = amended(TEXT, [Amendment(path=tuple(path.split("/")), values=values)])
    assert f"\n{line}\n" in after
    kept = {word for word in TEXT.splitlines() if not word.startswith("users.")}
    assert kept <= set(after.splitlines())


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("qos.high = { priority = 1 }\n", 'qos.high = { priority = 1, max_wall = "2" }\n'),
        ("qos = { high = { priority = 1 } }\n", 'qos = { high = { priority = 1, max_wall = "2" } }\n'),
        ("[qos]\nhigh.priority = 1\n", '[qos]\nhigh.priority = 1\nhigh.max_wall = "2"\n'),
        ('[qos.high]\npreempts = [\n  "a",\n]\n', '[qos.high]\npreempts = [\n  "a",\n]\nmax_wall = "2"\n'),
        ('[qos.high]\nmax_wall = """\n1\n""" # so\n', '[qos.high]\nmax_wall = "2" # so\n'),
        ("[qos.high]\nx = '''\n[qos.high]\n'''", "[qos.high]\nx = '''\n[qos.high]\n'''\nmax_wall = \"2\"\n"),
    ],
)
def test_whatever_way_it_is_written_in(text: str, after: str) -> None:
    assert changed(text, "qos/high", max_wall="2") == after


def test_several_changes_are_one() -> None:
    path = ("accounts", "speech", "users")
    gone = [Amendment(path=(*path, name)) for name in ("ann", "eve")]
    after = amended(TEXT, [*gone, Amendment(path=("accounts", "speech"), values={"shares": 7})])
    assert values_of(after, "accounts", "speech") == {"shares": 7}


def test_what_is_no_table_no_name_or_no_file_is_told() -> None:
    with pytest.raises(UserError, match="is no name"):
        changed("", "qos/a\nb")
    with pytest.raises(UserError, match="cannot be read"):
        changed("[qos", "qos/a")
    with pytest.raises(UserError, match="is no table"):
        changed("qos = 3", "qos/a", priority=1)
    with pytest.raises(UserError, match="is no table"):
        without("[[qos]]\na = 1\n", "qos")


LINES = [
    "a = 1",
    "b = 'x' # [y]",
    "",
    "# [qos.n]",
    'c = ["p", "q"]',
    "[qos.m]",
    "d=2",
    "e = { x = 1 }",
    "f.g = 3",
]
KEYS = st.sampled_from("abcdex")
VALUES = st.none() | st.booleans() | st.integers(0, 9) | st.text() | st.lists(st.text())


@given(
    st.lists(st.sampled_from(LINES)),
    st.sampled_from([("qos", "n"), ("qos", "m"), ("qos", "n", "e"), ("qos", "n", "f"), ("qos", "k")]),
    st.none() | st.dictionaries(KEYS, VALUES),
)
def test_a_change_is_exactly_what_was_asked_for_or_refused(
    lines: list[str], path: tuple[str, ...], values: dict[str, Value | None] | None
) -> None:
    text = "\n".join(["[qos.n]", *lines]) + "\n"
    try:
        wanted: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    try:
        after = tomllib.loads(amended(text, [Amendment(path=path, values=values)]))
    except UserError:
        return
    table = wanted
    for word in path[:-1]:
        table = table[word]
    if values is None:
        table.pop(path[-1], None)
        after = {"qos": {}} | after
    else:
        merged = table.get(path[-1], {}) | values
        table[path[-1]] = {key: value for key, value in merged.items() if value is not None}
    assert after == wanted
