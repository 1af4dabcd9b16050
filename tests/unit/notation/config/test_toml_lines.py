"""Lines of keys in texts with all features of TOML."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from warpdeck.config.problems import dotted, quoted
from warpdeck.notation.config.toml_lines import key_lines

TEXT = '''\
# a comment with [brackets] and = signs
first = 1  # another
"quoted key" = 'a # that is no comment'
dotted.inner . third = """
[not.a.table]
key = "\\"" # ""
"""
[table]   # ]
list = [
  1, # one ]
  { inline = "}", second = [ "]", ] },
  "three",
]
inline = { a = 1, b = { c = 2 } }
when = 1979-05-27T07:32:00Z
literal = \'\'\'
x = "1" \'\'\'\'
[table."sub]table"]
x = """two quotes at the end"""""
[[array]]
y = 2
[ spaced . name ]
z = -inf
'''

EXPECTED = {
    ("first",): 2,
    ("quoted key",): 3,
    ("dotted",): 4,
    ("dotted", "inner", "third"): 4,
    ("table",): 8,
    ("table", "list"): 9,
    ("table", "list", "inline"): 11,
    ("table", "inline", "b", "c"): 14,
    ("table", "when"): 15,
    ("table", "literal"): 16,
    ("table", "sub]table"): 18,
    ("table", "sub]table", "x"): 19,
    ("array", "y"): 21,
    ("spaced", "name"): 22,
    ("spaced", "name", "z"): 23,
}


def test_every_key_is_found_on_its_line() -> None:
    tomllib.loads(TEXT)
    found = key_lines(TEXT)
    assert {path: found.get(path) for path in EXPECTED} == EXPECTED
    assert not any("key" in path for path in found)


WORDS = st.text(min_size=1, max_size=8)
VALUES = st.recursive(
    st.one_of(st.integers(0, 99).map(str), st.text(max_size=8).map(quoted), st.just('"""\n#]"\n"""')),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda each: "[" + ",\n ".join(each) + "]"),
        st.dictionaries(WORDS, inner, max_size=3).map(
            lambda each: "{" + ", ".join(f"{dotted((key,))} = {value}" for key, value in each.items()) + "}"
        ),
    ),
    max_leaves=6,
)


@given(st.dictionaries(WORDS, st.dictionaries(WORDS, VALUES, max_size=4), max_size=4))
def test_each_key_of_any_valid_text_is_found_on_its_line(tables: dict[str, dict[str, str]]) -> None:
    lines: list[str] = []
    expected: dict[tuple[str, ...], int] = {}
    for table, pairs in tables.items():
        expected[table,] = "\n".join(lines).count("\n") + (2 if lines else 1)
        lines.append(f"[{dotted((table,))}]")
        for key, value in pairs.items():
            expected[table, key] = "\n".join(lines).count("\n") + 2
            lines.append(f"{dotted((key,))} = {value} # ]}}")
    text = "\n".join(lines)
    tomllib.loads(text)
    found = key_lines(text)
    assert {path: found.get(path) for path in expected} == expected
