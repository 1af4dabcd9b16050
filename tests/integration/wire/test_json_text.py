"""JSON as text without the json package: the same output and the same accepted input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpdeck_agent.wire import frames, jsontext

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_a_value_is_the_same_after_a_round_and_as_the_package_has_it(value: Any) -> None:
    text = jsontext.dumps(value)
    assert text == json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert jsontext.loads(f" {text}\n") == value == json.loads(text)


@given(st.text(alphabet='{}[],:"\\u01\x01antrue -.e', max_size=20))
def test_what_the_package_refuses_is_refused(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"line|value"):
            jsontext.loads(text)
    else:
        assert repr(jsontext.loads(text)) == repr(expected)


def test_it_says_what_is_wrong_where_the_package_was_not_loaded_yet() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from warpdeck_agent.wire import jsontext\n"
        "assert 'json' not in sys.modules and 're' not in sys.modules\n"
        "try: jsontext.loads('{')\n"
        "except ValueError as error: print(error)\n"
    )
    root = str(Path(frames.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-IS", "-c", code, root], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\n"


def test_what_is_no_value_is_not_written() -> None:
    with pytest.raises(TypeError, match="bytes is not a JSON value"):
        jsontext.dumps({"a": b""})
    whole: list[Any] = []
    whole.append(whole)
    with pytest.raises(RecursionError):
        jsontext.dumps(whole)
    assert jsontext.dumps([1]) == "[1]"
