"""Changes of config.toml in place."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpdeck.base.errors import UserError
from warpdeck.model.config_edit import Amendment, Value
from warpdeck.notation.config.rules import values_of
from warpdeck.notation.config.toml_edit import apply_changes

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
    return apply_changes(text, [Amendment(path=tuple(path.split("/")), values=values)])


def without(text: str, path: str) -> str:
    return apply_changes(text, [Amendment(path=tuple(path.split("/")))])


def test_a_value_is_changed_in_place_and_everything_else_stays() -> None:
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


def test_a_table_that_exists_only_through_its_subtables_gets_its_own_header() -> None:
    text = "[accounts.ml.users.ann]\ndefault = true\n[accounts.bio]\nusers.eve = {}\n"
    after = changed(text, "accounts/ml", shares=2)
    assert text.rstrip() in after
    assert values_of(after, "accounts", "ml") == {"shares": 2, "users": {"ann": {"default": True}}}
    assert values_of(changed(after, "accounts/ml/users", gus="x"), "accounts", "ml", "users")["gus"] == "x"


def test_a_new_table_is_added_below_similar_tables_and_can_be_removed() -> None:
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
def test_a_new_entry_has_the_style_of_similar_entries(
    path: str, values: dict[str, Value | None], line: str
) -> None:
    after = apply_changes(TEXT, [Amendment(path=tuple(path.split("/")), values=values)])
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
def test_tables_are_changed_in_every_style_of_toml(text: str, after: str) -> None:
    assert changed(text, "qos/high", max_wall="2") == after


def test_several_changes_are_applied_together() -> None:
    path = ("accounts", "speech", "users")
    gone = [Amendment(path=(*path, name)) for name in ("ann", "eve")]
    after = apply_changes(TEXT, [*gone, Amendment(path=("accounts", "speech"), values={"shares": 7})])
    assert values_of(after, "accounts", "speech") == {"shares": 7}


def test_invalid_tables_names_and_files_are_refused() -> None:
    with pytest.raises(UserError, match="is not a valid name"):
        changed("", "qos/a\nb")
    with pytest.raises(UserError, match="cannot be read"):
        changed("[qos", "qos/a")
    with pytest.raises(UserError, match="is not a table"):
        changed("qos = 3", "qos/a", priority=1)
    with pytest.raises(UserError, match="is not a table"):
        without("[[qos]]\na = 1\n", "qos")


def test_an_account_named_only_in_headers_of_its_users_survives_their_removal() -> None:
    text = "[accounts.ml.users.ann]\ndefault = true\n[accounts.bio]\nusers.eve = {}\n"
    assert without(text, "accounts/ml/users/ann") == "[accounts.bio]\nusers.eve = {}\n\n[accounts.ml]\n"
    both = without("[accounts.ml.users.ann]\n[accounts.ml.users.bob]\n", "accounts/ml/users/ann")
    assert both == "[accounts.ml.users.bob]\n"
    assert values_of(without(both, "accounts/ml/users/bob"), "accounts") == {"ml": {}}


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
def test_a_change_has_exactly_the_requested_effect_or_is_refused(
    lines: list[str], path: tuple[str, ...], values: dict[str, Value | None] | None
) -> None:
    text = "\n".join(["[qos.n]", *lines]) + "\n"
    try:
        wanted: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    try:
        after = tomllib.loads(apply_changes(text, [Amendment(path=path, values=values)]))
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
